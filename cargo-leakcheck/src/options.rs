//! The resolved options of a run. Made once by `cli`; nothing below the command line sees a flag
//! type or the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::config::Layer;
use crate::filter::Filter;

/// Everything a run depends on.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub action: Action,
    /// How to trace.
    pub trace: TraceOptions,
    /// How to judge.
    pub judge: JudgeOptions,
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
    /// How it is judged.
    pub judge: JudgeOptions,
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
    /// Trace one program.
    Exec(ExecOptions),
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
    /// The user's environment.
    pub environment: Environment,
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
    /// Expressions, any of which must mean the test as well; none means all.
    pub expressions: Vec<Filter>,
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

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// What writes allocations down.
    pub recorder: Recorder,
    /// Tests at a time.
    pub jobs: usize,
    /// Time for one test.
    pub timeout: Option<Duration>,
    /// Record the workspace's executables too where tests start them.
    pub follow_children: bool,
    /// Note where every block is freed; otherwise a test with a double free is run once more for it.
    pub free_stacks: bool,
    /// Look at descriptors that are left open.
    pub descriptors: bool,
    /// Give tests IPC namespaces of their own, and look at IPC objects that are left behind.
    pub ipc: bool,
    /// Give tests (no program of `exec`) temporary directories of their own, and say what is left there.
    pub files: bool,
    /// Look at processes, threads and timers that are left behind.
    pub children: bool,
    /// Entries of the block table.
    pub max_blocks: u32,
    /// Entries of the stack table.
    pub max_stacks: u32,
    /// Entries of the thread table.
    pub max_threads: u32,
    /// Entries of the table of bad frees.
    pub max_bad_frees: u32,
    /// Entries of the table of files.
    pub max_files: u32,
    /// Probe functions at their first instruction (only the benchmark wants this).
    pub probe_at_entry: bool,
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
    /// Descriptors that a test without a limit of its own may leave open; without it nobody is to judge.
    pub fds: Option<u64>,
    /// IPC objects that a test without a limit of its own may leave behind.
    pub ipc: u64,
    /// The same of child processes that it may leave.
    pub children: Option<u64>,
    /// The same of threads that it may leave running.
    pub threads: Option<u64>,
}

/// What counts against the default budget of 0 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Definitely and indirectly lost blocks.
    #[default]
    Lost,
    /// Every block alive at exit.
    Outstanding,
}

/// How to report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Where the JUnit document goes.
    pub junit: Option<Utf8PathBuf>,
    /// Where the JSON document goes; `-` is standard output.
    pub json: Option<Utf8PathBuf>,
    /// Show std, allocator and harness frames too.
    pub full_stacks: bool,
    /// Show what every test leaves in its temporary directory.
    pub files: bool,
    /// When to colour.
    pub color: Color,
    /// Say how long each leak check took (only the benchmark wants this).
    pub timings: bool,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
