//! The allocator's functions: what a call asks for, and what came of it.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::{bpf_get_attach_cookie, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use leakcheck_common::{block, process, site, thread};

use crate::heap::Old;
use crate::maps::{BLOCKS, Current};
use crate::record;

/// Further below its entry than this no allocator calls another one.
const DEPTH: u64 = 64 << 10;

/// The stack pointer at a probe.
#[inline(always)]
pub fn stack_pointer(regs: *mut pt_regs) -> u64 {
    // SAFETY: the registers are the context that the kernel passed to this program.
    unsafe { (*regs).rsp }
}

/// Remembers a call until it returns. Allocating functions that call each other count once: the
/// outermost one does.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    // SAFETY: the context is the one this program was called with.
    let site = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let sp = stack_pointer(ctx.regs);
    if record[thread::CALL] != 0 && sp <= record[thread::CALL_SP] {
        if is_nested(record, site, sp) {
            return None;
        }
        // The call before this one never returned to us: its result is unknown.
        current.count(process::LOST_RESULTS, 1);
    }
    let (first, second): (u64, u64) = (ctx.arg(0)?, ctx.arg(1)?);
    let (size, pointer) = match site {
        site::ALLOC_SIZE => (first, 0),
        site::ALLOC_COUNT => (first.wrapping_mul(second), 0),
        site::ALLOC_ALIGNED => (second, 0),
        site::ALLOC_OUT => (ctx.arg(2)?, first),
        site::REALLOC => (second, first),
        site::REALLOC_COUNT => (second.wrapping_mul(ctx.arg(2)?), first),
        site::REALLOC_FOURTH => (ctx.arg(3)?, first),
        _ => return None,
    };
    let is_realloc = matches!(site, site::REALLOC | site::REALLOC_COUNT | site::REALLOC_FOURTH);
    record[thread::CALL] = if is_realloc { site::REALLOC } else { site };
    record[thread::CALL_SP] = sp;
    record[thread::CALL_SIZE] = size;
    record[thread::CALL_POINTER] = pointer;
    record[thread::HAS_SAVED] = 0;
    if is_realloc && pointer != 0 {
        take_old(ctx, current, record, pointer);
    }
    Some(())
}

/// Whether a call that starts below the one in flight is part of it: `realloc` of nothing and `memalign` to
/// no more than `malloc` aligns to jump to `malloc` with the same stack pointer, all others are called from
/// the C library's own code. Where allocators call each other, the outermost call is the one that counts.
#[inline(always)]
fn is_nested(record: &[u64; thread::WORDS], site: u64, sp: u64) -> bool {
    if record[thread::LAYERS] != 0 {
        return record[thread::CALL_SP] - sp < DEPTH;
    }
    if sp == record[thread::CALL_SP] {
        let call = record[thread::CALL];
        return (call == site::REALLOC || call == site::ALLOC_ALIGNED) && site == site::ALLOC_SIZE;
    }
    // SAFETY: the helper checks the address.
    let caller = unsafe { bpf_probe_read_user(sp as *const u64) }.unwrap_or(0);
    caller.wrapping_sub(record[thread::LIBC_START]) < record[thread::LIBC_SIZE]
}

/// Takes the old block of a `realloc` out of the table before the allocator can hand its address
/// to another thread; a failed call puts it back.
#[inline(always)]
fn take_old(ctx: &ProbeContext, current: Current, record: &mut [u64; thread::WORDS], old: u64) {
    let key = [u64::from(current.process), old];
    let Some(found) = BLOCKS.get_ptr_mut(&key) else {
        record::bad_free(ctx, current, record, old, None);
        return;
    };
    // SAFETY: a live block belongs to the caller; nobody else changes its record meanwhile.
    let found = unsafe { &mut *found };
    if found[block::FLAGS] & block::FLAG_LIVE == 0 {
        record::bad_free(ctx, current, record, old, Some(found));
        return;
    }
    record[thread::HAS_SAVED] = 1;
    record[thread::SAVED] = found[0];
    record[thread::SAVED + 1] = found[1];
    record[thread::SAVED + 2] = found[2];
    record[thread::SAVED + 3] = found[3];
    record[thread::SAVED + 4] = found[4];
    record::note_free(ctx, current, record, found);
    record::mark_moving(current, found);
}

/// Records what a call has come to.
#[inline(always)]
pub fn leave(ctx: &RetProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    let call = record[thread::CALL];
    if call == 0 || stack_pointer(ctx.regs) != record[thread::CALL_SP] + 8 {
        return None;
    }
    record[thread::CALL] = 0;
    let size = record[thread::CALL_SIZE];
    let mut address: u64 = ctx.ret();
    if call == site::ALLOC_OUT {
        let out = record[thread::CALL_POINTER] as *const u64;
        address = match address as u32 {
            // SAFETY: the helper checks the address.
            0 => unsafe { bpf_probe_read_user(out) }.unwrap_or_else(|_| {
                current.count(process::LOST_RESULTS, 1);
                0
            }),
            _ => 0,
        };
    }
    let has_failed = address == 0 && size != 0;
    // Of a `realloc` the old block goes when the new one comes: its bytes are never both gone or both there.
    let mut old = Old::default();
    if call == site::REALLOC && record[thread::HAS_SAVED] == 1 {
        if has_failed {
            record::put_back(current, record);
        } else {
            old = record::saved(record);
        }
    }
    if address != 0 {
        record::allocated(ctx, current, record, address, size, old);
    } else if old.bytes != 0 {
        current.replaced(old);
    }
    Some(())
}

/// Whether a stack pointer is one of the allocator's call in flight.
#[inline(always)]
pub fn is_in_call(record: &[u64; thread::WORDS], sp: u64) -> bool {
    record[thread::CALL] != 0 && record[thread::CALL_SP].wrapping_sub(sp) < DEPTH
}

/// Whether a free is part of another call: of one that allocates, or of a free by another function, such as
/// `__rust_dealloc`.
#[inline(always)]
fn is_nested_free(ctx: &ProbeContext, record: &mut [u64; thread::WORDS]) -> bool {
    if record[thread::LAYERS] == 0 {
        return false;
    }
    let sp = stack_pointer(ctx.regs);
    if is_in_call(record, sp) {
        return true;
    }
    // SAFETY: the registers are the context that the kernel passed to this program.
    let ip = unsafe { (*ctx.regs).rip };
    let outer = record[thread::FREE_SP];
    // SAFETY: the helper checks the addresses.
    let (slot, caller) = unsafe {
        (
            bpf_probe_read_user(outer as *const u64).unwrap_or(0),
            bpf_probe_read_user(sp as *const u64).unwrap_or(0),
        )
    };
    if outer.wrapping_sub(sp) < DEPTH && slot == record[thread::FREE_RETURN] && ip != record[thread::FREE_IP]
    {
        return true;
    }
    record[thread::FREE_SP] = sp;
    record[thread::FREE_RETURN] = caller;
    record[thread::FREE_IP] = ip;
    false
}

/// Records a free at its entry: after it the address may belong to another thread.
#[inline(always)]
pub fn free(ctx: &ProbeContext) -> Option<()> {
    let address: u64 = ctx.arg(0)?;
    if address == 0 {
        return None;
    }
    let current = Current::get()?;
    let record = current.thread()?;
    let nested = is_nested_free(ctx, record);
    let mut before = None;
    if let Some(found) = BLOCKS.get_ptr_mut(&[u64::from(current.process), address]) {
        // SAFETY: a live block belongs to the caller; nobody else changes its record meanwhile.
        let found = unsafe { &mut *found };
        if found[block::FLAGS] & block::FLAG_LIVE != 0 {
            record::note_free(ctx, current, record, found);
            record::mark_freed(current, found);
            return Some(());
        }
        before = Some(&*found);
    }
    if nested {
        return None;
    }
    // Some C libraries free the old block of a realloc through their own `free`.
    if record[thread::CALL] == site::REALLOC && record[thread::CALL_POINTER] == address {
        return None;
    }
    record::bad_free(ctx, current, record, address, before);
    Some(())
}
