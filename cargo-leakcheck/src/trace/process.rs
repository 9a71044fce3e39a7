//! A process while it runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc::user_regs_struct as Registers;
use nix::unistd::Pid;

use super::files::OpenFile;
use super::growth::Repeated;
use super::ledger::Ledger;
use super::libraries::{Coverage, Libraries};
use super::sees::Sees;
use super::template::{Changed, Source};
use crate::model::{PlannedTest, Window};
use crate::options::{KernelBytes, TraceOptions};
use crate::snapshot::{Loss, Mapping, Snapshot};
use crate::sys::{self, Held};

/// The number of a run of a test: a test may run twice.
pub type Turn = usize;

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
    /// Forked from a template, and not begun.
    Forked {
        /// What is to be written into its memory before.
        changed: Box<Changed>,
        /// What it was forked from.
        source: Arc<Source>,
    },
    /// The loader has not begun to load libraries; it stops where it does.
    Starting {
        /// There.
        loading: Breakpoint,
        /// Words of the initial stack that are to be put back, with their addresses.
        lent: Vec<(u64, u64)>,
        /// The program's entry point.
        entry: u64,
        /// Where the loader keeps its list of modules; none without a loader.
        modules: Option<u64>,
    },
    /// The loader loads libraries, and calls their constructors.
    Loading {
        /// At the program's entry point.
        entry: Breakpoint,
        /// Where the loader keeps its list of modules; none without a loader.
        modules: Option<u64>,
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

/// A process that is followed: a test's own, or a child of one.
pub struct Process {
    /// Whose it is.
    pub turn: Turn,
    /// What it is called, where it is a child.
    pub child: Option<String>,
    /// Process id; of a test's own process also that of its process group.
    pub pid: Pid,
    /// When its allocations count.
    pub window: Window,
    /// The template that it was forked from, until it is known to have begun.
    pub template: Option<Pid>,
    /// How it was started; none for a child of a test.
    pub held: Option<Arc<Held>>,
    /// How far it has come.
    pub phase: Phase,
    /// The libraries it is given; none when it cannot be traced.
    pub libraries: Option<Arc<Libraries>>,
    /// The threads that are followed.
    pub threads: HashMap<Pid, Thread>,
    /// Thread pointers of threads that have finished.
    pub finished: Vec<u64>,
    /// Mappings seen before modules were unloaded.
    pub history: Vec<Mapping>,
    /// Its descriptors at the beginning of its window, once they were listed; or why they could not be.
    pub before: Option<Result<Vec<OpenFile>, String>>,
    /// When its window began, `CLOCK_MONOTONIC` in nanoseconds; none before, and where nothing needs it.
    pub begun_ns: Option<u64>,
    /// What has been recorded of it from its start on.
    pub sees: Sees,
    /// Address of the canary block.
    pub canary: Option<u64>,
    /// It is noted where blocks are freed.
    pub notes_frees: bool,
    /// The ledger, where that is the recorder.
    pub ledger: Option<Arc<Ledger>>,
    /// Address of its control words, once it works.
    pub control: Option<u64>,
    /// Address of the log of the crate `leakcheck`, where its program has one.
    pub log: Option<u64>,
    /// When all of its threads had come to their exits.
    pub exited: Option<Instant>,
    /// When it was looked last, what it leaves running was not about to change.
    pub settled: bool,
    /// Its test's body is run more than once.
    pub repeated: Option<Repeated>,
    /// What is looked for at its exit.
    pub wanted: Wanted,
    /// What could not be seen.
    pub losses: Vec<Loss>,
    /// What was seen at its exit.
    pub snapshot: Option<Snapshot>,
}

/// What is looked for at a process's exit, besides blocks, where the run looks for it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Descriptors.
    pub files: bool,
    /// IPC objects.
    pub ipc: bool,
    /// What descriptors hold in the kernel.
    pub held: bool,
    /// What it leaves running, and that is ended.
    pub left: bool,
    /// Mappings.
    pub mappings: bool,
    /// Its peak, exactly, whatever the number of threads.
    pub exact_peak: bool,
    /// What was alive at its peak, by call stacks.
    pub peak_stacks: bool,
}

impl Wanted {
    /// Nothing.
    pub const NOTHING: Self = Self {
        files: false,
        ipc: false,
        held: false,
        left: false,
        mappings: false,
        exact_peak: false,
        peak_stacks: false,
    };

    /// What is looked for of a test that is traced with these options.
    pub fn of(test: &PlannedTest, trace: &TraceOptions) -> Self {
        let held = trace.kernel_bytes != KernelBytes::Off;
        let TraceOptions { descriptors: files, ipc, children: left, mappings, peak_stacks, .. } = *trace;
        let exact_peak = test.peak_limit().is_some();
        Self { files, ipc, held, left, mappings, exact_peak, peak_stacks }
    }
}

impl Process {
    /// A test's own process that has yet to execute its program.
    pub fn new(
        turn: Turn,
        pid: Pid,
        window: Window,
        coverage: &Coverage,
        ledger: Option<&Arc<Ledger>>,
        notes_frees: bool,
    ) -> Self {
        let uncovered = match coverage {
            Ok(libraries) => libraries.unseen.clone(),
            Err(reason) => Some(reason.clone()),
        };
        Self {
            turn,
            child: None,
            template: None,
            held: None,
            pid,
            window,
            phase: Phase::Held,
            libraries: coverage.as_ref().ok().cloned(),
            threads: HashMap::new(),
            finished: Vec::new(),
            history: Vec::new(),
            before: None,
            begun_ns: None,
            sees: Sees::default(),
            canary: None,
            notes_frees,
            ledger: ledger.cloned(),
            control: None,
            log: None,
            exited: None,
            settled: false,
            repeated: None,
            wanted: Wanted::NOTHING,
            losses: uncovered.map(|reason| Loss::Allocator { reason }).into_iter().collect(),
            snapshot: None,
        }
    }

    /// It could not be prepared. A child may have been killed by its test meanwhile.
    pub fn refused(&mut self, reason: String) {
        if self.child.is_none() || !sys::is_ending(self.pid) {
            self.losses.push(Loss::NoCanary { reason });
        }
    }

    /// Whether nothing of the program has run: a test may end a child at once.
    pub fn has_not_begun(&self) -> bool {
        self.child.is_some() && self.canary.is_none() && self.losses.is_empty()
    }

    /// After its end: what is known of it.
    pub fn into_snapshot(self) -> Snapshot {
        let has_begun = !self.has_not_begun();
        let mut losses = self.losses;
        let mut snapshot = self.snapshot.unwrap_or_else(|| {
            if losses.is_empty() && has_begun {
                losses.push(Loss::Vanished { reason: "its threads were not seen to exit".into() });
            }
            Snapshot::default()
        });
        snapshot.losses.extend(losses);
        snapshot
    }
}
