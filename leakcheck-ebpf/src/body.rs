//! The window: what happens between libtest's entry into a test body and its end.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::{bpf_get_attach_cookie, bpf_send_signal_thread};
use aya_ebpf::programs::ProbeContext;
use leakcheck_common::{process, site, thread};

use crate::call::stack_pointer;
use crate::maps::Current;

const SIGSTOP: u32 = 19;
/// libtest catches a test's panic within so many bytes of stack of the call of its body.
const NEAR: u64 = 16 << 10;

/// Opens the window at the entry of a test body, and closes it when that very frame returns or a
/// panic has been caught outside it. No return probe: a panic may unwind through the frame.
#[inline(always)]
pub fn mark(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    let sp = stack_pointer(ctx.regs);
    // SAFETY: the context is the one this program was called with.
    let ended = match unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } {
        site::BODY_ENTER => {
            if record[thread::BODY_SP] == 0 {
                record[thread::BODY_SP] = sp;
                record[thread::IN_WINDOW] = 1;
                if current.fetch_add(process::BODIES, 1) == Some(0) {
                    current.count(process::BEFORE_BODY, current.addresses()?);
                    // SAFETY: a helper without memory arguments.
                    if current.counted(process::LISTED) != 0
                        && unsafe { bpf_send_signal_thread(SIGSTOP) } != 0
                    {
                        // No later stop is to be taken for this one: from 1 to 0.
                        current.count(process::LISTED, u64::MAX);
                    }
                }
                current.set_window(true)?;
            }
            false
        }
        site::BODY_RETURN => sp == record[thread::BODY_SP],
        // Called by the frame that catches: as high as the body's caller, or a little higher. Far
        // higher is another stack, of a coroutine.
        site::PANIC_CAUGHT => record[thread::BODY_SP] != 0 && sp.wrapping_sub(record[thread::BODY_SP]) < NEAR,
        _ => false,
    };
    if ended {
        record[thread::BODY_SP] = 0;
        record[thread::IN_WINDOW] = 0;
        current.set_window(false)?;
    }
    Some(())
}

/// Remembers where `exit` was called: from there down the stack holds nothing of the program's.
#[inline(always)]
pub fn exit(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    // SAFETY: the registers are the context that the kernel passed to this program.
    let regs = unsafe { &*ctx.regs };
    record[thread::EXIT_SP] = regs.rsp;
    for (word, value) in [regs.rbx, regs.rbp, regs.r12, regs.r13, regs.r14, regs.r15].into_iter().enumerate()
    {
        record[thread::EXIT_REGISTERS + word] = value;
    }
    Some(())
}

/// Looks after modules: stops the thread before one is unloaded, so that the tracer reads the mappings
/// and lets it go on; counts those that are opened with an allocator of their own.
#[inline(always)]
pub fn module(ctx: &ProbeContext) -> Option<()> {
    /// `RTLD_DEEPBIND` of `dlfcn.h`: the library finds the C library's functions before the ledger's.
    const DEEPBIND: u64 = 8;
    let current = Current::get()?;
    current.thread()?;
    // SAFETY: the context is the one this program was called with.
    let bypassed = match unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } {
        site::UNLOAD => {
            current.count(process::UNLOADS, 1);
            // SAFETY: a helper without memory arguments.
            unsafe { bpf_send_signal_thread(SIGSTOP) };
            false
        }
        site::OPEN => ctx.arg::<u64>(1)? & DEEPBIND != 0 && current.has_ledger()?,
        // Another namespace has a C library of its own.
        site::OPEN_IN => {
            ctx.arg::<u64>(0)? != 0 || (ctx.arg::<u64>(2)? & DEEPBIND != 0 && current.has_ledger()?)
        }
        _ => false,
    };
    if bypassed {
        current.count(process::BYPASSED, 1);
    }
    Some(())
}
