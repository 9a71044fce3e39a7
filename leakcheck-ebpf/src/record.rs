//! Writing to the tables. What finds no room is counted.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_ANY, BPF_F_USER_STACK, BPF_NOEXIST};
use aya_ebpf::helpers::generated::bpf_get_stack;
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use leakcheck_common::{LOG_PAGE_WORDS, LOG_STACKS, MAX_FRAMES, block, process, stack, thread};

use crate::call::stack_pointer;
use crate::heap::Old;
use crate::maps::{self, BAD_FREES, BLOCKS, Current, EMPTY_PAGE};
use crate::outer;
use crate::records::{Refusal, put};

/// Records a block at the return of the call that allocated it, which is there in the place of another one that counted, if any.
#[inline(always)]
pub fn allocated(
    ctx: &RetProbeContext,
    current: Current,
    record: &mut [u64; thread::WORDS],
    address: u64,
    size: u64,
    old: Old,
) {
    let in_window = record[thread::IN_WINDOW] != 0;
    let mut flags = block::FLAG_LIVE | u64::from(current.thread) << 32;
    let mut hash = 0;
    if in_window {
        flags |= block::FLAG_WINDOW;
        if record[thread::NOTES] != 0 {
            flags |= block::FLAG_NOTED;
        }
        // SAFETY: the registers are the context that the kernel passed to this program; at a return
        // the instruction pointer is where the function returns to.
        let caller = unsafe { (*ctx.regs).rip };
        hash = if outer::is_inside(record, record[thread::CALL_SP], caller) {
            keep::<{ thread::OUTER }>(current, record)
        } else {
            call_stack(ctx, current, record, None)
        };
        current.allocated(size, hash, old);
    } else if old.bytes != 0 {
        current.replaced(old);
    }
    // SAFETY: a helper without arguments.
    let value = [size, flags, hash, unsafe { bpf_ktime_get_ns() }, 0];
    let key = [u64::from(current.process), address];
    if let Some(found) = BLOCKS.get_ptr_mut(&key) {
        // SAFETY: the allocator has just given this address to the running thread alone.
        let found = unsafe { &mut *found };
        mark_freed(current, found);
        *found = value;
    } else {
        match put(&BLOCKS, &key, &value, BPF_ANY) {
            Ok(()) => log(current, process::LOGGED_BLOCKS, 0, address),
            Err(refusal) => refusal.count(current, process::LOST_BLOCKS),
        }
    }
}

/// Flags of a live block that counts.
const COUNTED: u64 = block::FLAG_LIVE | block::FLAG_WINDOW;

/// Clears the live flag of a block's record: the block is gone.
#[inline(always)]
pub fn mark_freed(current: Current, found: &mut [u64; block::WORDS]) {
    if found[block::FLAGS] & COUNTED == COUNTED {
        current.gone(Old { bytes: found[block::SIZE], stack: found[block::STACK] });
    }
    found[block::FLAGS] &= !block::FLAG_LIVE;
}

/// Clears it for as long as a `realloc` of the block is under way, which takes its bytes over (see [`saved`]).
#[inline(always)]
pub fn mark_moving(current: Current, found: &mut [u64; block::WORDS]) {
    if found[block::FLAGS] & COUNTED == COUNTED {
        current.count(process::WINDOW_LIVE, u64::MAX);
    }
    found[block::FLAGS] &= !block::FLAG_LIVE;
}

/// The old block of a `realloc`; nothing if it did not count.
#[inline(always)]
pub fn saved(record: &[u64; thread::WORDS]) -> Old {
    if record[thread::SAVED + block::FLAGS] & COUNTED != COUNTED {
        return Old::default();
    }
    Old { bytes: record[thread::SAVED + block::SIZE], stack: record[thread::SAVED + block::STACK] }
}

/// Restores the record of a block that a failed `realloc` left alone.
#[inline(always)]
pub fn put_back(current: Current, record: &[u64; thread::WORDS]) {
    let key = [u64::from(current.process), record[thread::CALL_POINTER]];
    let Some(found) = BLOCKS.get_ptr_mut(&key) else { return };
    // SAFETY: the block still belongs to the caller; nobody else changes its record meanwhile.
    let found = unsafe { &mut *found };
    found[0] = record[thread::SAVED];
    found[1] = record[thread::SAVED + 1];
    found[2] = record[thread::SAVED + 2];
    found[3] = record[thread::SAVED + 3];
    found[4] = record[thread::SAVED + 4];
    if found[block::FLAGS] & block::FLAG_WINDOW != 0 {
        current.count(process::WINDOW_LIVE, 1);
    }
}

/// Notes where a block is freed, if that is asked for.
#[inline(always)]
pub fn note_free(
    ctx: &ProbeContext,
    current: Current,
    record: &mut [u64; thread::WORDS],
    found: &mut [u64; block::WORDS],
) {
    if found[block::FLAGS] & block::FLAG_NOTED != 0 {
        // At the entry of a function its direct caller is still at the top of the stack.
        // SAFETY: the helper checks the address.
        let caller = unsafe { bpf_probe_read_user(stack_pointer(ctx.regs) as *const u64) }.unwrap_or(0);
        found[block::FREED] = call_stack(ctx, current, record, Some(caller));
    }
}

/// Records a free of something that is not allocated; `before` is the record of what was freed there.
#[inline(always)]
pub fn bad_free(
    ctx: &ProbeContext,
    current: Current,
    record: &mut [u64; thread::WORDS],
    address: u64,
    before: Option<&[u64; block::WORDS]>,
) {
    // SAFETY: the helper checks the address.
    let caller = unsafe { bpf_probe_read_user(stack_pointer(ctx.regs) as *const u64) }.unwrap_or(0);
    // glibc returns what a finished thread had cached through its own `free`: freed blocks, and a
    // cache that it never asked `malloc` for (malloc/malloc.c, `tcache_thread_shutdown`).
    if caller.wrapping_sub(record[thread::LIBC_START]) < record[thread::LIBC_SIZE] {
        return;
    }
    let hash = call_stack(ctx, current, record, Some(caller));
    let Some(number) = current.fetch_add(process::BAD_FREES, 1) else { return };
    let key = [u64::from(current.process), number];
    let value = match before {
        Some(block) => [address, 1, hash, block[block::STACK], block[block::FREED]],
        None => [address, 0, hash, 0, 0],
    };
    if let Err(refusal) = put(&BAD_FREES, &key, &value, BPF_ANY) {
        refusal.count(current, process::LOST_FREES);
    }
}

/// Takes the call stack into the table; its hash, or 0 if it is lost. `caller` replaces the
/// innermost frame. The walk follows frame pointers (`perf_callchain_user`).
#[inline(always)]
fn call_stack<C: EbpfContext>(
    ctx: &C,
    current: Current,
    record: &mut [u64; thread::WORDS],
    caller: Option<u64>,
) -> u64 {
    const FRAMES: usize = thread::SCRATCH + stack::FRAMES;
    // SAFETY: the scratch room at the end of the record holds MAX_FRAMES words.
    let bytes = unsafe {
        let room = record.as_mut_ptr().add(FRAMES);
        bpf_get_stack(ctx.as_ptr(), room.cast(), (MAX_FRAMES * 8) as u32, BPF_F_USER_STACK.into())
    };
    if bytes < 8 {
        current.count(process::UNREAD_STACKS, 1);
        return 0;
    }
    let count = bytes as usize / 8;
    if let Some(caller) = caller {
        record[FRAMES] = caller;
    }
    record[thread::SCRATCH + stack::COUNT] = count as u64;
    keep::<{ thread::SCRATCH }>(current, record)
}

/// Takes the call stack at word `PLACE` of a thread record into the table; its hash, or 0 if it is
/// lost.
#[inline(always)]
fn keep<const PLACE: usize>(current: Current, record: &[u64; thread::WORDS]) -> u64 {
    let count = record[PLACE + stack::COUNT] as usize;
    let mut hash: u64 = count as u64;
    for index in 0..MAX_FRAMES {
        if index >= count {
            break;
        }
        hash = (hash ^ record[PLACE + stack::FRAMES + index]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    let key = [u64::from(current.process), hash | 1];
    // SAFETY: the room at `PLACE` is a whole stack record.
    let value = unsafe { &*record.as_ptr().add(PLACE).cast::<[u64; stack::WORDS]>() };
    match maps::stacks().put(&key, value, BPF_NOEXIST) {
        Ok(()) => log(current, process::LOGGED_STACKS, LOG_STACKS, hash | 1),
        // It is known, or another thread was faster with it.
        Err(Refusal::Exists) => {}
        Err(refusal) => {
            refusal.count(current, process::LOST_STACKS);
            return 0;
        }
    }
    hash | 1
}

/// Appends a key to the process's log of keys.
#[inline(always)]
fn log(current: Current, counter: usize, kind: u32, key: u64) {
    let Some(number) = current.fetch_add(counter, 1) else { return };
    let place = [current.process, kind | (number / LOG_PAGE_WORDS as u64) as u32];
    let Some(empty) = EMPTY_PAGE.get(0) else { return };
    // Two threads may make the page, one in each of the tables: the tracer reads both.
    if let Err(refusal) = maps::log().put(&place, empty, BPF_NOEXIST)
        && refusal != Refusal::Exists
    {
        return refusal.count(current, process::LOST_LOG);
    }
    if let Some(page) = maps::log().get(&place) {
        // SAFETY: the index is below the page's length, and its number is this call's alone.
        unsafe { (*page)[number as usize % LOG_PAGE_WORDS] = key }
    }
}
