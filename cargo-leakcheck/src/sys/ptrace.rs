//! `ptrace` and `waitpid` with raw signal numbers: nix knows no real-time signals, which tests and
//! glibc use.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::Options;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;

use super::capabilities::{Capability, without};
use super::user::user;

/// What `waitpid` told of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ended with an exit code.
    Exited(i32),
    /// It was ended by a signal.
    Signalled(i32),
    /// It is about to receive a signal.
    Signal(i32),
    /// It reports a `PTRACE_EVENT_…`, with the signal that `waitpid` names.
    Event(i32, i32),
}

/// The next child that has changed state; none if there is none at the moment or no child at all.
pub fn wait_any() -> Option<(Pid, Stop)> {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let stop = if libc::WIFEXITED(status) {
        Stop::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Stop::Signalled(libc::WTERMSIG(status))
    } else if status >> 16 != 0 {
        Stop::Event(status >> 16, libc::WSTOPSIG(status))
    } else {
        Stop::Signal(libc::WSTOPSIG(status))
    };
    Some((Pid::from_raw(pid), stop))
}

/// Waits until a child has changed its state; whether one has before the time was up. The signal that tells of it is blocked.
pub fn child_has_changed(limit: Duration) -> bool {
    let signals: SigSet = std::iter::once(Signal::SIGCHLD).collect();
    let limit = TimeSpec::from_duration(limit);
    // SAFETY: both are valid for the call, which writes nothing else.
    unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), limit.as_ref()) == libc::SIGCHLD }
}

/// Begins to trace a child of the own user's. Where that user is not root, not by `CAP_SYS_PTRACE`: programs that are
/// set-user-id would get their privileges under a tracer that has it, and what steers that tracer are the user's files.
pub fn seize(pid: Pid, options: Options) -> Result<(), Errno> {
    let seize = || nix::sys::ptrace::seize(pid, options);
    if user() == 0 {
        return seize();
    }
    match without(Capability::SysPtrace, seize) {
        // With `kernel.yama.ptrace_scope=2` nothing else will do: then who administers the machine wants tracers to have it.
        Err(Errno::EPERM) => seize(),
        done => done,
    }
}

fn request(request: libc::c_uint, pid: Pid, data: i32) -> Result<(), Errno> {
    // SAFETY: the requests of this module take a number and no memory; an invalid pid is an error
    // from the kernel.
    let result = unsafe { libc::ptrace(request, pid.as_raw(), 0, libc::c_long::from(data)) };
    Errno::result(result).map(drop)
}

/// Lets a stopped tracee go on, with a signal or 0.
pub fn cont(pid: Pid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, pid, signal)
}

/// Leaves a tracee that is in group-stop stopped, and lets `SIGCONT` wake it.
pub fn listen(pid: Pid) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN, pid, 0)
}

/// Whether the signal that a tracee is about to receive was sent by the kernel (an eBPF program of
/// ours) and not by a process.
pub fn sent_by_kernel(pid: Pid) -> bool {
    nix::sys::ptrace::getsiginfo(pid).is_ok_and(|info| info.si_code == libc::SI_KERNEL)
}

/// Whether a tracee that was stopped has been killed: it is on the way to the stop at its exit, or there.
pub fn is_ending(pid: Pid) -> bool {
    let info = nix::sys::ptrace::getsiginfo(pid);
    info.map_or(true, |info| info.si_code >> 8 == libc::PTRACE_EVENT_EXIT)
}

/// Whether a thread that exists is one of a process.
pub fn is_thread_of(process: Pid, thread: Pid) -> bool {
    // SAFETY: no memory is involved, and no signal is sent.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process.as_raw(), thread.as_raw(), 0) };
    // Whether it may be sent one is asked only where it is (kernel/signal.c, `do_send_specific`).
    Errno::result(sent) != Err(Errno::ESRCH)
}

/// The time stamp counter, which the ledger writes down with each block.
pub fn time_stamp() -> u64 {
    // SAFETY: every x86_64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The list of robust futexes of a tracee, as it has told the kernel: address and size of its head (`set_robust_list(2)`).
pub fn robust_list(pid: Pid) -> Result<[u64; 2], Errno> {
    let (mut head, mut size) = (0_u64, 0_u64);
    // SAFETY: the kernel writes two words.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, pid.as_raw(), &raw mut head, &raw mut size) };
    Errno::result(result).map(|_| [head, size])
}

/// Reads a word of a tracee, its code included.
pub fn read_word(pid: Pid, address: u64) -> Result<u64, Errno> {
    Ok(nix::sys::ptrace::read(pid, address as *mut libc::c_void)?.cast_unsigned())
}

/// Writes a word of a tracee, its code included.
pub fn write_word(pid: Pid, address: u64, word: u64) -> Result<(), Errno> {
    nix::sys::ptrace::write(pid, address as *mut libc::c_void, word.cast_signed())
}

/// Sets the hardware breakpoints of a stopped tracee, one for each debug register, where they differ from
/// those it has. It stops before it executes the instruction at one, and goes on over it.
pub fn set_breakpoints(pid: Pid, before: [Option<u64>; 4], after: [Option<u64>; 4]) -> Result<(), Errno> {
    let set = |register: usize, value: u64| {
        let offset = std::mem::offset_of!(libc::user, u_debugreg) + register * size_of::<u64>();
        nix::sys::ptrace::write_user(pid, offset as *mut libc::c_void, value.cast_signed())
    };
    // Register 7: bit `2 * n` enables breakpoint `n`; zeros above bit 15 make them ones on execution.
    let enabled = |all: [Option<u64>; 4]| -> u64 {
        (0..).zip(all).filter(|(_, address)| address.is_some()).map(|(number, _)| 1 << (2 * number)).sum()
    };
    for (register, (before, after)) in before.into_iter().zip(after).enumerate() {
        if let Some(address) = after
            && before != after
        {
            set(register, address)?;
        }
    }
    if enabled(before) != enabled(after) {
        set(7, enabled(after))?;
    }
    Ok(())
}

/// Whether the signal that a tracee is about to receive comes from a hardware breakpoint.
pub fn is_breakpoint(pid: Pid) -> bool {
    /// `TRAP_HWBKPT` of asm-generic/siginfo.h.
    const HARDWARE: i32 = 4;
    nix::sys::ptrace::getsiginfo(pid).is_ok_and(|info| info.si_code == HARDWARE)
}
