//! Mappings: who has made them.
//!
//! What is mapped at a test's end is told by the kernel. Here is written down what that does not know: which calls
//! of the C library's functions have made it in the window, from where, and where such mappings have ended since. The
//! tool puts that in the order of time.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::programs::ProbeContext;
use leakcheck_common::{file, mapping, process, site};

use crate::call::{is_in_call, stack_pointer};
use crate::file::describe;
use crate::maps::{Current, EMPTY_MAPPING, UNMAPPED, mappings};
use crate::records::put;

/// `MREMAP_DONTUNMAP` of `sys/mman.h`: what was there stays, empty.
const DONT_UNMAP: u64 = 4;
const PAGE: u64 = 4096;
/// Results from here on are errors (include/linux/err.h).
const FIRST_ERROR: u64 = -4095_i64 as u64;

/// A function is behind its system call, where the registers still have its arguments.
#[inline(always)]
pub fn called(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    // SAFETY: the context is the one this program was called with.
    let site = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    // SAFETY: the registers are the context that the kernel passed to this program. The verifier wants each
    // read at its own fixed offset; an ordinary read may become one at an offset that depends.
    let [first, second, third, fourth, result] = unsafe {
        let regs = ctx.regs;
        [
            &raw const (*regs).rdi,
            &raw const (*regs).rsi,
            &raw const (*regs).rdx,
            &raw const (*regs).r10,
            &raw const (*regs).rax,
        ]
        .map(|word| word.read_volatile())
    };
    if result >= FIRST_ERROR {
        return None;
    }
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    // What an allocator maps for a call in flight is its own: an arena, a large block.
    let counts = current.in_window() && !is_in_call(record, stack_pointer(ctx.regs));
    let ended = match site {
        site::MOVED if second > 0 && fourth & DONT_UNMAP == 0 => Some(second),
        site::UNMAPPED => Some(second),
        site::DETACHED => Some(0),
        _ => None,
    };
    if let Some(bytes) = ended {
        ends(current, first, bytes, now);
    }
    // Written once for all: each copy costs the verifier milliseconds.
    let (bytes, call) = match site {
        site::MAPPED => (second, site | fourth << 32),
        site::ATTACHED => (0, site),
        site::MOVED => (third, site),
        _ => return None,
    };
    begins(current, counts, result, bytes, call, now)
}

/// Something is mapped; whether it `counts` as the test's.
#[inline(always)]
fn begins(current: Current, counts: bool, address: u64, bytes: u64, call: u64, now: u64) -> Option<()> {
    let key = key(current, address);
    if !counts {
        if current.counted(process::MAPPINGS) > 0 {
            mappings().remove(&key);
            // As in `ends`.
            let _ = put(&UNMAPPED, &key, &[now, whole_pages(bytes), 0], BPF_ANY);
        }
        return None;
    }
    current.count(process::MAPPINGS, 1);
    let mut record = mappings().get(&key);
    if record.is_none() {
        if let Err(refusal) = mappings().put(&key, EMPTY_MAPPING.get(0)?, BPF_ANY) {
            refusal.count(current, process::LOST_MAPPINGS);
            return None;
        }
        record = mappings().get(&key);
    }
    let Some(record) = record else {
        current.count(process::LOST_MAPPINGS, 1);
        return None;
    };
    // SAFETY: the key is the running thread's: nobody else changes the record.
    let record = unsafe { &mut *record };
    record[mapping::TIME] = now;
    record[mapping::BYTES] = whole_pages(bytes);
    record[mapping::CALL] = call;
    // SAFETY: the record ends with so many words, which nobody else refers to.
    let place = unsafe { &mut *record.as_mut_ptr().add(mapping::PLACE).cast::<[u64; file::WORDS]>() };
    describe(current, place);
    // An instruction that has not run yet: what is looked up is in front of it.
    place[file::IP] += 1;
    Some(())
}

/// What is mapped in a range has ended; no `bytes` are all that a mapping has. What is not noted here, because it is
/// not sure or finds no room, the tool sees: nothing is mapped there at the end, unless something else is by then.
#[inline(always)]
fn ends(current: Current, address: u64, bytes: u64, now: u64) -> Option<()> {
    if current.counted(process::MAPPINGS) == 0 {
        return None;
    }
    let (bytes, key) = (whole_pages(bytes), key(current, address));
    if let Some(record) = mappings().get(&key) {
        // SAFETY: the map keeps the value for as long as the program runs.
        let mapped = unsafe { (*record)[mapping::BYTES] };
        if mapped <= bytes {
            mappings().remove(&key);
        }
        if mapped == bytes {
            return None;
        }
    }
    if bytes == 0 {
        return None;
    }
    put(&UNMAPPED, &key, &[now, bytes, current.thread.into()], BPF_ANY).ok()
}

/// A record is that of an address and of the thread that has written it: another thread may be given the address while
/// this one is still writing down that it was unmapped.
#[inline(always)]
fn key(current: Current, address: u64) -> [u64; 2] {
    [u64::from(current.process) | u64::from(current.thread) << 32, address]
}

#[inline(always)]
fn whole_pages(bytes: u64) -> u64 {
    bytes.wrapping_add(PAGE - 1) & !(PAGE - 1)
}
