//! Filesystems of the kernel's own making, mounted where nobody else sees them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;

/// A filesystem that is mounted for as long as this lives.
pub struct Mount(OwnedFd);

impl Mount {
    /// The POSIX message queues of the calling thread's IPC namespace, as files.
    ///
    /// # Errors
    /// The kernel has none, or refuses.
    pub fn of_queues() -> io::Result<Self> {
        Ok(Self::of(c"mqueue")?)
    }

    /// One that keeps what eBPF has made; empty.
    ///
    /// # Errors
    /// The same.
    pub(super) fn of_bpf() -> Result<Self, Errno> {
        Self::of(c"bpf")
    }

    fn of(kind: &CStr) -> Result<Self, Errno> {
        const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
        let owned = |result: libc::c_long| {
            // SAFETY: the kernel has just returned this descriptor to us alone.
            Errno::result(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
        };
        // SAFETY: the name ends with a zero. (The flag is FSOPEN_CLOEXEC.)
        let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1) })?;
        let none = std::ptr::null::<libc::c_char>();
        // SAFETY: the command takes no arguments.
        let created = unsafe {
            libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0)
        };
        Errno::result(created)?;
        // SAFETY: the call takes numbers only. (The flag is FSMOUNT_CLOEXEC.)
        Ok(Self(owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) })?))
    }

    /// Its directory.
    pub fn directory(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

impl AsFd for Mount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
