//! The resolved options of a run. Made once by `cli`; nothing below the command line sees a flag
//! type or the environment.

use std::ffi::OsString;
use std::time::Duration;

use camino::Utf8PathBuf;

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
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Build, discover, trace, report.
    Test(BuildOptions, Selection),
    /// Build, discover, print.
    List(BuildOptions, Selection),
    /// Trace one program.
    Exec(Vec<OsString>),
}

/// What to build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Arguments for `cargo test`: workspace, package, target, feature, profile, manifest selection.
    pub cargo_args: Vec<OsString>,
    /// Whether those select targets (`--lib`, `--test api` and so on) or leave it to cargo.
    pub selects_targets: bool,
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// `--target-dir`; by default `leakcheck` below cargo's own.
    pub target_dir: Option<Utf8PathBuf>,
    /// `--target`.
    pub target: Option<String>,
    /// `--config` values, for resolving the effective flags as cargo will.
    pub cargo_config: Vec<String>,
}

/// Which tests to run: libtest's own selection.
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

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Tests at a time.
    pub jobs: usize,
    /// Time for one test.
    pub timeout: Option<Duration>,
    /// Entries of the block table.
    pub max_blocks: u32,
    /// Entries of the stack table.
    pub max_stacks: u32,
    /// Entries of the thread table.
    pub max_threads: u32,
    /// Probe functions at their first instruction (only the benchmark wants this).
    pub probe_at_entry: bool,
}

/// How to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeOptions {
    /// What counts against a test without a budget of its own.
    pub count: Count,
    /// Failed, aborted, timed-out tests' leaks count as well.
    pub count_failed: bool,
    /// `#[should_panic]` tests' leaks count as well.
    pub count_should_panic: bool,
    /// Double and unknown frees fail a test.
    pub count_bad_frees: bool,
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
    /// When to colour.
    pub color: Color,
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
