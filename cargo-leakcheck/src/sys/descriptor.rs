//! Another process's descriptors.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::unistd::Pid;

/// A process that cannot be mistaken for a later one with its id: its descriptors are borrowed by this, and it
/// is ended.
pub struct Owner(OwnedFd);

impl Owner {
    /// The process with this id.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn of(process: Pid) -> Result<Self, Errno> {
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) };
        // SAFETY: the kernel has just returned this descriptor to us alone.
        Errno::result(fd).map(|fd| Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Ends it.
    ///
    /// # Errors
    /// It has ended, or is not ours to end.
    pub fn end(&self) -> Result<(), Errno> {
        let (fd, signal) = (self.0.as_raw_fd(), libc::SIGKILL);
        // SAFETY: the call takes numbers, and no memory where that is zero.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, 0, 0) };
        Errno::result(result).map(drop)
    }

    /// A descriptor of ours for what the process's one refers to.
    ///
    /// # Errors
    /// It is not open, or we may not trace the process.
    pub fn borrow(&self, number: u32) -> Result<OwnedFd, Errno> {
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), number, 0) };
        // SAFETY: the kernel has just returned this descriptor to us alone.
        Errno::result(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// Domain, type and protocol of a socket (`socket(2)`).
///
/// # Errors
/// It is no socket.
pub fn socket_kind(socket: &OwnedFd) -> Result<[i32; 3], Errno> {
    let mut kind = [0; 3];
    for (value, option) in kind.iter_mut().zip([libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL]) {
        let mut length = size_of::<i32>() as u32;
        // SAFETY: the value is writable, with the length that is passed.
        let result = unsafe {
            let value = std::ptr::from_mut(value).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut length)
        };
        Errno::result(result)?;
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_borrowed_is_the_same_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owner = Owner::of(Pid::this()).unwrap();
        let borrowed = owner.borrow(listener.as_raw_fd() as u32).unwrap();
        assert_eq!(socket_kind(&borrowed), Ok([libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP]));
        assert_eq!(std::net::TcpListener::from(borrowed).local_addr().unwrap(), address);
        assert_eq!(owner.borrow(1 << 20).unwrap_err(), Errno::EBADF);
    }
}
