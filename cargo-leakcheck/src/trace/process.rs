//! One test's process while it runs.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leakcheck_preload::layout::WINDOW_FDS;
use nix::libc::user_regs_struct as Registers;
use nix::unistd::Pid;

use super::ledger::Ledger;
use super::output::{Capture, streams};
use super::prepare::{Libraries, Prepared};
use super::steering::Steering;
use crate::error::{Error, Result};
use crate::model::PlannedTest;
use crate::snapshot::{Loss, Mapping, Snapshot};
use crate::sys::{Held, Program, Spawner};

/// A place where a process is to stop.
#[derive(Clone, Copy, Debug)]
pub struct Breakpoint {
    /// Where it is.
    pub address: u64,
    /// The word that was there.
    pub word: u64,
}

/// How far a process has come.
pub enum Phase {
    /// Waiting for its `execve`.
    Held,
    /// The loader has not begun to load libraries; it stops where it does.
    Starting {
        /// There.
        loading: Breakpoint,
        /// Words of the initial stack that are to be put back, with their addresses.
        lent: Vec<(u64, u64)>,
        /// The program's entry point.
        entry: u64,
        /// Where the loader keeps its list of modules.
        modules: u64,
    },
    /// The loader loads libraries, and calls their constructors.
    Loading {
        /// At the program's entry point.
        entry: Breakpoint,
        /// Where the loader keeps its list of modules.
        modules: u64,
    },
    /// In the call of `malloc` that was pushed in front of the program.
    Canary {
        /// At the program's entry point.
        entry: Breakpoint,
        /// The registers to go on with.
        registers: Box<Registers>,
    },
    /// In its own code.
    Running,
    /// At its end: the whole process exits, and each thread is kept as it reaches its exit.
    Dying,
    /// Looked at, or not to be looked at any more.
    Done,
}

/// A thread that is followed.
pub struct Thread {
    /// When it was created, `CLOCK_MONOTONIC` in nanoseconds.
    pub created_ns: u64,
    /// The same by the time stamp counter.
    pub created_stamp: u64,
    /// Its thread pointer, once it has been seen: a thread that is killed while it exits shows no registers.
    pub pointer: Option<u64>,
    /// Its registers at its exit, while it is kept there.
    pub at_exit: Option<Registers>,
}

impl Thread {
    /// A thread that has just been created.
    pub fn new() -> Self {
        use nix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        // Without a clock no block is younger than the thread, and all references count.
        let created_ns = now.map_or(u64::MAX, |now| now.as_nanos() as u64);
        Self { created_ns, created_stamp: crate::sys::time_stamp(), pointer: None, at_exit: None }
    }
}

/// A test's process.
pub struct Process {
    /// The test's place in the plan.
    pub number: usize,
    /// The test.
    pub test: PlannedTest,
    /// Process id; also that of its process group.
    pub pid: Pid,
    /// Lets it start.
    pub held: Held,
    /// How far it has come.
    pub phase: Phase,
    /// The libraries it is given; none when it cannot be traced.
    pub libraries: Option<Libraries>,
    /// When it was started.
    pub start: Instant,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// Standard output and error.
    pub streams: [Capture; 2],
    /// The threads that are followed.
    pub threads: HashMap<Pid, Thread>,
    /// Thread pointers of threads that have finished.
    pub finished: Vec<u64>,
    /// Mappings seen before modules were unloaded.
    pub history: Vec<Mapping>,
    /// Address of the canary block.
    pub canary: Option<u64>,
    /// It is noted where blocks are freed.
    pub notes_frees: bool,
    /// The ledger, where that is the recorder.
    pub ledger: Option<Arc<Ledger>>,
    /// Address of its control words, once it works.
    pub control: Option<u64>,
    /// What could not be seen.
    pub losses: Vec<Loss>,
    /// What was seen at its exit.
    pub snapshot: Option<Snapshot>,
}

impl Process {
    /// Starts a test, held before its program.
    ///
    /// # Errors
    /// The system has no room for another process or pipe.
    pub fn start(
        number: usize,
        test: &PlannedTest,
        prepared: &Prepared,
        steering: &Steering,
        spawner: &Spawner,
        null: &Arc<OwnedFd>,
    ) -> Result<Self> {
        let failed = |source| Error::System { call: format!("starting {}", test.binary.path), source };
        let (streams, stdio) = streams(test.stdio, null).map_err(failed)?;
        let program = string(test.binary.path.as_str());
        let arguments: Vec<CString> =
            std::iter::once(program.clone()).chain(test.arguments.iter().map(string)).collect();
        let coverage = prepared.coverage(&test.binary);
        let ledger = prepared.ledger();
        let held = spawner
            .spawn(Program {
                path: program,
                arguments,
                environment: environment(test),
                directory: string(test.binary.directory.as_str()),
                stdio,
                extra: ledger.filter(|_| coverage.is_ok()).map(|_| (steering.window(), &WINDOW_FDS[..])),
            })
            .map_err(failed)?;
        let uncovered = match coverage {
            Ok(libraries) => libraries.unseen.clone(),
            Err(reason) => Some(reason.clone()),
        };
        let losses = uncovered.map(|reason| Loss::Allocator { reason }).into_iter().collect();
        Ok(Self {
            number,
            test: test.clone(),
            pid: held.pid,
            held,
            phase: Phase::Held,
            libraries: coverage.as_ref().ok().cloned(),
            start: Instant::now(),
            timed_out: false,
            streams,
            threads: HashMap::new(),
            finished: Vec::new(),
            history: Vec::new(),
            canary: None,
            notes_frees: false,
            ledger: ledger.cloned(),
            control: None,
            losses,
            snapshot: None,
        })
    }
}

fn environment(test: &PlannedTest) -> Vec<CString> {
    let variables = test.binary.environment.iter();
    variables
        .map(|(name, value)| string(OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat())))
        .collect()
}

/// Variables, arguments and paths come from `execve` themselves or from files: a NUL cannot be in them. An
/// argument that has one all the same is cut there, as `execve` would.
fn string(text: impl AsRef<OsStr>) -> CString {
    let bytes = text.as_ref().as_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}
