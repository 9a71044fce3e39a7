//! The ledger's state, and writing to it.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::account::{Account, Shared};
use crate::by_stack::ByStack;
use crate::layout::{self, account, block, control, stack};
use crate::memo::{self, Slot};
use crate::pool::Pool;
use crate::table::{BLOCK_ROOTS, Block, Blocks, STACK_ROOTS, Stacks};
use crate::thread::Room;
use crate::{next, sys, thread};

/// The words that the tracer reads, by their name.
#[unsafe(no_mangle)]
pub static LEAKCHECK_LEDGER: [AtomicU64; control::WORDS] = [const { AtomicU64::new(0) }; control::WORDS];

static BLOCKS: Blocks = Blocks {
    pool: Pool::new(chunks(control::BLOCK_CHUNKS), &LEAKCHECK_LEDGER[control::BLOCKS]),
    roots: AtomicU64::new(0),
};
static STACKS: Stacks = Stacks {
    pool: Pool::new(chunks(control::STACK_CHUNKS), &LEAKCHECK_LEDGER[control::STACKS]),
    roots: AtomicU64::new(0),
};
static WALKS: memo::Words = Pool::new(chunks(control::WALK_CHUNKS), &LEAKCHECK_LEDGER[control::WALKS]);
static ACCOUNTS: Pool<{ account::WORDS }, { account::FIRST }> =
    Pool::new(chunks(control::ACCOUNT_CHUNKS), &LEAKCHECK_LEDGER[control::ACCOUNTS]);

/// Where the word is that says whether this process records. It is 0 in a forked child, whose
/// blocks are nobody's business, and which has no tables.
static RECORDING: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// 1 while the ledger is being set up.
static STARTING: AtomicU32 = AtomicU32::new(0);
/// Stands for the word where the ledger could not be set up.
static OFF: AtomicU32 = AtomicU32::new(0);
/// The window bits of the kernel side; null where there are none.
static WINDOW: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

const fn chunks(first: usize) -> &'static [AtomicU64] {
    LEAKCHECK_LEDGER.split_at(first).1.split_at(control::CHUNKS).0
}

/// Whether calls are recorded.
#[inline(always)]
pub fn is_recording() -> bool {
    let word = RECORDING.load(Ordering::Relaxed);
    if word.is_null() {
        return start();
    }
    // SAFETY: `OFF`, or the first word of the ledger's own memory.
    unsafe { (*word).load(Ordering::Relaxed) != 0 }
}

/// Sets the ledger up, at the first allocation of the process: the loader's, before it has started
/// any other thread.
#[cold]
fn start() -> bool {
    if STARTING.swap(1, Ordering::AcqRel) != 0 {
        // A signal handler in the middle of this, or the loader in `next::find`.
        LEAKCHECK_LEDGER[control::LOST_BLOCKS].fetch_add(1, Ordering::Relaxed);
        return false;
    }
    next::find();
    RECORDING.store(prepare().unwrap_or((&raw const OFF).cast_mut()), Ordering::Release);
    is_recording()
}

/// Maps the first memory: the word and the page of roots and first chunks.
fn prepare() -> Option<*mut AtomicU32> {
    const WORD: usize = 4096;
    const ROOTS: usize = BLOCK_ROOTS * 4 + STACK_ROOTS * 4;
    const BLOCK_BYTES: usize = block::FIRST * block::WORDS * 8;
    const ACCOUNT_BYTES: usize = account::FIRST * account::WORDS * 8;
    const BYTES: usize = WORD + ROOTS + ACCOUNT_BYTES + BLOCK_BYTES + stack::FIRST * 8;
    let start = sys::map(BYTES)?;
    if !sys::wipe_in_children(start, BYTES) {
        // SAFETY: nobody knows of it.
        unsafe { sys::unmap(start, BYTES) };
        return None;
    }
    let set = |word: usize, value: usize| LEAKCHECK_LEDGER[word].store(value as u64, Ordering::Relaxed);
    if let Some(address) = find_window() {
        WINDOW.store(address as *mut AtomicU64, Ordering::Relaxed);
        set(control::WINDOW, 1);
    }
    set(control::ROOM, thread::current().room_offset());
    set(control::REGION, start);
    set(control::REGION + 1, start + BYTES);
    // Number 0 means none.
    set(control::BLOCKS, thread::FEWEST);
    set(control::STACKS, 1);
    set(control::WALKS, 1);
    set(control::ACCOUNT_CHUNKS, start + WORD + ROOTS);
    set(control::BLOCK_CHUNKS, start + WORD + ROOTS + ACCOUNT_BYTES);
    set(control::STACK_CHUNKS, start + WORD + ROOTS + ACCOUNT_BYTES + BLOCK_BYTES);
    BLOCKS.roots.store((start + WORD) as u64, Ordering::Relaxed);
    STACKS.roots.store((start + WORD + BLOCK_ROOTS * 4) as u64, Ordering::Relaxed);
    LEAKCHECK_LEDGER[control::VERSION].store(layout::VERSION, Ordering::Release);
    let word = start as *mut AtomicU32;
    // SAFETY: the first word of memory that was just mapped.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    Some(word)
}

/// Calls `with` with address and size of all memory for records; whether it always was true.
pub fn for_each_memory(with: fn(usize, usize) -> bool) -> bool {
    let word = |word: usize| LEAKCHECK_LEDGER[word].load(Ordering::Relaxed) as usize;
    let start = word(control::REGION);
    if !with(start, word(control::REGION + 1) - start) {
        return false;
    }
    let pools = [
        (control::BLOCK_CHUNKS, block::FIRST, block::WORDS),
        (control::STACK_CHUNKS, stack::FIRST, 1),
        (control::ACCOUNT_CHUNKS, account::FIRST, account::WORDS),
    ];
    for (chunks, first, words) in pools {
        // The first chunks are part of that.
        for chunk in 1..control::CHUNKS {
            let start = word(chunks + chunk);
            if start != 0 && !with(start, layout::length(chunk, first) * words * 8) {
                return false;
            }
        }
    }
    true
}

/// Maps the window bits, whichever descriptor has them, and closes that.
fn find_window() -> Option<usize> {
    layout::WINDOW_FDS.into_iter().find_map(|descriptor| {
        let address = sys::map_shared(descriptor, layout::WINDOW_BYTES)?;
        // It may be a descriptor that the program inherits, of a file that is shorter than this.
        if sys::read(address + layout::WINDOW_BYTES - 8) == Some([layout::WINDOW_MAGIC]) {
            sys::close(descriptor);
            return Some(address);
        }
        // SAFETY: nobody knows of it.
        unsafe { sys::unmap(address, layout::WINDOW_BYTES) };
        None
    })
}

/// The record of an address that was allocated before.
#[inline(always)]
pub fn find(address: usize) -> Option<Block> {
    BLOCKS.find(address)
}

/// What is gone of a block that counted.
#[derive(Clone, Copy, Default)]
pub struct Old {
    pub bytes: u64,
    /// The number of its call stack.
    pub stack: u32,
}

/// Writes a new block down, which is there in the place of another one that counted. `frame` is that of the
/// running hook.
#[inline(always)]
pub fn allocated(address: usize, size: usize, old: Old, frame: usize) {
    let thread = thread::current();
    let id = thread.id();
    let mut flags = u64::from(id) << 32 | block::LIVE;
    let mut stack = 0;
    if id == 0 {
        lost(control::NAMELESS);
    } else if is_in_window(id) {
        flags |= block::WINDOW;
        stack = call_stack(frame);
        // No block has more than `isize::MAX` bytes.
        count(|account| {
            account.allocated(size);
            let stacks = move || u64::from(old.stack) << 32 | u64::from(stack);
            account.change((size as i64).wrapping_sub(old.bytes as i64), old.bytes, stacks, shared);
        });
    }
    if old.bytes != 0 && flags & block::WINDOW == 0 {
        gone(old.bytes, move || old.stack);
    }
    match BLOCKS.find_or_make(address) {
        Some(record) => record.write(size as u64, sys::time(), stack, flags),
        None => lost(control::LOST_BLOCKS),
    }
}

/// Takes a block that counted, of so many bytes, off the running thread's account; `stack` is the number of its call stack.
#[inline(always)]
pub fn gone(bytes: u64, stack: impl FnOnce() -> u32) {
    let stacks = move || u64::from(stack()) << 32;
    count(|account| account.change(0_i64.wrapping_sub(bytes as i64), bytes, stacks, shared));
}

/// The program is about to begin. Where the peak is to be exact, it is so from here on: what constructors have allocated is in
/// the account of the only thread that there was.
pub fn settle() {
    let shared = shared();
    let is_only = LEAKCHECK_LEDGER[control::ACCOUNTS].load(Ordering::Relaxed) == 1;
    if shared.slack == 0
        && is_only
        && let Some(account) = thread::current().account(|| None)
    {
        account.settle(shared);
    }
}

/// Changes the running thread's account.
#[inline(always)]
fn count(change: impl FnOnce(Account)) {
    match thread::current().account(make_account) {
        Some(account) => change(account),
        None => lost(control::LOST_ACCOUNTS),
    }
}

/// What threads hand over to. Made where they do: a hook's frame has no room that it may leave unwritten.
fn shared() -> Shared {
    let exact = LEAKCHECK_LEDGER[control::EXACT].load(Ordering::Relaxed) != 0;
    Shared {
        live: &LEAKCHECK_LEDGER[control::SHARED],
        most: &LEAKCHECK_LEDGER[control::SHARED + 1],
        slack: if exact { 0 } else { layout::SLACK },
        by_stack: ByStack::of(&LEAKCHECK_LEDGER, &STACKS.pool, thread::current().id()),
    }
}

#[cold]
fn make_account() -> Option<*const AtomicU64> {
    let words = ACCOUNTS.take(1).map(|number| ACCOUNTS.words(number))?;
    if shared().by_stack.is_some() {
        // Not even a change by nothing is kept.
        // SAFETY: an account has `account::WORDS` words.
        unsafe { (*words.add(account::TOP)).store(u64::MAX, Ordering::Relaxed) };
    }
    Some(words)
}

/// Whether what a thread allocates counts.
#[inline(always)]
fn is_in_window(thread: u32) -> bool {
    let bits = WINDOW.load(Ordering::Relaxed);
    if bits.is_null() {
        return LEAKCHECK_LEDGER[control::ALL].load(Ordering::Relaxed) != 0;
    }
    let word = thread as usize / 64;
    // SAFETY: the bits stay mapped, and the place is inside.
    word < layout::WINDOW_BYTES / 8
        && unsafe { (*bits.add(word)).load(Ordering::Relaxed) } >> (thread % 64) & 1 != 0
}

/// Whether it is to be noted where blocks are freed.
#[inline(always)]
pub fn notes_frees() -> bool {
    LEAKCHECK_LEDGER[control::NOTES].load(Ordering::Relaxed) != 0
}

/// Notes where a block is freed.
#[cold]
pub fn note_free(record: Block, frame: usize) {
    if record.flags() & block::WINDOW != 0 {
        record.set_freed(call_stack(frame));
    }
}

/// Writes down a free of something that is not allocated; `before` is what was freed there.
#[cold]
pub fn bad_free(address: usize, before: Option<Block>, frame: usize) {
    let thread = thread::current();
    let double = if before.is_some() { block::DOUBLE } else { 0 };
    let flags = block::BAD_FREE | double | u64::from(thread.id()) << 32;
    let stack = call_stack(frame);
    let before = before.map_or(0, |record| record.stacks());
    if BLOCKS.bad_free(address, before, sys::time(), stack, flags).is_none() {
        lost(control::LOST_BLOCKS);
    }
}

/// The number of the call stack from the hook's frame outwards, 0 if it is lost.
#[inline(always)]
fn call_stack(frame: usize) -> u32 {
    // SAFETY: the caller's frame, which is running.
    let slot = unsafe { Slot::of(frame) };
    // SAFETY: as above.
    match unsafe { slot.call_stack(frame, &WALKS) } {
        Some(number) => number,
        None => {
            thread::sweep();
            walk(frame, slot)
        }
    }
}

/// The same by a walk, which may be remembered.
#[inline(never)]
fn walk(frame: usize, slot: Slot) -> u32 {
    thread::current().with_room(|room| {
        // SAFETY: as above.
        let stack = unsafe { thread::walk(frame, room, |_| {}) };
        let Some(number) = STACKS.number(stack) else {
            lost(control::LOST_STACKS);
            return 0;
        };
        if slot.missed() {
            remember(frame, room, slot, number);
        }
        number
    })
}

/// Has the walk from a frame found from now on, which has come to a call stack.
#[cold]
#[inline(never)]
fn remember(frame: usize, room: &mut Room, slot: Slot, number: u32) {
    let mut count = Some(0);
    // SAFETY: as above.
    unsafe { thread::walk(frame, room, |read| count = count.and_then(|count| read.map(|_| count + 1))) };
    if let Some(count) = count {
        slot.keep(&WALKS, number, count, |note| {
            // SAFETY: as above.
            unsafe { thread::walk(frame, room, |read| _ = read.map(&mut *note)) };
        });
    }
}

#[cold]
fn lost(counter: usize) {
    LEAKCHECK_LEDGER[counter].fetch_add(1, Ordering::Relaxed);
}
