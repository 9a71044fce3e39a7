//! One test while it runs: its own process, and children of it that are followed.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
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
    pub environment: Vec<CString>,
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
        let environment = &test.binary.environment;
        let all = prepared.temporaries().filter(|_| !test.is_program() && test.wants(|trace| trace.files));
        let temporary = all.map(|all| all.give(environment)).transpose().map_err(failed)?.flatten();
        let environment = strings(environment, temporary.as_ref().map(Temporary::variable));
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
                environment: std::mem::take(&mut self.environment),
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
            environment: self.environment.clone(),
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

/// The variables of an environment, and one that takes the place of those of its name.
fn strings(environment: &[(OsString, OsString)], own: Option<(&OsStr, &OsStr)>) -> Vec<CString> {
    let is_own = |name: &OsStr| own.is_some_and(|(own, _)| own == name);
    let theirs = environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let new = own.filter(|_| !environment.iter().any(|(name, _)| is_own(name)));
    let all = theirs.map(|(name, value)| own.filter(|_| is_own(name)).unwrap_or((name, value))).chain(new);
    let join = |(name, value): (&OsStr, &OsStr)| {
        let mut variable = OsString::with_capacity(name.len() + value.len() + 2);
        [name, OsStr::new("="), value].into_iter().for_each(|part| variable.push(part));
        string(variable)
    };
    all.map(join).collect()
}

/// Variables, arguments and paths come from `execve` themselves or from files: a NUL cannot be in them. One
/// that has one all the same is cut there, as `execve` would.
pub fn string(text: impl Into<OsString>) -> CString {
    let mut bytes = text.into().into_vec();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_variable_takes_the_place_of_another() {
        let environment = |names: &[&str]| -> Vec<(OsString, OsString)> {
            names.iter().map(|name| (name.into(), "x=y".into())).collect()
        };
        let own = Some((OsStr::new("T"), OsStr::new("/t")));
        let of = |names: &[&str], own| {
            let all = strings(&environment(names), own);
            all.iter().map(|variable| variable.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(&["A", "T", "B"], own), ["A=x=y", "T=/t", "B=x=y"]);
        assert_eq!(of(&["A"], own), ["A=x=y", "T=/t"]);
        assert_eq!(of(&["T"], None), ["T=x=y"]);
    }

    #[test]
    fn what_execve_would_cut_is_cut() {
        assert_eq!(string("a\0b"), c"a".to_owned());
    }
}
