//! The loop that starts tests, follows their processes by `ptrace`, and lets each go after it has
//! been looked at. One thread does it all, because the kernel takes trace requests from the tracing
//! thread only.

mod descendants;
mod events;
mod forked;
mod repeat;
mod start;
mod templates;
mod twice;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::Event;
use super::prepare::Prepared;
use super::process::{Phase, Process, Turn};
use super::running::Running;
use super::steering::Steering;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, Stdio};
use crate::options::TraceOptions;
use crate::sys::{self, Interrupts, Spawner};
use templates::Templates;

/// How soon a dying process is looked at again if nothing happens.
const DYING: Duration = Duration::from_millis(5);
/// For so long after it was looked for other things, only changes of children's states wake anybody: a test's few lines are read
/// with something else.
const QUIET: Duration = Duration::from_millis(3);
/// Who has written so many bytes meanwhile would have to wait for us the next time.
const FLOOD: usize = 16 << 10;

/// Follows the tests of one run.
pub struct Follower<'a> {
    steering: &'a mut Steering,
    prepared: &'a Prepared,
    options: &'a TraceOptions,
    sink: &'a mut dyn FnMut(Event),
    interrupts: &'a Interrupts,
    signals: SignalFd,
    spawner: Spawner,
    null: Arc<OwnedFd>,
    /// The tests that run, and how many have been started.
    tests: HashMap<Turn, Running>,
    turns: Turn,
    /// Their own processes, and children that are followed.
    processes: HashMap<Pid, Process>,
    /// Which process a thread belongs to.
    owners: HashMap<Pid, Pid>,
    /// Threads that stopped before their creation was reported.
    early: Vec<Pid>,
    /// Threads of all other descendants that are traced, with the tests they come from.
    others: HashMap<Pid, Turn>,
    /// Tests that are still to be run, by their places in the plan.
    queue: VecDeque<usize>,
    /// Tests that are run once more, with how they went first.
    again: HashMap<usize, twice::Again>,
    /// What tests are forked from.
    templates: Templates,
    /// The kernel's objects are recorded as long as some of those run.
    weighs: bool,
    /// When it is to be looked for other things than changes of children's states, whatever those do.
    others_at: Instant,
    interrupted: bool,
}

impl<'a> Follower<'a> {
    /// Makes a follower.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(
        steering: &'a mut Steering,
        prepared: &'a Prepared,
        options: &'a TraceOptions,
        interrupts: &'a Interrupts,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self> {
        let failed = |call: &str| {
            let call = call.to_owned();
            move |errno: nix::errno::Errno| Error::System { call, source: errno.into() }
        };
        let signals = SignalFd::with_flags(&handled(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(failed("signalfd"))?;
        let null = std::fs::File::open("/dev/null").map_err(|source| Error::File {
            action: "open",
            path: "/dev/null".into(),
            source,
        })?;
        Ok(Self {
            steering,
            prepared,
            options,
            sink,
            interrupts,
            signals,
            spawner: Spawner::new(),
            null: Arc::new(null.into()),
            tests: HashMap::new(),
            turns: 0,
            processes: HashMap::new(),
            owners: HashMap::new(),
            early: Vec::new(),
            others: HashMap::new(),
            queue: VecDeque::new(),
            again: HashMap::new(),
            templates: Templates::default(),
            weighs: false,
            others_at: Instant::now(),
            interrupted: interrupts.requested(),
        })
    }

    /// Runs the tests; whether it was interrupted.
    ///
    /// # Errors
    /// The system refuses a process or a descriptor; what was running is ended.
    pub fn run(mut self, tests: &[PlannedTest]) -> Result<bool> {
        let before = processor_time();
        self.queue = (0..tests.len()).collect();
        self.templates.plan(tests, self.options);
        loop {
            if self.interrupts.has_enough() {
                self.queue.retain(|number| self.again.contains_key(number));
            }
            while !self.interrupted
                && self.tests.len() + self.templates.pending() < self.options.jobs
                && let Some(number) = self.queue.pop_front()
            {
                match self.start(number, &tests[number]) {
                    Ok(()) => {}
                    Err(error) if self.tests.is_empty() && self.templates.pending() == 0 => {
                        return Err(error);
                    }
                    // No room for another one beside those that run.
                    Err(_) => {
                        self.queue.push_front(number);
                        break;
                    }
                }
            }
            if self.tests.is_empty() && self.templates.pending() == 0 {
                if !self.interrupted && !self.queue.is_empty() {
                    // What was to be forked is to be started.
                    continue;
                }
                self.end_templates();
                self.end_others();
                // What tests have left behind outside of their process groups has become ours.
                self.interrupts.end_children(Instant::now());
                for (_, again) in std::mem::take(&mut self.again) {
                    (self.sink)(Event::Finished(Box::new(again.first)));
                }
                (self.sink)(Event::Followed(processor_time().saturating_sub(before)));
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

    /// Says something. Whoever listens may take his time (nobody reads what the tool writes, say); that is not the
    /// tests' time.
    fn tell(&mut self, event: Event) {
        let start = Instant::now();
        (self.sink)(event);
        let time = start.elapsed();
        self.tests.values_mut().for_each(|test| test.kept_waiting += time);
    }

    /// Waits until a child changes its state, a test writes, a signal comes, or a time is up.
    fn wait(&mut self) -> Result<()> {
        let deadlines = self.tests.values().filter_map(|test| self.deadline(test));
        let mut deadline = deadlines.chain(self.templates.deadline()).min();
        if self.processes.values().any(|process| matches!(process.phase, Phase::Dying)) {
            // Whether a dying process executes another program shows without an event.
            let soon = Instant::now() + DYING;
            deadline = Some(deadline.map_or(soon, |deadline| deadline.min(soon)));
        }
        let now = Instant::now();
        let left = deadline.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
        let quiet = self.others_at.saturating_duration_since(now);
        let quiet = left.map_or(quiet, |left| left.min(quiet));
        if !quiet.is_zero() && sys::child_has_changed(quiet) {
            return Ok(());
        }
        let mut files = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if !self.interrupted {
            files.push(PollFd::new(self.interrupts.as_fd(), PollFlags::POLLIN));
        }
        let known = files.len();
        let streams = self.tests.values().flat_map(|test| &test.streams);
        files.extend(streams.filter_map(|stream| Some(PollFd::new(stream.pipe()?, PollFlags::POLLIN))));
        let timeout =
            left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        match poll(&mut files, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(Error::System { call: "poll".into(), source: errno.into() }),
        }
        let ready: Vec<bool> = files.iter().map(|file| file.any() == Some(true)).collect();
        let asked = ready[1..known].contains(&true);
        if ready[0] {
            // Only one of a kind is pending: what they tell of is asked for after it.
            let _ = self.signals.read_signal();
        }
        let streams = self.tests.values_mut().flat_map(|test| &mut test.streams);
        let streams = streams.filter(|stream| stream.pipe().is_some()).zip(&ready[known..]);
        let read = streams.filter(|(_, ready)| **ready).map(|(stream, _)| stream.read());
        let is_flooded = read.fold(false, |before, count| before | (count >= FLOOD));
        self.others_at = Instant::now() + if is_flooded { Duration::ZERO } else { QUIET };
        if self.hands_on() {
            if asked && let Some(signal) = self.interrupts.take() {
                for test in self.tests.values() {
                    // It may have ended just now.
                    let _ = kill(test.pid, signal);
                }
            }
        } else if asked && self.interrupts.requested() {
            self.interrupted = true;
            self.processes.values().for_each(|process| end(process.pid));
            self.templates.forget_waiting();
        }
        Ok(())
    }

    /// Whether signals to the tool are for what it runs: a program, or a single test, that has its streams too. In a second
    /// run it has none, and is the same test all the same.
    fn hands_on(&self) -> bool {
        let stdio = |test: &Running| {
            let again = self.again.get(&test.number);
            again.map_or(test.stdio(), |again| again.first.ran.test.stdio)
        };
        let stands_for = |test: &Running| !test.has_ended() && stdio(test) != Stdio::Captured;
        self.queue.is_empty() && self.tests.len() == 1 && self.tests.values().all(stands_for)
    }

    fn deadline(&self, test: &Running) -> Option<Instant> {
        let timeout =
            test.test().trace(self.options).timeout.filter(|_| !test.timed_out && !test.has_ended())?;
        // Beyond what a clock can show is never.
        test.start.checked_add(timeout)?.checked_add(test.kept_waiting)
    }

    fn enforce_timeouts(&mut self) {
        let now = Instant::now();
        let is_late = |test: &Running| self.deadline(test).is_some_and(|deadline| deadline <= now);
        let late: Vec<Turn> =
            self.tests.iter().filter(|(_, test)| is_late(test)).map(|(turn, _)| *turn).collect();
        for turn in late {
            let test = self.tests.get_mut(&turn).expect("it was just listed");
            // What it has started is looked at, and ends after it.
            end_process(test.pid);
            test.timed_out = true;
        }
        self.give_up_templates(now);
    }
}

/// How long this thread has been on a processor.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Lets a thread go on from a stop that is not its exit. One that was killed meanwhile is not to be sent
/// through that.
fn proceed(pid: Pid, signal: i32) {
    if !sys::is_ending(pid) {
        let _ = sys::cont(pid, signal);
    }
}

/// Lets a thread exit.
fn leave(pid: Pid) {
    // One that was killed once more is gone.
    let _ = sys::cont(pid, 0);
}

/// Ends a test's process, which may have left its group, and its group.
fn end(pid: Pid) {
    end_process(pid);
    end_group(pid);
}

/// Whether there was such a process.
fn end_process(pid: Pid) -> bool {
    kill(pid, Signal::SIGKILL).is_ok()
}

fn end_group(pid: Pid) {
    // No such group: all of it has ended.
    let _ = killpg(pid, Signal::SIGKILL);
}

/// Blocks the signal that tells of children: the follower's loop looks for it. To be called before
/// any other thread is started: a signal goes to any thread that does not block it.
///
/// # Errors
/// The system refuses.
pub fn block_signals() -> Result<()> {
    handled()
        .thread_block()
        .map_err(|errno| Error::System { call: "blocking signals".into(), source: errno.into() })
}

fn handled() -> SigSet {
    std::iter::once(Signal::SIGCHLD).collect()
}
