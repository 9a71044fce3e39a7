//! What the tracer has a template do, a process that is kept before anything of its program has run, and the processes
//! that are forked from it.

use core::arch::naked_asm;
use core::sync::atomic::Ordering;

use crate::layout::{call, control};
use crate::{frames, hooks, ledger, sys, thread};

/// Makes system calls, each of which writes down what it returns, up to the first that fails; how many have not.
unsafe extern "C" fn make(calls: *mut [usize; call::WORDS], count: usize) -> usize {
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

/// Makes the system calls that it is given, as [`make`], and then a process, with what the tracer has put into registers:
/// flags in `r12`, and in `r13` where the process's id is to be written. The process is sent to [`leakcheck_forked`] before it
/// comes back, and what has made it to here again; if the tracer is gone, or a call has failed, it goes no further.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_clone() {
    naked_asm!(
        "mov rbx, rsi",
        "call {make}",
        "cmp rax, rbx",
        "jne 2f",
        "mov rdi, r12",
        "xor esi, esi",
        "xor edx, edx",
        "mov r10, r13",
        "xor r8d, r8d",
        "mov eax, 56",
        "syscall",
        "2:",
        "int3",
        "ud2",
        make = sym make,
    )
}

/// What a process begins by that was made so. The first words on its stack are what the program expects in `rdx`, where it
/// begins, and its stack pointer there. If a call has failed, it goes no further than here.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_forked() {
    naked_asm!(
        "call {begin}",
        "test rax, rax",
        "jz 2f",
        "pop rdx",
        "pop rax",
        "pop rsp",
        "jmp rax",
        "2:",
        "int3",
        "ud2",
        begin = sym begin,
    )
}

/// The address of its canary, which the tracer finds among the control words; 0 if a system call has failed.
unsafe extern "C" fn begin(calls: *mut [usize; call::WORDS], count: usize, size: usize) -> usize {
    thread::current().forget_id();
    // What this process forks is not recorded.
    let ready = ledger::for_each_memory(sys::wipe_in_children);
    // SAFETY: the tracer's.
    if !ready || unsafe { make(calls, count) } < count {
        return 0;
    }
    ledger::settle();
    // SAFETY: `malloc` may be called at the entry point.
    let canary = unsafe { hooks::malloc(size) };
    ledger::LEAKCHECK_LEDGER[control::CANARY].store(canary as u64, Ordering::Relaxed);
    canary
}
