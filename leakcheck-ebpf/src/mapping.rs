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
use leakcheck_common::{file, mapping, process, site, thread};

use crate::file::describe;
use crate::maps::{Current, EMPTY_MAPPING, MAPPINGS, UNMAPPED};

/// `MREMAP_DONTUNMAP` of `sys/mman.h`: what was there stays, empty.
const DONT_UNMAP: u64 = 4;
const PAGE: u64 = 4096;
/// Results from here on are errors (include/linux/err.h).
const FIRST_ERROR: u64 = -4095_i64 as u64;

/// A function is entered, or is behind its system call, where the registers still have its arguments.
#[inline(always)]
pub fn called(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let thread = current.thread()?;
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
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    // What ends does so at the entry: behind the call the addresses may be another thread's already.
    match site {
        site::UNMAP => ends(current, first, second, now),
        site::DETACH => MAPPINGS.remove(&[current.process.into(), first]).ok(),
        site::MOVE => {
            thread[thread::MOVE_TIME] = now;
            None
        }
        _ if result >= FIRST_ERROR => None,
        site::MAPPED => begins(current, result, second, site, now),
        site::ATTACHED => begins(current, result, 0, site, now),
        site::MOVED => {
            if second > 0 && fourth & DONT_UNMAP == 0 {
                ends(current, first, second, thread[thread::MOVE_TIME]);
            }
            begins(current, result, third, site, now)
        }
        _ => None,
    }
}

/// Something is mapped.
#[inline(always)]
fn begins(current: Current, address: u64, bytes: u64, site: u64, now: u64) -> Option<()> {
    if !current.in_window() {
        // What was there, if anything was, is no more.
        return ends(current, address, bytes, now);
    }
    current.count(process::MAPPINGS, 1);
    let key = [current.process.into(), address];
    // If this fails, the look-up does so as well.
    let _ = MAPPINGS.insert(&key, EMPTY_MAPPING.get(0)?, BPF_ANY.into());
    let Some(record) = MAPPINGS.get_ptr_mut(&key) else {
        current.count(process::LOST_MAPPINGS, 1);
        return None;
    };
    // SAFETY: nobody else has a reason to change the record before the caller knows the address.
    let record = unsafe { &mut *record };
    record[mapping::TIME] = now;
    record[mapping::BYTES] = whole_pages(bytes);
    record[mapping::CALL] = site;
    // SAFETY: the record ends with so many words, which nobody else refers to.
    let place = unsafe { &mut *record.as_mut_ptr().add(mapping::PLACE).cast::<[u64; file::WORDS]>() };
    describe(current, place);
    // An instruction that has not run yet: what is looked up is in front of it.
    place[file::IP] += 1;
    Some(())
}

/// What is mapped in a range ends, if the test has mapped anything at all.
#[inline(always)]
fn ends(current: Current, address: u64, bytes: u64, now: u64) -> Option<()> {
    let bytes = whole_pages(bytes);
    if current.counted(process::MAPPINGS) == 0 || bytes == 0 || address % PAGE != 0 {
        return None;
    }
    let key = [current.process.into(), address];
    if let Some(record) = MAPPINGS.get_ptr(&key) {
        // SAFETY: the map keeps the value for as long as the program runs.
        let mapped = unsafe { (*record)[mapping::BYTES] };
        if mapped <= bytes {
            let _ = MAPPINGS.remove(&key);
        }
        if mapped == bytes {
            return None;
        }
    }
    // What finds no room is no loss: it says only that what is mapped there since is not the test's.
    UNMAPPED.insert(&key, &[now, bytes], BPF_ANY.into()).ok()
}

#[inline(always)]
fn whole_pages(bytes: u64) -> u64 {
    bytes.wrapping_add(PAGE - 1) & !(PAGE - 1)
}
