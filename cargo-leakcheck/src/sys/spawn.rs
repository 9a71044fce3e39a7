use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::unistd::Pid;

/// A child process that has not yet executed its program.
pub struct Held {
    /// Its process id.
    pub pid: Pid,
    go: OwnedFd,
    failed: OwnedFd,
}

impl Held {
    /// Lets the child execute its program.
    pub fn release(&self) -> io::Result<()> {
        nix::unistd::write(&self.go, b"x").map(drop).map_err(io::Error::from)
    }

    /// After the child has ended without executing its program: why.
    pub fn failure(&self) -> Option<io::Error> {
        let mut code = [0; 4];
        match nix::unistd::read(&self.failed, &mut code) {
            Ok(4) => Some(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            _ => None,
        }
    }
}

/// Starts a child in a process group of its own and holds it before `execve`, so that the caller
/// can trace it from its first instruction. `std::process::Command` cannot: its `spawn` waits for
/// the `execve`.
///
/// # Errors
/// Those of `pipe2` and `fork`. A failing `chdir` or `execve` shows later, see [`Held::failure`].
pub fn spawn_held(
    program: &CString,
    arguments: &[CString],
    environment: &[CString],
    directory: &CString,
    stdio: [&OwnedFd; 3],
) -> io::Result<Held> {
    let flags = nix::fcntl::OFlag::O_CLOEXEC;
    let (wait, go) = nix::unistd::pipe2(flags)?;
    let (failed, fail) = nix::unistd::pipe2(flags)?;
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(arguments), pointers(environment));
    // SAFETY: the child calls only async-signal-safe functions on memory prepared above, until it
    // executes a program or ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; every pointer is to a live, NUL-terminated string or array, and the
            // signal set is initialised before it is used.
            let code = unsafe {
                let mut byte = 0u8;
                let mut none = std::mem::MaybeUninit::uninit();
                libc::sigemptyset(none.as_mut_ptr());
                libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::setpgid(0, 0);
                // Only the tracer may keep the other end: without it `read` ends.
                libc::close(go.as_raw_fd());
                for (number, fd) in (0..).zip(stdio) {
                    libc::dup2(fd.as_raw_fd(), number);
                }
                // End of file instead of the byte: the tracer is gone.
                if libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) == 1
                    && libc::chdir(directory.as_ptr()) == 0
                {
                    libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
                }
                *libc::__errno_location()
            };
            let bytes = code.to_ne_bytes();
            // SAFETY: as above.
            unsafe {
                libc::write(fail.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
                libc::_exit(127)
            }
        }
        pid => Ok(Held { pid: Pid::from_raw(pid), go, failed }),
    }
}
