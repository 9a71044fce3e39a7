//! The loop that starts tests, follows their processes by `ptrace`, and lets each go after it has
//! been looked at. One thread does it all, because the kernel takes trace requests from the tracing
//! thread only.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::ptrace::{Options as Trace, getevent, getregs, seize};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::kernel::Kernel;
use super::prepare::Prepared;
use super::process::{Phase, Process, Thread};
use super::{Event, Traced, entry};
use crate::error::{Error, Result};
use crate::harvest;
use crate::model::{Outcome, Output, PlannedTest, Window};
use crate::options::TraceOptions;
use crate::snapshot::{Loss, Snapshot};
use crate::sys::{self, Spawner, Stop};

const SYS_EXIT: u64 = 60;
/// How soon a dying process is looked at again if nothing happens.
const DYING: Duration = Duration::from_millis(5);

/// Follows the tests of one run.
pub struct Follower<'a> {
    kernel: &'a mut Kernel,
    prepared: &'a Prepared,
    options: &'a TraceOptions,
    sink: &'a mut dyn FnMut(Event),
    signals: SignalFd,
    spawner: Spawner,
    null: Arc<OwnedFd>,
    processes: HashMap<Pid, Process>,
    /// Which process a thread belongs to.
    owners: HashMap<Pid, Pid>,
    /// Threads that stopped before their creation was reported.
    early: Vec<Pid>,
    /// Processes that a test made by a plain clone, to be let go as they stop for the first time.
    strangers: Vec<Pid>,
    interrupted: bool,
}

impl<'a> Follower<'a> {
    /// Makes a follower. Signals that end the tool are blocked from here on and handled by `run`.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(
        kernel: &'a mut Kernel,
        prepared: &'a Prepared,
        options: &'a TraceOptions,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self> {
        let failed = |call: &str| {
            let call = call.to_owned();
            move |errno: nix::errno::Errno| Error::System { call, source: errno.into() }
        };
        let signals =
            SignalFd::with_flags(&super::handled_signals(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
                .map_err(failed("signalfd"))?;
        let null = std::fs::File::open("/dev/null").map_err(|source| Error::File {
            action: "open",
            path: "/dev/null".into(),
            source,
        })?;
        Ok(Self {
            kernel,
            prepared,
            options,
            sink,
            signals,
            spawner: Spawner::new(),
            null: Arc::new(null.into()),
            processes: HashMap::new(),
            owners: HashMap::new(),
            early: Vec::new(),
            strangers: Vec::new(),
            interrupted: false,
        })
    }

    /// Runs the tests; whether it was interrupted.
    ///
    /// # Errors
    /// The system refuses a process or a descriptor; what was running is ended.
    pub fn run(mut self, tests: &[PlannedTest]) -> Result<bool> {
        let mut queue: VecDeque<usize> = (0..tests.len()).collect();
        loop {
            while !self.interrupted
                && self.processes.len() < self.options.jobs
                && let Some(number) = queue.pop_front()
            {
                self.start(number, &tests[number])?;
            }
            if self.processes.is_empty() {
                return Ok(self.interrupted);
            }
            self.wait()?;
            while let Some((pid, stop)) = sys::wait_any() {
                self.handle(pid, stop);
            }
            self.enforce_timeouts();
            for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                self.harvest_if_complete(pid);
            }
        }
    }

    fn start(&mut self, number: usize, test: &PlannedTest) -> Result<()> {
        let process =
            Process::start(number, test, self.prepared.coverage(&test.binary), &self.spawner, &self.null)?;
        let pid = process.pid;
        let options = Trace::PTRACE_O_TRACEEXEC
            | Trace::PTRACE_O_TRACEEXIT
            | Trace::PTRACE_O_TRACECLONE
            | Trace::PTRACE_O_EXITKILL;
        let started = seize(pid, options)
            .map_err(std::io::Error::from)
            .and_then(|()| process.held.release())
            .map_err(|source| Error::System { call: format!("tracing process {pid}"), source });
        if let Err(error) = started {
            // Without the byte it waits for, the child ends by itself when its pipe is closed.
            drop(process);
            return Err(error);
        }
        (self.sink)(Event::Started { number });
        self.owners.insert(pid, pid);
        self.processes.insert(pid, process);
        Ok(())
    }

    /// Waits until a child changes its state, a test writes, a signal comes, or a time is up.
    fn wait(&mut self) -> Result<()> {
        let mut deadline = self.processes.values().filter_map(|process| self.deadline(process)).min();
        if self.processes.values().any(|process| matches!(process.phase, Phase::Dying)) {
            // Whether a dying process executes another program shows without an event.
            let soon = Instant::now() + DYING;
            deadline = Some(deadline.map_or(soon, |deadline| deadline.min(soon)));
        }
        let timeout = match deadline {
            None => PollTimeout::NONE,
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut files = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let streams = self.processes.values().flat_map(|process| &process.streams);
        files.extend(streams.filter_map(|stream| Some(PollFd::new(stream.pipe()?, PollFlags::POLLIN))));
        match poll(&mut files, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(Error::System { call: "poll".into(), source: errno.into() }),
        }
        let readable = files[1..].iter().any(|file| file.any() == Some(true));
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                self.interrupted = true;
                self.processes.values().for_each(|process| end(process.pid));
            }
        }
        if readable {
            for process in self.processes.values_mut() {
                process.streams.iter_mut().for_each(super::output::Capture::read);
            }
        }
        Ok(())
    }

    fn deadline(&self, process: &Process) -> Option<Instant> {
        let timeout = self.options.timeout.filter(|_| !process.timed_out)?;
        Some(process.start + timeout)
    }

    fn enforce_timeouts(&mut self) {
        let now = Instant::now();
        let late: Vec<Pid> = self
            .processes
            .values()
            .filter(|process| self.deadline(process).is_some_and(|deadline| deadline <= now))
            .map(|process| process.pid)
            .collect();
        for pid in late {
            end(pid);
            self.processes.get_mut(&pid).expect("it was just listed").timed_out = true;
        }
    }

    fn handle(&mut self, pid: Pid, stop: Stop) {
        let Some(&owner) = self.owners.get(&pid) else {
            self.handle_unknown(pid, stop);
            return;
        };
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => self.ended(pid, owner, stop),
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_CLONE, _) => self.cloned(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => self.exiting(pid, owner),
            // The first stop of a new thread, or a group-stop.
            Stop::Event(_, libc::SIGTRAP) | Stop::Event(libc::PTRACE_EVENT_STOP, 0) => proceed(pid, 0),
            Stop::Event(..) => drop(sys::listen(pid)),
            Stop::Signal(signal) => {
                let process = self.processes.get_mut(&owner).expect("an owner is a process");
                let forward = match signal {
                    libc::SIGTRAP if pid == owner && entry::trapped(self.kernel, process) => 0,
                    // Our eBPF program stops a thread that is about to unload a module.
                    libc::SIGSTOP if sys::sent_by_kernel(pid) => {
                        process.history.extend(harvest::mappings(owner).unwrap_or_default());
                        0
                    }
                    signal => signal,
                };
                proceed(pid, forward);
            }
        }
    }

    /// A child that is not known: a thread whose creation was not yet reported, or a process that a
    /// test has left to us.
    fn handle_unknown(&mut self, pid: Pid, stop: Stop) {
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => {
                self.early.retain(|early| *early != pid);
                self.strangers.retain(|stranger| *stranger != pid);
            }
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => {
                // Killed before its creation was reported: its process is at its end as well.
                let owner = harvest::process_of(pid).filter(|owner| self.processes.contains_key(owner));
                match owner {
                    Some(owner) => {
                        self.adopt(pid, owner, None);
                        self.exiting(pid, owner);
                    }
                    None => proceed(pid, 0),
                }
            }
            _ => match self.strangers.iter().position(|stranger| *stranger == pid) {
                Some(place) => {
                    self.strangers.swap_remove(place);
                    let_go(pid);
                }
                None => self.early.push(pid),
            },
        }
    }

    fn cloned(&mut self, parent: Pid, owner: Pid) {
        if let Ok(child) = getevent(parent) {
            let child = Pid::from_raw(child as i32);
            let is_thread = harvest::process_of(child) == Some(owner);
            if is_thread {
                self.adopt(child, owner, Some(parent));
            }
            if let Some(place) = self.early.iter().position(|early| *early == child) {
                self.early.swap_remove(place);
                if is_thread {
                    self.note_thread_pointer(child, owner);
                    proceed(child, 0);
                } else {
                    let_go(child);
                }
            } else if !is_thread {
                self.strangers.push(child);
            }
        }
        proceed(parent, 0);
    }

    fn adopt(&mut self, thread: Pid, owner: Pid, parent: Option<Pid>) {
        self.owners.insert(thread, owner);
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        process.threads.insert(thread, Thread::default());
        let tracing = process.libc.is_some() && !matches!(process.phase, Phase::Done);
        if let Some(parent) = parent
            && tracing
            && self.kernel.add_thread(parent, thread).is_err()
        {
            match process.losses.iter_mut().find_map(|loss| match loss {
                Loss::Threads { count } => Some(count),
                _ => None,
            }) {
                Some(count) => *count += 1,
                None => process.losses.push(Loss::Threads { count: 1 }),
            }
        }
    }

    fn note_thread_pointer(&mut self, thread: Pid, owner: Pid) {
        if let Ok(registers) = getregs(thread)
            && let Some(process) = self.processes.get_mut(&owner)
            && let Some(thread) = process.threads.get_mut(&thread)
        {
            thread.fs_base = registers.fs_base;
        }
    }

    fn executed(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if !matches!(process.phase, Phase::Held) {
            // Its memory is gone, and with it everything that was recorded.
            process.losses.push(Loss::Exec);
            self.forget(owner);
        } else if process.libc.is_some() {
            process.threads.insert(pid, Thread::default());
            process.phase = Phase::Running;
            let in_window = process.test.window == Window::Process;
            let ready = self
                .kernel
                .add_process(pid, in_window)
                .map_err(|error| error.to_string())
                .and_then(|()| entry::arm(process));
            if let Err(reason) = ready {
                process.losses.push(Loss::NoCanary { reason });
            }
        } else {
            process.phase = Phase::Done;
        }
        proceed(pid, 0);
    }

    /// A thread has reached its exit: alone, or with its whole process.
    fn exiting(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        let Ok(registers) = getregs(pid) else { return };
        if matches!(process.phase, Phase::Done | Phase::Held) || process.libc.is_none() {
            proceed(pid, 0);
            return;
        }
        let alone = registers.orig_rax == SYS_EXIT && process.threads.len() > 1;
        if alone && !matches!(process.phase, Phase::Dying) {
            process.finished.push(registers.fs_base);
            process.threads.remove(&pid);
            self.kernel.remove_thread(pid);
            proceed(pid, 0);
            return;
        }
        process.phase = Phase::Dying;
        let thread = process.threads.entry(pid).or_default();
        thread.fs_base = registers.fs_base;
        thread.at_exit = Some(registers);
        self.harvest_if_complete(owner);
    }

    /// Looks at a process once all of its threads are kept at their exits, and lets them go.
    fn harvest_if_complete(&mut self, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if !matches!(process.phase, Phase::Dying) {
            return;
        }
        // A thread that executes a program has the others killed and waits for them.
        let waiting = process.threads.iter().filter(|(_, thread)| thread.at_exit.is_none());
        if waiting.into_iter().any(|(id, _)| harvest::is_executing(owner, *id)) {
            process.phase = Phase::Running;
            for (id, thread) in &mut process.threads {
                if thread.at_exit.take().is_some() {
                    proceed(*id, 0);
                }
            }
            return;
        }
        let complete = process.threads.values().all(|thread| thread.at_exit.is_some())
            && harvest::threads_of(owner)
                .iter()
                .all(|thread| process.threads.contains_key(thread) || harvest::is_zombie(owner, *thread));
        if !complete {
            return;
        }
        process.snapshot = Some(harvest::take(self.kernel, process));
        let threads: Vec<Pid> = process.threads.keys().copied().collect();
        self.forget(owner);
        for thread in threads {
            proceed(thread, 0);
        }
    }

    /// Removes what the kernel side has of a process.
    fn forget(&mut self, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        process.phase = Phase::Done;
        for thread in process.threads.keys() {
            self.kernel.remove_thread(*thread);
        }
        // What could not be removed only takes room, and is counted when that runs out.
        let _ = self.kernel.remove_process(owner);
    }

    fn ended(&mut self, pid: Pid, owner: Pid, stop: Stop) {
        self.owners.remove(&pid);
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        process.threads.remove(&pid);
        if pid != owner {
            if matches!(process.phase, Phase::Dying) {
                self.harvest_if_complete(owner);
            }
            return;
        }
        let outcome = match stop {
            _ if process.timed_out => Outcome::TimedOut,
            Stop::Exited(_) if matches!(process.phase, Phase::Held) => {
                let reason = process.held.failure();
                let reason = reason.map_or_else(|| "it ended early".into(), |error| error.to_string());
                Outcome::NotStarted { reason }
            }
            Stop::Exited(0) => Outcome::Passed,
            Stop::Exited(code) => Outcome::Failed { code },
            Stop::Signalled(signal) => Outcome::Signalled { signal },
            Stop::Signal(_) | Stop::Event(..) => unreachable!("only ends come here"),
        };
        // What the test has started and left in its group ends with it.
        end_group(owner);
        self.forget(owner);
        let process = self.processes.remove(&owner).expect("it was just there");
        self.owners.retain(|_, other| *other != owner);
        (self.sink)(Event::Finished(Box::new(finish(process, outcome, self.interrupted))));
    }
}

fn proceed(pid: Pid, signal: i32) {
    // A tracee that was killed meanwhile needs no word from us.
    let _ = sys::cont(pid, signal);
}

fn let_go(pid: Pid) {
    // One that was killed meanwhile is free.
    let _ = nix::sys::ptrace::detach(pid, None);
}

/// Ends a test's process, which may have left its group, and its group.
fn end(pid: Pid) {
    let _ = kill(pid, Signal::SIGKILL);
    end_group(pid);
}

fn end_group(pid: Pid) {
    // No such group: all of it has ended.
    let _ = killpg(pid, Signal::SIGKILL);
}

fn finish(process: Process, outcome: Outcome, interrupted: bool) -> Traced {
    let duration = process.start.elapsed();
    let [(stdout, lost_out), (stderr, lost_err)] = process.streams.map(super::output::Capture::finish);
    let mut losses = process.losses;
    let mut snapshot = process.snapshot.unwrap_or_else(|| {
        if losses.is_empty() && !matches!(outcome, Outcome::NotStarted { .. }) {
            losses.push(Loss::Vanished { reason: "its threads were not seen to exit".into() });
        }
        Snapshot::default()
    });
    snapshot.losses.extend(losses);
    Traced {
        number: process.number,
        interrupted,
        ran: crate::model::Ran {
            test: process.test,
            outcome,
            duration,
            output: Output { stdout, stderr, dropped_bytes: lost_out + lost_err },
            memory: snapshot,
        },
    }
}

/// The signals that the loop handles itself.
pub fn handled() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}
