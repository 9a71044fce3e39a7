use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use nix::errno::Errno;
use nix::unistd::{Pid, pipe2};

use super::namespace::ipc_namespace;

/// A program to start.
pub struct Program {
    /// The executable.
    pub path: CString,
    /// All arguments, its name first.
    pub arguments: Vec<CString>,
    /// All environment variables.
    pub environment: Vec<CString>,
    /// The working directory.
    pub directory: CString,
    /// Standard input, output and error.
    pub stdio: [Arc<OwnedFd>; 3],
    /// It gets an IPC namespace of its own.
    pub private_ipc: bool,
    /// One more descriptor, and the numbers that it may have in the child: it gets the first that is free.
    pub extra: Option<(Arc<OwnedFd>, &'static [RawFd])>,
}

/// A child process that has not yet executed its program.
pub struct Held {
    /// Its process id.
    pub pid: Pid,
    /// What it waits for, and where it says why it has failed; none of one that was forked.
    pipes: Option<(OwnedFd, OwnedFd)>,
    ipc: Option<io::Result<OwnedFd>>,
}

impl Held {
    /// A child that was forked from another one, with a new IPC namespace if it was to have one.
    pub fn forked(pid: Pid, private_ipc: bool) -> Self {
        Self { pid, pipes: None, ipc: private_ipc.then(|| ipc_namespace(pid)) }
    }

    /// The IPC namespace that it was given, or why it was not; none where it was to have none. As long as this
    /// lives, so does the namespace.
    pub fn ipc(&self) -> Option<&io::Result<OwnedFd>> {
        self.ipc.as_ref()
    }

    /// Lets the child execute its program.
    pub fn release(&self) -> io::Result<()> {
        let Some((go, _)) = &self.pipes else { return Ok(()) };
        nix::unistd::write(go, b"x").map(drop).map_err(io::Error::from)
    }

    /// After the child has ended without executing its program: why.
    pub fn failure(&self) -> Option<io::Error> {
        read_number(&self.pipes.as_ref()?.1).map(io::Error::from_raw_os_error)
    }
}

/// Starts children and holds each before `execve`, so that the caller can trace it from its first
/// instruction. `std::process::Command` cannot: its `spawn` waits for the `execve`. So does a
/// `vfork`, which costs a fifth of a `fork` here; a thread of its own does that waiting.
pub struct Spawner {
    requests: Sender<Request>,
}

struct Request {
    program: Program,
    wait: OwnedFd,
    go: RawFd,
    status: OwnedFd,
}

impl Spawner {
    /// Starts the thread; it ends with the spawner.
    pub fn new() -> Self {
        let (requests, receiver) = channel::<Request>();
        std::thread::spawn(move || {
            let mut stack = vec![0_u64; 8192];
            receiver.into_iter().for_each(|request| request.spawn(&mut stack));
        });
        Self { requests }
    }

    /// Starts a child in a process group of its own, held.
    ///
    /// # Errors
    /// The system has no room for another pipe or process. A failing `chdir` or `execve` shows
    /// later, see [`Held::failure`].
    pub fn spawn(&self, program: Program) -> io::Result<Held> {
        let flags = nix::fcntl::OFlag::O_CLOEXEC;
        let (wait, go) = pipe2(flags)?;
        let (status, child_status) = pipe2(flags)?;
        let request = Request { program, wait, go: go.as_raw_fd(), status: child_status };
        let private_ipc = request.program.private_ipc;
        self.requests.send(request).map_err(io::Error::other)?;
        match read_number(&status) {
            Some(pid) if pid > 0 => {
                let pid = Pid::from_raw(pid);
                let ipc = private_ipc.then(|| match read_number(&status) {
                    Some(0) => ipc_namespace(pid),
                    Some(error) => Err(io::Error::from_raw_os_error(error)),
                    None => Err(io::Error::other("the child ended at once")),
                });
                Ok(Held { pid, pipes: Some((go, status)), ipc })
            }
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(io::Error::other("the child ended at once")),
        }
    }
}

fn read_number(pipe: &OwnedFd) -> Option<i32> {
    let mut bytes = [0; 4];
    match nix::unistd::read(pipe, &mut bytes) {
        Ok(4) => Some(i32::from_ne_bytes(bytes)),
        _ => None,
    }
}

/// What the child needs, as system calls take it.
struct Child {
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
    stdio: [RawFd; 3],
    extra: RawFd,
    numbers: &'static [RawFd],
    private_ipc: bool,
    wait: RawFd,
    go: RawFd,
    status: RawFd,
}

impl Request {
    /// Starts the child; returns when it has executed its program or has ended.
    fn spawn(&self, stack: &mut [u64]) {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let program = &self.program;
        let (arguments, environment) = (pointers(&program.arguments), pointers(&program.environment));
        let mut child = Child {
            path: program.path.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            directory: program.directory.as_ptr(),
            stdio: [0, 1, 2].map(|number: usize| program.stdio[number].as_raw_fd()),
            extra: program.extra.as_ref().map_or(-1, |(fd, _)| fd.as_raw_fd()),
            numbers: program.extra.as_ref().map_or(&[], |(_, numbers)| numbers),
            private_ipc: program.private_ipc,
            wait: self.wait.as_raw_fd(),
            go: self.go,
            status: self.status.as_raw_fd(),
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child runs `run_child` on a stack of its own; this thread is suspended, and
        // everything `child` points to stays alive, until the child has left this address space.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(stack.len());
            libc::clone(run_child, top.cast(), flags, (&raw mut child).cast())
        };
        if pid == -1 {
            // The reader of this pipe is waiting for it; it is never full.
            let _ = nix::unistd::write(&self.status, &(-Errno::last_raw()).to_ne_bytes());
        }
    }
}

/// The child: async-signal-safe calls only, because other threads of the tool go on in the same
/// address space.
extern "C" fn run_child(child: *mut c_void) -> c_int {
    // SAFETY: `Request::spawn` passes a `Child` that outlives the child's time in this address
    // space; each pointer in it is to a live, NUL-terminated string or array; the signal set is
    // initialised before it is used. Descriptors and signal settings are the child's own.
    unsafe {
        let child = &*child.cast::<Child>();
        let tell = |number: c_int| {
            let bytes = number.to_ne_bytes();
            libc::write(child.status, bytes.as_ptr().cast(), bytes.len());
        };
        let mut none = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::setpgid(0, 0);
        // Only the tracer may keep the other end: without it `read` ends.
        libc::close(child.go);
        for (number, fd) in (0..).zip(child.stdio) {
            libc::dup2(fd, number);
        }
        for number in child.numbers {
            // Descriptors of the tool's own are closed by `execve`: only those that stay are in the way.
            let flags = libc::fcntl(*number, libc::F_GETFD);
            let is_free = flags == -1 || flags & libc::FD_CLOEXEC != 0;
            let is_needed = [child.wait, child.status, child.extra].contains(number);
            if is_free && !is_needed && libc::dup2(child.extra, *number) == *number {
                break;
            }
        }
        tell(libc::getpid());
        if child.private_ipc {
            tell(if libc::unshare(libc::CLONE_NEWIPC) == 0 { 0 } else { *libc::__errno_location() });
        }
        let mut byte = 0u8;
        // End of file instead of the byte: the tracer is gone.
        if libc::read(child.wait, (&raw mut byte).cast(), 1) == 1 && libc::chdir(child.directory) == 0 {
            libc::execve(child.path, child.arguments, child.environment);
        }
        tell(*libc::__errno_location());
        libc::_exit(127)
    }
}
