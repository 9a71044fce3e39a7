//! Objects that the kernel allocates for threads in their windows: how large they are, in which system call and where.
//!
//! A free raises no tracepoint where it comes late (`kfree_rcu`) or with others (bulk frees). So an address also loses
//! its record when it is given to anybody else, and what is still in the table at the end may be gone: the tracer counts
//! what an open file leads to, and calls the rest information.

use core::ffi::c_void;
use core::intrinsics::{AtomicOrdering::SeqCst, atomic_or};

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_ANY, pt_regs};
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel as read_kernel, bpf_task_pt_regs,
};
use aya_ebpf::programs::RawTracePointContext;
use leakcheck_common::{LOOK_WORDS, object, objects, process, total};

use crate::maps::{Current, LOOK, OBJECT_MARK_WORDS, OBJECT_MARKS, OBJECT_SETTINGS, OBJECTS, TOTALS};

/// What is no address: null, and what a size of 0 gets (`ZERO_SIZE_PTR`).
const FIRST_ADDRESS: u64 = 4096;
/// `-ENOSYS`: what the register of a system call's result has while the call is in flight.
const IN_CALL: u64 = -38_i64 as u64;

/// An argument of the tracepoint.
#[inline(always)]
fn argument(ctx: &RawTracePointContext, number: usize) -> u64 {
    // SAFETY: the tracepoint has this argument, which the tracer has made sure of.
    unsafe { *ctx.as_ptr().cast::<u64>().add(number) }
}

/// `kmalloc`: where, address, size asked for, size given.
#[inline(always)]
pub fn sized(ctx: &RawTracePointContext) -> Option<()> {
    let current = begin(argument(ctx, 1))?;
    record(current, argument(ctx, 0), argument(ctx, 1), argument(ctx, 3))
}

/// `kmem_cache_alloc`: where, address, cache.
#[inline(always)]
pub fn cached(ctx: &RawTracePointContext) -> Option<()> {
    let current = begin(argument(ctx, 1))?;
    let size = argument(ctx, 2) + OBJECT_SETTINGS.get(0)?[objects::CACHE_SIZE];
    // SAFETY: the helper checks where it reads.
    let bytes = unsafe { bpf_probe_read_kernel(size as *const u32) }.ok()?;
    record(current, argument(ctx, 0), argument(ctx, 1), u64::from(bytes))
}

/// `kfree` and `kmem_cache_free`: where, address.
#[inline(always)]
pub fn freed(ctx: &RawTracePointContext) -> Option<()> {
    forget(argument(ctx, 1))
}

/// Copies memory of the kernel's to `LOOK`: from an address, so many bytes. 0 if it could be read.
#[inline(always)]
pub fn look(ctx: &RawTracePointContext) -> i32 {
    let (address, bytes) = (argument(ctx, 0), argument(ctx, 1));
    let Some(room) = LOOK.get_ptr_mut(0) else { return -1 };
    if bytes > (LOOK_WORDS * 8) as u64 {
        return -1;
    }
    // SAFETY: there is room for so many bytes; the helper checks where they come from.
    unsafe { read_kernel(room.cast::<c_void>(), bytes as u32, address as *const c_void) as i32 }
}

/// An address is given to somebody: the running thread, if it is in its window.
#[inline(always)]
fn begin(address: u64) -> Option<Current> {
    if address < FIRST_ADDRESS {
        return None;
    }
    let _ = forget(address);
    Current::get().filter(|current| current.in_window())
}

/// The word and the bit of an address in `OBJECT_MARKS`. Objects are aligned to 8 bytes at least.
#[inline(always)]
fn mark(address: u64) -> Option<(*mut u64, u64)> {
    let hash = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let marks = OBJECT_MARKS.get_ptr_mut(0)?;
    // SAFETY: the remainder is below the number of words.
    let word = unsafe { marks.cast::<u64>().add((hash >> 6) as usize % OBJECT_MARK_WORDS) };
    Some((word, 1 << (hash & 63)))
}

/// What had the address has it no longer.
#[inline(always)]
fn forget(address: u64) -> Option<()> {
    let (word, bit) = mark(address)?;
    // SAFETY: a word of the map's value, which is only changed atomically.
    if unsafe { *word } & bit == 0 {
        return None;
    }
    let known = OBJECTS.get_ptr(&address)?;
    // SAFETY: the map keeps the value for as long as the program runs.
    let known = unsafe { *known };
    // Of two that remove it, one counts.
    if OBJECTS.remove(&address).is_ok() && OBJECT_SETTINGS.get(0)?[objects::TOTALS] != 0 {
        let key = [known[object::OWNER], known[object::SITE]];
        if let Some(totals) = TOTALS.get_ptr_mut(&key) {
            // SAFETY: the value of this CPU. An interrupt between reading and writing may make a number be lost.
            let totals = unsafe { &mut *totals };
            totals[total::FREED_BYTES] += known[object::BYTES];
            totals[total::FREED_OBJECTS] += 1;
        }
    }
    Some(())
}

/// The running thread has got an object.
#[inline(always)]
fn record(current: Current, site: u64, address: u64, bytes: u64) -> Option<()> {
    let owner = u64::from(current.process) | u64::from(call()) << 32;
    current.count(process::OBJECTS, 1);
    let (word, bit) = mark(address)?;
    // SAFETY: a word of the map's value, which is only changed atomically.
    unsafe {
        if *word & bit == 0 {
            atomic_or::<u64, u64, { SeqCst }>(word, bit);
        }
    }
    let mut object = [0; object::WORDS];
    (object[object::BYTES], object[object::OWNER], object[object::SITE]) = (bytes, owner, site);
    if OBJECTS.insert(&address, &object, BPF_ANY.into()).is_err() {
        current.count(process::LOST_OBJECTS, 1);
    }
    if OBJECT_SETTINGS.get(0)?[objects::TOTALS] == 0 {
        return None;
    }
    let key = [owner, site];
    match TOTALS.get_ptr_mut(&key) {
        Some(totals) => {
            // SAFETY: as above.
            let totals = unsafe { &mut *totals };
            totals[total::BYTES] += bytes;
            totals[total::OBJECTS] += 1;
        }
        None => {
            let mut totals = [0; total::WORDS];
            (totals[total::BYTES], totals[total::OBJECTS]) = (bytes, 1);
            // If another CPU has added the key meanwhile, this sets the value of this one.
            if TOTALS.insert(&key, &totals, BPF_ANY.into()).is_err() {
                current.count(process::LOST_TOTALS, 1);
            }
        }
    }
    Some(())
}

/// The number of the system call in flight.
#[inline(always)]
fn call() -> u32 {
    // SAFETY: helpers without memory arguments; what they return are the running thread's registers.
    let registers = unsafe { &*(bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs) };
    // The instruction of a system call leaves where it returns to in `rcx`.
    if registers.rax == IN_CALL && registers.rcx == registers.rip {
        registers.orig_rax as u32
    } else {
        object::NO_CALL
    }
}
