//! What the tracer has a template do, a process that is kept before anything of its program has run, and the processes
//! that are forked from it.

use core::arch::naked_asm;

use crate::layout::call;
use crate::{frames, hooks, ledger, sys, thread};

/// Makes system calls, each of which writes down what it returns, up to the first that fails; how many have not.
unsafe fn make(calls: *mut [usize; call::WORDS], count: usize) -> usize {
    for number in 0..count {
        // SAFETY: the tracer has written so many.
        let words = unsafe { &mut *calls.add(number) };
        let [number_of_call, a, b, c, d, e, f, result] = words;
        // SAFETY: the tracer answers for them.
        let returned = unsafe { sys::call(*number_of_call, [*a, *b, *c, *d, *e, *f]) };
        *result = returned as usize;
        if returned < 0 {
            return number;
        }
    }
    count
}

/// Prepares a template, so that what is forked from it has the ledger's memory; how many of the system calls have not failed.
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_template(calls: *mut [usize; call::WORDS], count: usize) -> usize {
    frames::open();
    // Without memory there is no ledger, as the tracer can see.
    if ledger::is_recording() && !ledger::for_each_memory(sys::keep_in_children) {
        return 0;
    }
    // SAFETY: the tracer's.
    unsafe { make(calls, count) }
}

/// Forks, each time that the tracer lets it go on, with the arguments that it has put into registers. A child is sent to
/// `leakcheck_forked` before it comes back; if the tracer is gone, or a call has failed, it goes no further than here.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_clone() {
    naked_asm!("2:", "mov eax, 56", "syscall", "test rax, rax", "jg 2b", "int3", "ud2")
}

/// What a process begins by that was forked; the address of its canary, 0 if a system call has failed.
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_forked(calls: *mut [usize; call::WORDS], count: usize, size: usize) -> usize {
    thread::current().forget_id();
    // What this process forks is not recorded.
    let ready = ledger::for_each_memory(sys::wipe_in_children);
    // SAFETY: the tracer's.
    if !ready || unsafe { make(calls, count) } < count {
        return 0;
    }
    ledger::settle();
    // SAFETY: `malloc` may be called at the entry point.
    unsafe { hooks::malloc(size) }
}
