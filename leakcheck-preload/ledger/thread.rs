//! What each thread knows of itself, in thread-local storage that exists from its start on, and the
//! walk over its frames.

use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use crate::account::Account;
use crate::frames::{self, Way};
use crate::layout::MAX_FRAMES;
use crate::sys;
use crate::unwind::Frame;

/// Room for the frames of a call stack.
pub type Room = MaybeUninit<[u64; MAX_FRAMES]>;

/// A call stack: return addresses, innermost first, and a hash of them.
pub struct CallStack<'a> {
    pub frames: &'a [u64],
    pub hash: u64,
}

/// Odd factors for the frames' places: products can be taken side by side, while the next frame is
/// still being read. (Multilinear hashing; Lemire and Kaser, "Strongly universal string hashing is
/// fast", 2014.)
static FACTORS: [u64; MAX_FRAMES] = factors();

const fn factors() -> [u64; MAX_FRAMES] {
    let mut factors = [0; MAX_FRAMES];
    let (mut place, mut state) = (0, 0_u64);
    while place < MAX_FRAMES {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        factors[place] = (mixed ^ mixed >> 31) | 1;
        place += 1;
    }
    factors
}

/// Block records that a thread takes at a time, at first: two lines of a cache.
pub const FEWEST: usize = 2;
/// The most: a page, further than which no processor fetches ahead.
const MOST: u64 = 64;

/// What a thread knows of itself.
#[repr(C)]
pub struct Thread {
    /// Its id, 0 until it could be asked for.
    id: AtomicU32,
    /// Where the room is that it walks its frames into, 0 while it does not: what else is in there was left
    /// by others, and the tracer passes over it.
    room: AtomicUsize,
    /// Where its account is, 0 until it has one.
    account: AtomicUsize,
    /// The block records that it has been given and not used yet: the number of the first in the lower half, above it in 16
    /// bits how many they are, and in 16 more how many there will be the next time.
    records: AtomicU64,
}

const _: () = assert!(size_of::<Thread>() == 32);

// Rust has thread-local storage in its standard library only.
global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl leakcheck_thread",
    ".hidden leakcheck_thread",
    ".type leakcheck_thread, @object",
    ".size leakcheck_thread, 32",
    "leakcheck_thread: .zero 32",
    ".popsection",
);

/// The running thread's.
#[inline(always)]
pub fn current() -> &'static Thread {
    let words: *const Thread;
    // SAFETY: the initial-exec model of thread-local storage (ELF Handling For Thread-Local Storage,
    // 4.3.6): the library is loaded with the program, never later.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + leakcheck_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) words,
            options(pure, nomem, nostack),
        );
        // Nobody but the thread itself and its signal handlers has it.
        &*words
    }
}

impl Thread {
    #[inline(always)]
    pub fn id(&self) -> u32 {
        match self.id.load(Relaxed) {
            0 => {
                let id = sys::thread_id();
                self.id.store(id, Relaxed);
                id
            }
            id => id,
        }
    }

    /// Its id is another one now: it is the first thread of a process that was forked.
    pub fn forget_id(&self) {
        self.id.store(0, Relaxed);
    }

    /// The thread's account; the first time, `make` makes it. None where that has no memory.
    #[inline(always)]
    pub fn account(&self, make: impl FnOnce() -> Option<*const AtomicU64>) -> Option<Account> {
        let words = match self.account.load(Relaxed) {
            0 => {
                let words = make()?;
                self.account.store(words as usize, Relaxed);
                words
            }
            words => words as *const AtomicU64,
        };
        // SAFETY: an account of the pool, which is never given back.
        Some(unsafe { Account::at(words) })
    }

    /// The number of a block record that nobody else uses, or none. A thread takes more of them at a time the more it has taken, so that two
    /// threads seldom write to lines of a cache that are side by side, which processors fetch together, and a small one has few
    /// that it does not need.
    pub fn record(&self, take: impl Fn(usize) -> Option<u32>) -> Option<u32> {
        let mut records = self.records.load(Relaxed);
        loop {
            let (mut number, mut left, mut next) = (records as u32, records >> 32 & 0xffff, records >> 48);
            if left == 0 {
                left = next.max(FEWEST as u64);
                number = take(left as usize)?;
                next = (2 * left).min(MOST);
            }
            let rest = u64::from(number.wrapping_add(1)) | (left - 1) << 32 | next << 48;
            // A signal handler may have been faster.
            match self.records.compare_exchange(records, rest, Relaxed, Relaxed) {
                Ok(_) => return Some(number),
                Err(other) => records = other,
            }
        }
    }

    /// Does `work` with room for the frames of a call stack. In a signal handler that has interrupted this,
    /// the room is the handler's until it returns.
    #[inline(always)]
    pub fn with_room<T>(&self, work: impl FnOnce(&mut Room) -> T) -> T {
        let mut room = Room::uninit();
        let outer = self.room.load(Relaxed);
        self.room.store(&raw const room as usize, Relaxed);
        compiler_fence(SeqCst);
        let result = work(&mut room);
        compiler_fence(SeqCst);
        self.room.store(outer, Relaxed);
        result
    }

    /// How far the word of the room lies behind a thread's pointer.
    pub fn room_offset(&self) -> usize {
        let pointer: usize;
        // SAFETY: the thread pointer's own word, which has its address (as in `current`).
        unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack)) };
        (&raw const self.room as usize).wrapping_sub(pointer)
    }
}

/// What a walk has read at a place: one word, or two.
#[derive(Clone, Copy)]
pub struct Read {
    pub place: u64,
    pub first: u64,
    pub second: Option<u64>,
}

/// Bytes of stack that a walk and what it calls may take.
const SWEPT: usize = 2048;

/// Clears the stack below the running function, where a walk is about to begin: what others have left there would be in its frames
/// where it has not written yet, and if the thread were stopped in it, blocks that nothing refers to would pass for referred to.
#[inline(always)]
pub fn sweep() {
    // SAFETY: nobody has anything below the stack pointer; the compiler keeps nothing there where assembly code may use the stack.
    unsafe {
        asm!(
            "lea rdi, [rsp - {swept}]",
            "rep stosq",
            swept = const SWEPT,
            inout("rax") 0 => _,
            inout("rcx") SWEPT / 8 => _,
            out("rdi") _,
        );
    }
}

/// Takes the return addresses from the frame at `frame` outwards: by the chain of frame pointers, and
/// by the table of frames through code that keeps none.
///
/// What is read is part of a live stack as long as the table describes the code on the way. Behind
/// code that it does not describe, a frame pointer may be any number: memory is read by a system call
/// from there on, which fails where there is none.
///
/// `note` is called with what was read, in the order in which the one led to the other; with none for what took a system call.
///
/// # Safety
/// `frame` is that of a function that is running: its saved frame pointer, and behind it its return
/// address.
#[inline(always)]
pub unsafe fn walk(frame: usize, room: &mut Room, mut note: impl FnMut(Option<Read>)) -> CallStack<'_> {
    let frames = room.as_mut_ptr().cast::<u64>();
    let (mut count, mut hash) = (0, 0_u64);
    // SAFETY: the caller's promise.
    let [fp, mut address] = unsafe { *(frame as *const [u64; 2]) };
    note(Some(Read { place: frame as u64, first: fp, second: Some(address) }));
    let mut at = Frame { sp: frame as u64 + 16, fp };
    let mut sure = true;
    for factor in &FACTORS {
        // SAFETY: there is room for `MAX_FRAMES`.
        unsafe { *frames.add(count) = address };
        hash = hash.wrapping_add(address.wrapping_mul(*factor));
        count += 1;
        let caller = if sure && frames::keeps_pointer(address) && is_near(at.fp, at) {
            // SAFETY: by the table, `fp` is the frame pointer of code that has not returned; were it
            // another number, it would still be one of the stack.
            let [fp, address] = unsafe { *(at.fp as *const [u64; 2]) };
            note(Some(Read { place: at.fp, first: fp, second: Some(address) }));
            Some((address, Frame { sp: at.fp + 16, fp }))
        } else {
            leave(address, at, &mut sure, &mut note)
        };
        match caller {
            Some((next, frame)) if next != 0 => (address, at) = (next, frame),
            _ => break,
        }
    }
    // SAFETY: so many were written.
    CallStack { frames: unsafe { core::slice::from_raw_parts(frames, count) }, hash }
}

/// The caller of any code: its return address and frame. Out of the way of the loop, whose registers
/// it would take.
#[inline(never)]
fn leave(
    address: u64,
    at: Frame,
    sure: &mut bool,
    note: &mut impl FnMut(Option<Read>),
) -> Option<(u64, Frame)> {
    let way = frames::way(address);
    *sure &= !matches!(way, Way::Unknown);
    match way {
        Way::Row(row) => row.caller(at, |place| read(place, at, *sure, note).map(|[word]| word)),
        Way::Pointer | Way::Unknown if at.fp < at.sp => None,
        Way::Pointer | Way::Unknown => {
            let [fp, address] = read(at.fp, at, *sure, note)?;
            Some((address, Frame { sp: at.fp.checked_add(16)?, fp }))
        }
    }
}

/// Reads words of a stack.
#[inline(always)]
fn read<const WORDS: usize>(
    place: u64,
    at: Frame,
    sure: bool,
    note: &mut impl FnMut(Option<Read>),
) -> Option<[u64; WORDS]> {
    if !(sure && is_near(place, at)) {
        note(None);
        return sys::read(place as usize);
    }
    // SAFETY: by the table, they are part of a live frame, as in `walk`.
    let words = unsafe { *(place as *const [u64; WORDS]) };
    note(Some(Read { place, first: words[0], second: words.get(1).copied() }));
    Some(words)
}

/// Whether a place is little further up than a frame's end: on its stack, however small that is and whatever
/// was taken for a frame pointer. Assembly code may use `rbp` for anything, and few frames are larger.
#[inline(always)]
fn is_near(place: u64, at: Frame) -> bool {
    place.wrapping_sub(at.sp) < 16 << 10
}
