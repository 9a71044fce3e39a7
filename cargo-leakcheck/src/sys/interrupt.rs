//! The user's wish to end the run, and what the run must not leave behind then.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpid};
use signal_hook::flag::register_usize;
use signal_hook::low_level::{emulate_default_handler, pipe, register};

use super::procfs::status;
use super::ptrace::wait_any;
use crate::error::{Error, Result};

/// How long compilers have to remove their temporary files.
const GRACE: Duration = Duration::from_millis(500);
/// How long it is tried to end all processes: ending one may leave us its children.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);
/// How often it is asked whether a child has ended.
const WAITING: Duration = Duration::from_millis(20);

/// What comes sooner after a signal is the same wish: `timeout` and sudo may send it twice, and who presses a key too.
const SAME: u64 = 1000;

/// When the first signal came that asks for the end and was not taken, in milliseconds; 0 before.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// For how long the user has been waiting for the end of the run, for those who know of no [`Interrupts`].
pub fn asked_to_end_for() -> Option<Duration> {
    let since = ASKED.load(Ordering::SeqCst);
    (since > 0).then(|| Duration::from_millis(now().saturating_sub(since)))
}

/// Milliseconds, of a clock that may be asked in a signal handler.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(1, |time| Duration::from(time).as_millis() as u64)
}

/// In a signal handler.
fn ask_to_end(signal: i32, at_once: bool) {
    let now = now();
    let first = ASKED.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    if at_once && first.is_err_and(|first| now.saturating_sub(first) >= SAME) {
        let _ = emulate_default_handler(signal);
    }
}

/// From when this exists, signals that ask for an end no longer end the tool: it looks here. What
/// the run has started and left becomes a child of the tool, however it has hidden itself.
pub struct Interrupts {
    /// Readable from the first signal on, until it is taken.
    requests: UnixStream,
    /// No other test is to be started.
    enough: AtomicBool,
    /// The signal that came last.
    last: Arc<AtomicUsize>,
    /// Children that were there before.
    before: HashSet<Pid>,
}

impl Interrupts {
    /// Takes over the signals, and `others` that the run hands on to a program. Those that are ignored, as under
    /// `nohup`, stay ignored. Where none is handed on, a second one, a second later, ends the tool at once.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(others: &[Signal]) -> io::Result<Self> {
        set_child_subreaper(true)?;
        let (requests, sender) = UnixStream::pair()?;
        requests.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        let ignored = ignored_signals();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].iter().chain(others) {
            let signal = *signal as i32;
            if ignored >> (signal - 1) & 1 == 0 {
                let at_once = others.is_empty();
                // SAFETY: it asks the clock, changes an atomic number and ends the process by a signal: all of it may be
                // done in a signal handler.
                unsafe { register(signal, move || ask_to_end(signal, at_once)) }?;
                register_usize(signal, last.clone(), signal.unsigned_abs() as usize)?;
                pipe::register(signal, sender.try_clone()?)?;
            }
        }
        Ok(Self { requests, enough: AtomicBool::new(false), last, before: children().into_iter().collect() })
    }

    /// Whether the user has asked for the end.
    pub fn requested(&self) -> bool {
        readable(&[self.as_fd()], Duration::ZERO)
    }

    /// Has the run start no other test.
    pub fn start_no_more(&self) {
        self.enough.store(true, Ordering::SeqCst);
    }

    /// Whether no other test is to be started.
    pub fn has_enough(&self) -> bool {
        self.enough.load(Ordering::SeqCst)
    }

    /// The signal that was sent last, if one was: from then on, it has not been requested.
    pub fn take(&self) -> Option<Signal> {
        // One that comes just now is not lost: it can be read in any case.
        ASKED.store(0, Ordering::SeqCst);
        let mut requests = [0; 64];
        let read = (&self.requests).read(&mut requests).ok()?;
        (read > 0).then_some(())?;
        Signal::try_from(i32::try_from(self.last.load(Ordering::SeqCst)).ok()?).ok()
    }

    /// Waits for a child's end. What asks this process for its end is handed on to the child, but for what a
    /// terminal has sent to both.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait_for(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let on_terminal = io::stdin().is_terminal() || io::stderr().is_terminal();
        let id = Pid::from_raw(child.id().cast_signed());
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            readable(&[self.as_fd()], WAITING);
            if let Some(signal) = self.take()
                && !(on_terminal && signal == Signal::SIGINT)
            {
                // It may just have ended.
                let _ = kill(id, signal);
            }
        }
    }

    /// Does `work`, which starts processes and waits for them. If the user asks for the end, whatever
    /// it has started is ended, so that it has nothing to wait for.
    ///
    /// # Errors
    /// Those of `work`, or the system refuses a pair of sockets.
    pub fn watch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (done, finish) = UnixStream::pair()
            .map_err(|source| Error::System { call: "making a pair of sockets".to_owned(), source })?;
        let result = std::thread::scope(|scope| {
            scope.spawn(move || {
                readable(&[self.as_fd(), done.as_fd()], Duration::MAX);
                let grace = Instant::now() + GRACE;
                while !readable(&[done.as_fd()], PAUSE) {
                    self.signal_children(grace);
                }
            });
            let result = work();
            drop(finish);
            result
        });
        if self.requested() {
            self.end_children(Instant::now() + GRACE);
        }
        result
    }

    /// Ends every process that the run has started, and waits for it: by a request before `grace`, by
    /// force after it. Nothing else may be waiting for processes.
    pub fn end_children(&self, grace: Instant) {
        let start = Instant::now();
        while self.signal_children(grace) && start.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
            while wait_any().is_some() {}
        }
    }

    /// Whether there were any.
    fn signal_children(&self, grace: Instant) -> bool {
        let signal = if Instant::now() < grace { Signal::SIGTERM } else { Signal::SIGKILL };
        let ours: Vec<Pid> = children().into_iter().filter(|child| !self.before.contains(child)).collect();
        for child in &ours {
            // One that has ended meanwhile is only to be waited for.
            let _ = kill(*child, signal);
        }
        !ours.is_empty()
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.requests.as_fd()
    }
}

/// Waits until one of the descriptors can be read or its other end is closed; false when the time is
/// up first.
fn readable(descriptors: &[BorrowedFd<'_>], limit: Duration) -> bool {
    let mut files: Vec<_> =
        descriptors.iter().map(|descriptor| PollFd::new(*descriptor, PollFlags::POLLIN)).collect();
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::NONE);
    loop {
        match poll(&mut files, limit) {
            Err(nix::errno::Errno::EINTR) => {}
            result => return result != Ok(0),
        }
    }
}

/// The mask of signals that are ignored: bit 0 is signal 1.
fn ignored_signals() -> u64 {
    let mask = status("self", "SigIgn");
    mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0)
}

/// The tool's children, those that have ended and were not waited for included.
fn children() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let own = getpid().to_string();
    let is_child = |id: &Pid| status(id, "PPid").is_some_and(|parent| parent == own);
    ids.map(Pid::from_raw).filter(is_child).collect()
}
