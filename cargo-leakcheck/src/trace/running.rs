//! One test while it runs: its own process, and children of it that are followed.

use std::ffi::{CString, OsStr, OsString};
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
use super::temporary::Temporary;
use super::{Child, Traced};
use crate::error::{Error, Result};
use crate::model::{Outcome, Output, PlannedTest, Ran, RecordedBy, Stdio};
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
    allocators: Vec<String>,
    temporary: Option<Temporary>,
    snapshot: Snapshot,
    children: Vec<Child>,
}

impl Running {
    /// Starts a test, whose process is held before its program.
    ///
    /// # Errors
    /// The system has no room for another process or pipe.
    pub fn start(
        (number, test): (usize, &PlannedTest),
        turn: Turn,
        notes_frees: bool,
        prepared: &Prepared,
        steering: &Steering,
        spawner: &Spawner,
        null: &Arc<OwnedFd>,
    ) -> Result<(Self, Process)> {
        let failed = |source| Error::System { call: format!("starting {}", test.binary.path), source };
        let (streams, stdio) = streams(test.stdio, null).map_err(failed)?;
        let program = string(test.binary.path.as_str());
        let arguments: Vec<CString> =
            std::iter::once(program.clone()).chain(test.arguments.iter().map(string)).collect();
        let mut environment = test.binary.environment.clone();
        let all = prepared.temporaries().filter(|_| !test.is_program() && test.wants(|trace| trace.files));
        let temporary = all.map(|all| all.give(&mut environment));
        let temporary = temporary.transpose().map_err(failed)?.flatten();
        let coverage = prepared.coverage(&test.binary);
        let ledger = prepared.ledger(coverage);
        let held = spawner
            .spawn(Program {
                path: program,
                arguments,
                environment: strings(&environment),
                directory: string(test.binary.directory.as_str()),
                stdio,
                private_ipc: prepared.private_ipc() && test.wants(|trace| trace.ipc),
                extra: ledger.map(|_| (steering.window(), &WINDOW_FDS[..])),
            })
            .map_err(failed)?;
        let held = Arc::new(held);
        let process = Process::new(turn, held.pid, test.window, coverage, ledger, notes_frees);
        let process = Process { held: Some(held.clone()), sees: steering.sees(), ..process };
        let running = Self {
            number,
            pid: held.pid,
            held,
            timed_out: false,
            streams,
            start: Instant::now(),
            kept_waiting: Duration::ZERO,
            ended: None,
            test: test.clone(),
            recorded_by: coverage.as_ref().ok().map(|libraries| libraries.recorded_by.clone()),
            allocators: coverage.as_ref().map(|libraries| libraries.names.clone()).unwrap_or_default(),
            temporary,
            snapshot: Snapshot::default(),
            children: Vec::new(),
        };
        Ok((running, process))
    }

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
        let ran = Ran { test, outcome, duration, output, recorded_by, allocators, memory };
        Traced { number: self.number, interrupted, ran, children: self.children, second: None }
    }
}

fn strings(variables: &[(OsString, OsString)]) -> Vec<CString> {
    let variables = variables.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    variables.map(|variable| string(OsStr::from_bytes(&variable))).collect()
}

/// Variables, arguments and paths come from `execve` themselves or from files: a NUL cannot be in them. One
/// that has one all the same is cut there, as `execve` would.
fn string(text: impl AsRef<OsStr>) -> CString {
    let bytes = text.as_ref().as_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}
