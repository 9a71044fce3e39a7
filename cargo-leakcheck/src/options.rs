//! The resolved options of a run. Made once by `cli`; nothing below the command line sees a flag
//! type or the environment.

mod accept;
mod report;
mod setup;
mod trace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use camino::Utf8PathBuf;

use crate::config::Layer;

pub use accept::{AcceptOptions, Ratchet};
pub use report::{Color, Github, ReportOptions, When};
pub use setup::{SetupAction, SetupOptions};
pub use trace::{KernelBytes, MAX_ENTRIES, MAX_TASKS, TraceOptions};

/// Everything a run depends on.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub action: Action,
    /// Raise the tool where it lacks privileges (lists need none), by what is set up or by `sudo` without a password.
    pub sudo: bool,
    /// How to trace.
    pub trace: TraceOptions,
    /// How to judge.
    pub judge: JudgeOptions,
    /// What does not count.
    pub accept: AcceptOptions,
    /// How to report.
    pub report: ReportOptions,
    /// What else is to be taken into account.
    pub config: ConfigOptions,
}

/// Where to look for what is not on the command line.
#[derive(Clone, Debug, Default)]
pub struct ConfigOptions {
    /// What the command line sets: it comes before what files set.
    pub given: Layer,
    /// Where the workspace is looked for: a manifest or a directory; nowhere without one.
    pub start: Option<Utf8PathBuf>,
    /// `--config-file`, as seen from here.
    pub file: Option<Utf8PathBuf>,
    /// `--leakcheck-profile`.
    pub profile: Option<String>,
}

/// What one test has otherwise than the run.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How it is traced. What is of the whole run is as there.
    pub trace: TraceOptions,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Build, discover, trace, report.
    Test(BuildOptions, Selection),
    /// Build, discover, print.
    List(BuildOptions, Selection),
    /// Explain what is configured, also for the tests of the selection.
    ShowConfig(BuildOptions, Option<Selection>),
    /// Trace one program, or tests as a runner.
    Exec(ExecOptions),
    /// Print the variables that make this program cargo's runner.
    ShowEnv {
        /// Of which workspace.
        build: BuildOptions,
        /// The options that the runner has.
        runner: Vec<String>,
        /// `export` stands before each.
        export: bool,
    },
    /// Run cargo nextest with those variables, and put the results of all its tests together.
    Nextest {
        /// Of which workspace.
        build: BuildOptions,
        /// The options that the runner has.
        runner: Vec<String>,
        /// nextest's command and its options.
        command: Vec<OsString>,
    },
    /// Show reports of earlier runs again, as one.
    Report(Vec<Utf8PathBuf>),
    /// Show what a report knows of some tests.
    Explain {
        /// The report.
        report: Utf8PathBuf,
        /// The name of a test, or a part of it.
        test: String,
    },
}

/// Names and values of environment variables.
pub type Environment = BTreeMap<OsString, OsString>;

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The cargo to call: `$CARGO`, which cargo sets for its subcommands, or `cargo`.
    pub cargo: OsString,
    /// This executable. Cargo is told to start it in place of a test, to learn how it would.
    pub executable: PathBuf,
    /// The user's working directory.
    pub directory: PathBuf,
    /// The user's environment.
    pub environment: Environment,
    /// Arguments for `cargo test`: workspace, package, target, feature, profile, manifest selection.
    pub cargo_args: Vec<OsString>,
    /// Whether somebody asks for the packages that the workspace's depend on.
    pub with_dependencies: bool,
    /// Those of them that `cargo metadata` takes as well.
    pub metadata_args: Vec<OsString>,
    /// `--target-dir`. What is built goes to `leakcheck` below it, or below cargo's own.
    pub target_dir: Option<Utf8PathBuf>,
    /// `--target` values.
    pub targets: Vec<String>,
    /// `--config` values.
    pub configs: Vec<String>,
}

/// Which program to trace.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// The program, looked up in `PATH` unless it has a slash, and its arguments.
    pub command: Vec<OsString>,
    /// The user's working directory.
    pub directory: PathBuf,
    /// The user's environment, without what was meant for this process only.
    pub environment: Environment,
    /// A file that has what `cargo metadata` says of the workspace.
    pub metadata: Option<PathBuf>,
    /// Cargo or nextest starts it so: what is no test is none of ours.
    pub runner: bool,
    /// What its arguments ask for, if it is a test binary.
    pub asked: Asked,
}

/// What a test binary is asked for by its arguments.
#[derive(Clone, Debug)]
pub enum Asked {
    /// To run tests.
    Tests(Selection),
    /// To list its tests, to say what it can, to measure.
    Other,
    /// For something that libtest does not know.
    Unknown {
        /// What.
        reason: String,
    },
}

/// How to examine the machine.
#[derive(Clone, Debug)]
pub struct DoctorOptions {
    /// Print a JSON document.
    pub json: bool,
    /// The cargo that builds.
    pub cargo: OsString,
    /// The rustc that it calls.
    pub rustc: OsString,
    /// This executable, which is traced for a trial.
    pub executable: PathBuf,
    /// The user's working directory.
    pub directory: PathBuf,
    /// The user's environment.
    pub environment: Environment,
    /// How a run without options would trace.
    pub trace: TraceOptions,
    /// When to colour.
    pub color: Color,
    /// Raise the tool where it lacks privileges, by what is set up or by `sudo` without a password.
    pub sudo: bool,
}

/// Which tests to run: libtest's own selection, and expressions.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Substrings, any of which must occur; none selects all.
    pub filters: Vec<String>,
    /// Substrings that must not occur.
    pub skip: Vec<String>,
    /// Filters are whole names.
    pub exact: bool,
    /// Whether ignored tests run.
    pub ignored: Ignored,
    /// Expressions of nextest's, any of which must accept a test.
    pub expressions: Vec<String>,
    /// Which part of those.
    pub partition: Option<Partition>,
    /// What they write goes on as it comes.
    pub no_capture: bool,
}

impl Selection {
    /// Whether it selects all tests, but for ignored ones.
    pub fn is_whole(&self) -> bool {
        let Self { filters, skip, exact: _, ignored, expressions, partition, no_capture: _ } = self;
        let by_name = filters.is_empty() && skip.is_empty() && expressions.is_empty();
        by_name && partition.is_none() && *ignored != Ignored::Only
    }
}

/// One of several parts of a run, which together are all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// How tests are dealt out.
    pub by: PartitionBy,
    /// Which part, from 1.
    pub part: u64,
    /// How many there are.
    pub of: u64,
}

/// How tests are dealt out to parts, as nextest does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionBy {
    /// By the hash of a test's name, whatever other tests there are.
    Hash,
    /// One after the other, over all binaries.
    Slice,
    /// One after the other in each binary.
    Count,
}

/// Whether tests marked `#[ignore]` run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// They do not.
    #[default]
    Skip,
    /// They run too.
    Include,
    /// Only they run.
    Only,
}

/// What writes allocations down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// The ledger for every binary that loads a shared C library, and eBPF programs for those of them that
    /// are known beforehand to pass it by, and for tests that turn out to. (No other can be traced so far.)
    Auto,
    /// A preloaded library, inside the process.
    Ledger,
    /// eBPF programs at probes in the C library.
    Uprobe,
}

/// How the processes of tests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spawn {
    /// Their binary is started for each.
    Exec,
    /// Their binary is started once, and forks for each before anything of it has run, where that can be.
    Fork,
    /// The same where it is worth it.
    Auto,
}

/// Where the tool's privileges come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Raised {
    /// They were there, or nobody has tried to get any.
    #[default]
    No,
    /// `sudo` has raised the tool, and nothing that it starts.
    BySudo,
    /// What `cargo leakcheck setup` has installed has.
    BySetup,
    /// Either was asked; why it has not.
    Refused(String),
}

/// How to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgeOptions {
    /// What counts against a test without a budget of its own.
    pub count: Count,
    /// Failed, aborted, timed-out tests' leaks count as well.
    pub count_failed: bool,
    /// `#[should_panic]` tests' leaks count as well.
    pub count_should_panic: bool,
    /// Double and unknown frees fail a test.
    pub count_bad_frees: bool,
    /// What comes of leaks of code that is not the user's.
    pub dependencies: Dependencies,
    /// Descriptors that a test without a limit of its own may leave open; without it nobody is to judge.
    pub fds: Option<u64>,
    /// The same of bytes that those hold in the kernel.
    pub kernel_bytes: Option<u64>,
    /// IPC objects that a test without a limit of its own may leave behind.
    pub ipc: u64,
    /// The same of child processes that it may leave.
    pub children: Option<u64>,
    /// The same of threads that it may leave running.
    pub threads: Option<u64>,
    /// The same of bytes that it may leave mapped.
    pub mapped_bytes: Option<u64>,
    /// How often the body of a test that does not say it is run in its process.
    pub growth: Option<u64>,
    /// The same of bytes that it may have at a time.
    pub peak_bytes: Option<u64>,
    /// The same of blocks that it may allocate.
    pub total_blocks: Option<u64>,
}

/// What comes of leaks whose owner is a dependency or a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// They count as all others.
    #[default]
    Fail,
    /// They are shown and not judged.
    Report,
}

/// What `bytes` and `blocks` of a budget limit: 0 bytes by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Definitely and indirectly lost blocks.
    #[default]
    Lost,
    /// Every block alive at exit, but for what the budget has another limit for.
    Outstanding,
}
