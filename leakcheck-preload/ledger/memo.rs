//! Walks that were made before. A walk is a function of the words that it reads: where each says what it said then, the walk
//! comes to the same call stack. That is found out in a fraction of its time, since no place has to be waited for:
//! all are known. Each is read only after the words that led the walk to it were found to be the same, so that nothing is read
//! that the walk itself would not read.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::layout::walk;
use crate::pool::Pool;
use crate::thread::Read;

/// Records of walks.
pub type Words = Pool<1, { walk::FIRST }>;

/// Where walks are looked for, by the frame at which they begin and its return address. A slot has the number of a record in its
/// lower half, 0 for none; above it, in 24 bits, how often a walk was not found there since the record came; and how many
/// records it has had.
static SLOTS: [AtomicU64; 1 << 11] = [const { AtomicU64::new(0) }; 1 << 11];
const MISS: u64 = 1 << 32;
const RECORD: u64 = 1 << 56;

/// So many times a walk is made before a slot has its first record; four times as often before the next one, and so on: records are
/// never taken away, since another thread may be reading them.
const WORTH: u64 = 8;

/// Where a walk is looked for that begins at a frame, and what was found there.
pub struct Slot {
    word: &'static AtomicU64,
    found: u64,
}

/// The record of a walk: the number of its call stack, and for each of its reads [`READ`] words: the place, and the words that were
/// there. Behind the last one is [`END`].
#[derive(Clone, Copy)]
struct Record(*const AtomicU64);

/// Words of a read.
const READ: usize = 3;
/// Added to a place where two words were read and not one: places are multiples of 8.
const PAIR: u64 = 1;
/// No place. In a child that a signal handler has forked in the middle of [`Record::holds`] all of a record reads as zeros from
/// there on, and nothing is to be read by it.
const END: u64 = 0;

/// In which bits a word differs from what was there. (Two words are not compared at once: what was just pushed is had from the
/// processor's store buffer only by reads of its size.)
///
/// # Safety
/// Both are addresses of words.
#[inline(always)]
unsafe fn difference(place: u64, then: u64) -> u64 {
    let difference: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov {0}, qword ptr [{1}]",
            "xor {0}, qword ptr [{2}]",
            out(reg) difference,
            in(reg) place,
            in(reg) then,
            options(readonly, pure, nostack),
        );
    }
    difference
}

impl Record {
    #[inline(always)]
    fn word(self, word: usize) -> &'static AtomicU64 {
        // SAFETY: a record has an end, and lives as long as the process.
        unsafe { &*self.0.add(word) }
    }

    /// Its call stack, if the words say what they said. What they said is nowhere in a register that counts as a root: it may be
    /// the address of a block that nothing else refers to.
    ///
    /// # Safety
    /// As for [`crate::thread::walk`].
    #[inline(always)]
    unsafe fn holds(self, frame: usize) -> Option<u32> {
        let mut at = 1;
        if self.word(at).load(Relaxed) != frame as u64 | PAIR {
            return None;
        }
        loop {
            let place = self.word(at).load(Relaxed);
            let then = self.word(at + 1).as_ptr() as u64;
            let difference = if place & PAIR != 0 {
                let place = place - PAIR;
                // SAFETY: the walk would read there, since all that led to it says what it said.
                unsafe { difference(place, then) | difference(place + 8, then + 8) }
            } else if place == END {
                return Some(self.word(0).load(Relaxed) as u32);
            } else {
                // SAFETY: as above.
                unsafe { difference(place, then) }
            };
            if difference != 0 {
                return None;
            }
            at += READ;
        }
    }

    fn write(self, read: usize, Read { place, first, second }: Read) {
        let at = 1 + READ * read;
        self.word(at).store(if second.is_some() { place | PAIR } else { place }, Relaxed);
        self.word(at + 1).store(first, Relaxed);
        self.word(at + 2).store(second.unwrap_or(0), Relaxed);
    }
}

impl Slot {
    /// Where the walk is looked for that begins at the frame of a running hook.
    ///
    /// # Safety
    /// As for [`crate::thread::walk`].
    #[inline(always)]
    pub unsafe fn of(frame: usize) -> Self {
        // SAFETY: the frame's return address.
        let address = unsafe { *(frame as *const u64).add(1) };
        let mixed = (address ^ (frame as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = &SLOTS[(mixed >> 53) as usize];
        Self { word, found: word.load(Acquire) }
    }

    /// The number of the call stack, if such a walk was made before.
    ///
    /// # Safety
    /// As for [`crate::thread::walk`]; it is the same frame.
    #[inline(always)]
    pub unsafe fn call_stack(&self, frame: usize, words: &Words) -> Option<u32> {
        let number = self.found as u32;
        if number == 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { Record(words.words(number)).holds(frame) }
    }

    /// Counts that there was none; whether it is worth a record.
    pub fn missed(&self) -> bool {
        let (records, misses) = (self.found / RECORD, self.found % RECORD / MISS);
        let is_worth = misses >= WORTH.checked_shl(2 * records as u32).unwrap_or(u64::MAX);
        if !is_worth && misses < RECORD / MISS - 1 {
            // Another thread's may be lost.
            let _ = self.word.compare_exchange(self.found, self.found + MISS, Relaxed, Relaxed);
        }
        is_worth
    }

    /// Has the walk found from now on that has come to a call stack by `count` reads. `walk` makes it once more, and calls what it
    /// is given with each.
    pub fn keep(
        &self,
        words: &Words,
        call_stack: u32,
        count: usize,
        walk: impl FnOnce(&mut dyn FnMut(Read)),
    ) {
        let Some(number) = words.take(1 + READ * count + 1) else { return };
        let record = Record(words.words(number));
        record.word(0).store(call_stack.into(), Relaxed);
        record.word(1 + READ * count).store(END, Relaxed);
        let (mut written, mut is_aligned) = (0, true);
        walk(&mut |read| {
            if written < count {
                record.write(written, read);
            }
            written += 1;
            // Whoever uses the frame pointer for something else may lead a walk anywhere.
            is_aligned &= read.place.is_multiple_of(8);
        });
        let kept = (self.found / RECORD + 1) * RECORD + u64::from(number);
        if written == count && is_aligned {
            let _ = self.word.compare_exchange(self.found, kept, AcqRel, Relaxed);
        }
    }
}
