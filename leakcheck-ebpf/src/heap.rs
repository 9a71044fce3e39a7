//! How much a process has allocated in its window, and how much of that is alive; where it is asked for, by call stacks, and
//! what of that was alive at the peak.

use leakcheck_common::{process, stack};

use crate::maps::{self, Current, PROCESSES, add};

/// A block that counted, and is gone or replaced.
#[derive(Clone, Copy, Default)]
pub struct Old {
    pub bytes: u64,
    /// Hash of its call stack, 0 if that was lost, or if there is no such block.
    pub stack: u64,
}

impl Current {
    /// Counts a block that counts, which is there in the place of another one that did. `stack` is the hash of its call stack.
    #[inline(always)]
    pub fn allocated(self, size: u64, stack: u64, old: Old) -> Option<()> {
        let record = PROCESSES.get_ptr_mut(&self.process)?;
        add(record, process::WINDOW_LIVE, 1);
        add(record, process::TOTAL_BLOCKS, 1);
        add(record, process::TOTAL_BYTES, size);
        self.change(record, size.wrapping_sub(old.bytes), stack, old);
        Some(())
    }

    /// Counts that a block that did count is gone.
    #[inline(always)]
    pub fn gone(self, old: Old) -> Option<()> {
        let record = PROCESSES.get_ptr_mut(&self.process)?;
        add(record, process::WINDOW_LIVE, u64::MAX);
        self.change(record, 0_u64.wrapping_sub(old.bytes), 0, old);
        Some(())
    }

    /// Takes the old block of a `realloc` off the live bytes, whose new one does not count.
    #[inline(always)]
    pub fn replaced(self, old: Old) -> Option<()> {
        self.change(PROCESSES.get_ptr_mut(&self.process)?, 0_u64.wrapping_sub(old.bytes), 0, old);
        Some(())
    }

    /// Changes the live bytes, and keeps their peak; by call stacks as well, where that is asked for.
    #[inline(always)]
    fn change(self, record: *mut ProcessRecord, by: u64, stack: u64, old: Old) {
        if read(record, process::BY_STACK) != ON {
            if by != 0 {
                change(record, by);
            }
            return;
        }
        let (from, to) = (self.stack(old.stack), self.stack(stack));
        if !self.enter(record) {
            // SAFETY: as in `read`.
            unsafe { record.cast::<u64>().add(process::BY_STACK).write_volatile(LOST) };
            change(record, by);
            return;
        }
        let last = read(record, process::MAXIMA);
        add_to(from, last, 0_u64.wrapping_sub(old.bytes), u64::MAX);
        add_to(to, last, by.wrapping_add(old.bytes), 1);
        if change(record, by) {
            add(record, process::MAXIMA, 1);
        }
        exchange(record, process::HOLDER, u64::from(self.thread), 0);
    }

    /// The record of a call stack; null if there is none.
    #[inline(always)]
    fn stack(self, hash: u64) -> *mut [u64; stack::WORDS] {
        if hash == 0 {
            return core::ptr::null_mut();
        }
        maps::stacks().get(&[u64::from(self.process), hash]).unwrap_or(core::ptr::null_mut())
    }

    /// Waits for the running thread's turn at call stacks; whether it has come.
    #[inline(always)]
    fn enter(self, record: *mut ProcessRecord) -> bool {
        /// The thread that is waited for does not wait for anything itself.
        const ATTEMPTS: usize = 1000;
        for _ in 0..ATTEMPTS {
            if exchange(record, process::HOLDER, 0, u64::from(self.thread)).1 {
                return true;
            }
        }
        false
    }
}

type ProcessRecord = [u64; process::WORDS];

/// Values of `process::BY_STACK`.
const ON: u64 = 1;
const LOST: u64 = 2;

/// A word of a process record.
#[inline(always)]
fn read(record: *mut ProcessRecord, word: usize) -> u64 {
    // SAFETY: `word` is below `process::WORDS` at every call; the map keeps the value for as long as the program runs.
    unsafe { record.cast::<u64>().add(word).read_volatile() }
}

/// Replaces a word of a process record if it has a value; what it had, and whether it was replaced.
#[inline(always)]
fn exchange(record: *mut ProcessRecord, word: usize, old: u64, new: u64) -> (u64, bool) {
    use core::intrinsics::{AtomicOrdering::SeqCst, atomic_cxchg};
    // SAFETY: as in `read`; map values are aligned to 8 bytes.
    unsafe { atomic_cxchg::<u64, { SeqCst }, { SeqCst }>(record.cast::<u64>().add(word), old, new) }
}

/// Adds to what is alive of a call stack, `last` being the last maximum.
#[inline(always)]
fn add_to(record: *mut [u64; stack::WORDS], last: u64, bytes: u64, blocks: u64) {
    if record.is_null() {
        return;
    }
    // SAFETY: the words are those of a record; the map keeps it for as long as the program runs, and nobody else is here.
    let get = |word: usize| unsafe { record.cast::<u64>().add(word).read_volatile() };
    // SAFETY: as above.
    let set = |word: usize, value| unsafe { record.cast::<u64>().add(word).write_volatile(value) };
    if get(stack::MAXIMUM) != last {
        set(stack::OLD_BYTES, get(stack::BYTES));
        set(stack::OLD_BLOCKS, get(stack::BLOCKS));
        set(stack::MAXIMUM, last);
    }
    set(stack::BYTES, get(stack::BYTES).wrapping_add(bytes));
    set(stack::BLOCKS, get(stack::BLOCKS).wrapping_add(blocks));
}

/// Changes the live bytes, and keeps their peak; whether there were never more.
#[inline(always)]
fn change(record: *mut ProcessRecord, by: u64) -> bool {
    /// Attempts at a peak: each that fails has found another thread's.
    const ATTEMPTS: usize = 16;
    let live = add(record, process::LIVE_BYTES, by).wrapping_add(by);
    let mut peak = read(record, process::PEAK_BYTES);
    for _ in 0..ATTEMPTS {
        if live as i64 <= peak as i64 {
            return false;
        }
        let (seen, done) = exchange(record, process::PEAK_BYTES, peak, live);
        if done {
            return true;
        }
        peak = seen;
    }
    add(record, process::LOST_PEAKS, 1);
    false
}
