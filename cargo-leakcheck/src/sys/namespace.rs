//! Namespaces. Which IPC namespace a system call means is a matter of the thread that makes it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

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

/// The POSIX message queues of the calling thread's IPC namespace as files of a directory.
pub struct Queues(OwnedFd);

impl Queues {
    /// Mounts them where nobody else sees them, for as long as this lives.
    ///
    /// # Errors
    /// The kernel has none, or refuses.
    pub fn mount() -> io::Result<Self> {
        const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
        let owned = |result: libc::c_long| {
            // SAFETY: the kernel has just returned this descriptor to us alone.
            Errno::result(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
        };
        // SAFETY: the name ends with a zero. (The flag is FSOPEN_CLOEXEC.)
        let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"mqueue".as_ptr(), 1) })?;
        let none = std::ptr::null::<libc::c_char>();
        // SAFETY: the command takes no arguments.
        let created = unsafe {
            libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0)
        };
        Errno::result(created)?;
        // SAFETY: the call takes numbers only. (The flag is FSMOUNT_CLOEXEC.)
        Ok(Self(owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) })?))
    }

    /// Where they are.
    pub fn directory(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
