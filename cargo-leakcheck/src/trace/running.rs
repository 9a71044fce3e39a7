//! One test while it runs: its own process, and children of it that are followed.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leakcheck_preload::layout::WINDOW_FDS;
use nix::unistd::Pid;

use super::output::{Capture, streams};
use super::prepare::Prepared;
use super::process::{Process, Turn};
use super::steering::Steering;
use super::template::Template;
use super::temporary::Temporary;
use super::variables::{Variables, string};
use super::{Child, Traced};
use crate::error::{Error, Result};
use crate::model::{Outcome, Output, PlannedTest, Ran, RecordedBy, Spawned, Stdio};
use crate::snapshot::Snapshot;
use crate::sys::{Held, Program, Spawner};

/// A test that runs.
pub struct Running {
    /// Its place in the plan.
    pub number: usize,
    /// Its own process, and the id of the process group of that.
    pub pid: Pid,
    /// Lets it start.
    pub held: Arc<Held>,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// Standard output and error.
    pub streams: [Capture; 2],
    /// When it was started.
    pub start: Instant,
    /// How long nobody was there to let it go on from a stop.
    pub kept_waiting: Duration,
    /// How its own process has ended, and after which time.
    ended: Option<(Outcome, Duration)>,
    test: PlannedTest,
    recorded_by: Option<RecordedBy>,
    spawned: Spawned,
    allocators: Vec<String>,
    temporary: Option<Temporary>,
    snapshot: Snapshot,
    children: Vec<Child>,
}

/// What a test's process is to be given, while there is none.
pub struct Launch {
    /// The test's place in the plan.
    pub number: usize,
    /// The test.
    pub test: PlannedTest,
    /// It has not run before.
    pub is_first: bool,
    /// It is noted where blocks are freed.
    pub notes_frees: bool,
    /// All arguments, the program first.
    pub arguments: Vec<CString>,
    /// All environment variables.
    pub environment: Variables,
    /// Standard input, output and error.
    pub stdio: [Arc<OwnedFd>; 3],
    /// It gets an IPC namespace of its own.
    pub private_ipc: bool,
    streams: [Capture; 2],
    temporary: Option<Temporary>,
}

impl Launch {
    /// Makes it.
    ///
    /// # Errors
    /// The system has no room for another pipe or directory.
    pub fn new(
        (number, test): (usize, PlannedTest),
        is_first: bool,
        notes_frees: bool,
        prepared: &Prepared,
        null: &Arc<OwnedFd>,
    ) -> Result<Self> {
        let failed = |source| starting(&test, source);
        let (streams, stdio) = streams(test.stdio, null).map_err(failed)?;
        let program = string(test.binary.path.as_str());
        let arguments = std::iter::once(program).chain(test.arguments.iter().map(string)).collect();
        let all = prepared.temporaries().filter(|_| !test.is_program() && test.wants(|trace| trace.files));
        let temporary = all.map(|all| all.give(&test.binary.environment));
        let temporary = temporary.transpose().map_err(failed)?.flatten();
        let own = temporary.as_ref().map(Temporary::variable);
        let environment = Variables::new(prepared.environment(&test.binary), own);
        let private_ipc = prepared.private_ipc() && test.wants(|trace| trace.ipc);
        Ok(Self {
            number,
            test,
            is_first,
            notes_frees,
            arguments,
            environment,
            stdio,
            private_ipc,
            streams,
            temporary,
        })
    }

    /// Starts its process, which is held before its program; `because` says why it is not forked, where that was tried.
    ///
    /// # Errors
    /// The system has no room for another process or pipe.
    pub fn spawn(
        mut self,
        turn: Turn,
        because: Option<String>,
        prepared: &Prepared,
        steering: &Steering,
        spawner: &Spawner,
    ) -> Result<(Running, Process)> {
        let (test, ledger) = (&self.test, prepared.ledger(prepared.coverage(&self.test.binary)));
        let held = spawner
            .spawn(Program {
                path: self.arguments[0].clone(),
                arguments: std::mem::take(&mut self.arguments),
                environment: self.environment.iter().map(CStr::to_owned).collect(),
                directory: string(test.binary.directory.as_str()),
                stdio: self.stdio.clone(),
                private_ipc: self.private_ipc,
                extra: ledger.map(|_| (steering.window(), &WINDOW_FDS[..])),
            })
            .map_err(|source| starting(test, source))?;
        Ok(self.begin(turn, held, Spawned::Started { because }, prepared, steering))
    }

    /// Starts a template that its process can be forked from, and others of its binary whose last arguments have at most so
    /// many bytes; what the kernel is to tell of it.
    ///
    /// # Errors
    /// The system has no room for another process or pipe.
    pub fn template(
        self,
        longest: usize,
        prepared: &Prepared,
        steering: &Steering,
        (spawner, null): (&Spawner, &Arc<OwnedFd>),
    ) -> Result<Template> {
        let test = &self.test;
        let failed = |source| starting(test, source);
        let (streams, stdio) = streams(Stdio::Captured, null).map_err(failed)?;
        let mut arguments = self.arguments.clone();
        if let Some(last) = arguments.last_mut() {
            *last = string(OsStr::from_bytes(&vec![b'-'; longest]));
        }
        let coverage = prepared.coverage(&test.binary);
        let ledger = prepared.ledger(coverage);
        let held = spawner.spawn(Program {
            path: self.arguments[0].clone(),
            arguments,
            environment: self.environment.iter().map(CStr::to_owned).collect(),
            directory: string(test.binary.directory.as_str()),
            stdio,
            // What constructors make is not left to everybody.
            private_ipc: self.private_ipc,
            extra: ledger.map(|_| (steering.window(), &WINDOW_FDS[..])),
        });
        let held = held.map_err(failed)?;
        let process = Process::new(0, held.pid, test.window, coverage, ledger, false);
        let binary = test.binary.path.clone();
        Ok(Template::new(binary, process, held, streams, self))
    }

    /// There is a process for it.
    pub fn begin(
        self,
        turn: Turn,
        held: Held,
        spawned: Spawned,
        prepared: &Prepared,
        steering: &Steering,
    ) -> (Running, Process) {
        let test = self.test;
        let coverage = prepared.coverage(&test.binary);
        let held = Arc::new(held);
        let ledger = prepared.ledger(coverage);
        let process = Process::new(turn, held.pid, test.window, coverage, ledger, self.notes_frees);
        let process = Process { held: Some(held.clone()), sees: steering.sees(), ..process };
        let running = Running {
            number: self.number,
            pid: held.pid,
            held,
            timed_out: false,
            streams: self.streams,
            start: Instant::now(),
            kept_waiting: Duration::ZERO,
            ended: None,
            recorded_by: coverage.as_ref().ok().map(|libraries| libraries.recorded_by.clone()),
            spawned,
            allocators: coverage.as_ref().map(|libraries| libraries.names.clone()).unwrap_or_default(),
            test,
            temporary: self.temporary,
            snapshot: Snapshot::default(),
            children: Vec::new(),
        };
        (running, process)
    }
}

fn starting(test: &PlannedTest, source: std::io::Error) -> Error {
    Error::System { call: format!("starting {}", test.binary.path), source }
}

impl Running {
    /// Where its streams lead.
    pub fn stdio(&self) -> Stdio {
        self.test.stdio
    }

    /// Takes what is known of its own process, which has ended so.
    pub fn end(&mut self, process: Process, outcome: Outcome) {
        if !matches!(outcome, Outcome::NotStarted { .. }) {
            self.snapshot = process.into_snapshot();
        }
        self.ended = Some((outcome, self.start.elapsed()));
    }

    /// Takes what is known of a child of it that has ended.
    pub fn add(&mut self, process: String, child: Process) {
        self.children.push(Child { process, snapshot: child.into_snapshot() });
    }

    /// Whether its own process has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The test.
    pub fn test(&self) -> &PlannedTest {
        &self.test
    }

    /// How it went, once all of its processes have ended.
    pub fn finish(self, interrupted: bool) -> Traced {
        let [(stdout, lost_out), (stderr, lost_err)] = self.streams.map(Capture::finish);
        let (outcome, duration) = self.ended.expect("its own process has ended");
        let output = Output { stdout, stderr, dropped_bytes: lost_out + lost_err };
        let memory = Snapshot { files: self.temporary.map(Temporary::clear), ..self.snapshot };
        let (test, recorded_by, allocators) = (self.test, self.recorded_by, self.allocators);
        let spawned = Some(self.spawned);
        let ran = Ran { test, outcome, duration, output, recorded_by, spawned, allocators, memory };
        Traced { number: self.number, interrupted, ran, children: self.children, second: None }
    }
}
