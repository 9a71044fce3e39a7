//! Namespaces. Which IPC namespace a system call means is a matter of the thread that makes it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::Pid;

/// Whether `/proc` shows processes by the numbers by which this process knows them.
///
/// # Errors
/// Why not: it is not mounted, or it is that of another process id namespace.
pub fn proc_is_own() -> Result<(), String> {
    let own = Pid::this();
    match std::fs::read_link("/proc/self") {
        Ok(shown) if shown.as_os_str() == own.to_string().as_str() => Ok(()),
        Ok(shown) => Err(format!(
            "it is that of another process id namespace, where this process is {} and not {own}",
            shown.display()
        )),
        Err(error) => Err(format!("it does not show this process: {error}")),
    }
}

/// The IPC namespace of a process.
///
/// # Errors
/// There is no such process, or it may not be looked at.
pub fn ipc_namespace(process: Pid) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/{process}/ns/ipc"))?.into())
}

/// Gives the calling thread an IPC namespace of its own, for good.
///
/// # Errors
/// The kernel refuses, mostly for missing privileges.
pub fn leave_ipc_namespace() -> io::Result<()> {
    // SAFETY: the call takes a number only, and changes nothing but the calling thread.
    Ok(Errno::result(unsafe { libc::unshare(libc::CLONE_NEWIPC) }).map(drop)?)
}

/// Does something in another IPC namespace.
///
/// # Errors
/// It cannot be entered, or not be left. (Then the calling thread stays in it, and keeps it alive.)
pub fn in_ipc_namespace<T>(namespace: BorrowedFd<'_>, work: impl FnOnce() -> T) -> io::Result<T> {
    let own = File::open("/proc/thread-self/ns/ipc")?;
    // SAFETY: the call takes numbers only, and changes nothing but the calling thread.
    let enter = |fd| Errno::result(unsafe { libc::setns(fd, libc::CLONE_NEWIPC) });
    enter(namespace.as_raw_fd())?;
    let done = work();
    enter(own.as_raw_fd())?;
    Ok(done)
}
