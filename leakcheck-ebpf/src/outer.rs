//! Library functions that allocate for their callers (`strdup`, `getline`, `operator new`). The
//! libraries keep no frame pointers, so that a walk from `malloc` would miss exactly the caller. At
//! the function's entry the registers are still the caller's: the call stack is taken there. No
//! return probe: `operator new` may throw.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::BPF_F_USER_STACK;
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::bpf_get_stack;
use aya_ebpf::programs::ProbeContext;
use leakcheck_common::{MAX_FRAMES, stack, thread};

use crate::call::stack_pointer;
use crate::maps::Current;

/// Further below its entry than this no function of a library allocates.
const DEPTH: u64 = 64 << 10;

/// Takes the call stack at the entry of a library function, unless it is called by another one.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) -> Option<()> {
    /// The function and its caller are in front of what the walk finds.
    const WALKED: usize = MAX_FRAMES - 2;
    const FRAMES: usize = thread::OUTER + stack::FRAMES;
    let record = Current::get()?.thread()?;
    let sp = stack_pointer(ctx.regs);
    if record[thread::IN_WINDOW] == 0 {
        return None;
    }
    // SAFETY: the helper checks the address.
    let caller = unsafe { bpf_probe_read_user(sp as *const u64) }.ok()?;
    if is_inside(record, sp, caller) {
        return None;
    }
    record[thread::OUTER_SP] = 0;
    // One frame is skipped: the function itself.
    let flags = u64::from(BPF_F_USER_STACK) | 1;
    // SAFETY: the room at the end of the record holds MAX_FRAMES words.
    let bytes = unsafe {
        let room = record.as_mut_ptr().add(FRAMES + 2);
        bpf_get_stack(ctx.as_ptr(), room.cast(), (WALKED * 8) as u32, flags)
    };
    // SAFETY: the registers are the context that the kernel passed to this program.
    record[FRAMES] = unsafe { (*ctx.regs).rip } + 1;
    record[FRAMES + 1] = caller;
    if bytes > 0 && record[FRAMES + 2] == caller {
        // At a function's very first instruction the walk finds the caller by itself; the tracer
        // takes a frame that is there twice out.
        record[FRAMES + 1] = record[FRAMES];
    }
    record[thread::OUTER + stack::COUNT] = 2 + if bytes > 0 { bytes as u64 / 8 } else { 0 };
    record[thread::OUTER_SP] = sp;
    record[thread::OUTER_RETURN] = caller;
    Some(())
}

/// Whether a call with this stack pointer at its entry, which returns to `caller`, comes from inside
/// of the library function that was entered last: deeper on the stack, called by the library, and
/// the function has not returned.
#[inline(always)]
pub fn is_inside(record: &[u64; thread::WORDS], sp: u64, caller: u64) -> bool {
    let outer = record[thread::OUTER_SP];
    if outer == 0 || sp >= outer || outer - sp > DEPTH {
        return false;
    }
    // SAFETY: the helper checks the address.
    let Ok(slot) = (unsafe { bpf_probe_read_user(outer as *const u64) }) else { return false };
    let in_library = caller.wrapping_sub(record[thread::LIBC_START]) < record[thread::LIBC_SIZE]
        || caller.wrapping_sub(record[thread::CXX_START]) < record[thread::CXX_SIZE];
    in_library && slot == record[thread::OUTER_RETURN]
}
