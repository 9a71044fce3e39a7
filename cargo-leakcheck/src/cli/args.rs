//! The command line as clap sees it. What the flags mean is decided in the parent module.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{ArgAction, Args, Parser, Subcommand};

use super::after_help::AFTER_HELP;
use super::choices::{CountArg, DependenciesArg, RecorderArg, SpawnArg, WhenArg};
use super::other_args::{
    DoctorArgs, ExecArgs, ExplainArgs, ImportArgs, NextestArgs, ReportArgs, SetupArgs, ShowEnvArgs,
};
use super::select_args::SelectArgs;
use super::table_args::TableArgs;
use super::values::{duration, jobs};
use super::written_args::WrittenArgs;
use crate::model::MAX_ITERATIONS;

#[derive(Debug, Parser)]
#[command(
    name = "cargo-leakcheck",
    bin_name = "cargo leakcheck",
    about = "Run every test of a cargo workspace under a tracer and fail the tests that leak memory",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub test: TestArgs,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub cargo: CargoArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write down the leaks that are there, so that only new and grown ones fail tests
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Say what the tool needs on this machine, what of it is there, and what mends the rest
    Doctor(DoctorArgs),
    /// Show what a JSON report knows of a test's findings: why blocks are still there, and around which cycles
    Explain(ExplainArgs),
    /// Trace any program, Rust or not; as cargo's or nextest's runner, tests
    Exec(Box<ExecArgs>),
    /// Print suppressions of LeakSanitizer's or Valgrind's as rules
    Import(ImportArgs),
    /// Print the tests that would run, with their budgets
    List(Box<TestArgs>),
    /// Run cargo nextest, whose tests are traced and reported as one run
    Nextest(NextestArgs),
    /// Let sudo ask for a password once, and give the tracer its capabilities from then on
    Setup(SetupArgs),
    /// Print every value that can be configured, and where it comes from; for each test that is selected, if any is
    ShowConfig(Box<TestArgs>),
    /// Print the variables with which cargo and nextest trace tests
    ShowEnv(ShowEnvArgs),
    /// Show JSON reports of earlier runs, and write any other report of them
    Report(Box<ReportArgs>),
}

#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Run tests, and accept what they leak
    Write(Box<TestArgs>),
    /// Run tests, and accept no longer what they do not leak any more
    Update(Box<TestArgs>),
}

/// What is built for, and where.
#[derive(Debug, Default, Args)]
pub struct PlaceArgs {
    /// Build for this target
    #[arg(long, value_name = "TRIPLE")]
    pub target: Vec<String>,
    /// Build in `leakcheck` below this directory [default: cargo's own target directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub target_dir: Option<Utf8PathBuf>,
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<OsString>,
}

/// Flags that go to `cargo test` as they are.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Selection and build, as in cargo test")]
pub struct CargoArgs {
    /// Package to test
    #[arg(short, long, value_name = "SPEC")]
    pub package: Vec<OsString>,
    /// Test all packages of the workspace
    #[arg(long, alias = "all")]
    pub workspace: bool,
    /// Package to leave out
    #[arg(long, value_name = "SPEC")]
    pub exclude: Vec<OsString>,
    /// Test the library
    #[arg(long)]
    pub lib: bool,
    /// Test all binaries
    #[arg(long)]
    pub bins: bool,
    /// Test this binary
    #[arg(long, value_name = "NAME")]
    pub bin: Vec<OsString>,
    /// Test all targets that have tests enabled
    #[arg(long)]
    pub tests: bool,
    /// Test this integration test
    #[arg(long, value_name = "NAME")]
    pub test: Vec<OsString>,
    /// Test all examples
    #[arg(long)]
    pub examples: bool,
    /// Test this example
    #[arg(long, value_name = "NAME")]
    pub example: Vec<OsString>,
    /// Test all benchmarks, run once as tests
    #[arg(long)]
    pub benches: bool,
    /// Test this benchmark
    #[arg(long, value_name = "NAME")]
    pub bench: Vec<OsString>,
    /// Test all targets
    #[arg(long)]
    pub all_targets: bool,
    /// Features to activate
    #[arg(short = 'F', long, value_name = "FEATURES")]
    pub features: Vec<OsString>,
    /// Activate all features
    #[arg(long)]
    pub all_features: bool,
    /// Do not activate the `default` feature
    #[arg(long)]
    pub no_default_features: bool,
    /// Build with the release profile; the optimizer may remove allocations, which then cannot leak
    #[arg(short, long)]
    pub release: bool,
    /// Build with this profile
    #[arg(long, value_name = "NAME")]
    pub profile: Option<OsString>,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Number of compilers at a time
    #[arg(long, value_name = "N")]
    pub build_jobs: Option<OsString>,
    /// Require that Cargo.lock is up to date
    #[arg(long)]
    pub locked: bool,
    /// Do not use the network
    #[arg(long)]
    pub offline: bool,
    /// --locked and --offline
    #[arg(long)]
    pub frozen: bool,
    /// Override a configuration value of cargo's
    #[arg(long, value_name = "KEY=VALUE|PATH")]
    pub config: Vec<String>,
    /// Ignore `rust-version` in packages
    #[arg(long)]
    pub ignore_rust_version: bool,
    /// Unstable flag of cargo's (nightly only)
    #[arg(short = 'Z', value_name = "FLAG", hide = true)]
    pub unstable: Vec<OsString>,
    /// More of cargo's output
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// None of cargo's progress
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing, judging, reporting")]
pub struct RunArgs {
    /// Configuration in place of .config/leakcheck.toml in the workspace's root
    #[arg(long, value_name = "PATH")]
    pub config_file: Option<Utf8PathBuf>,
    /// Profile of the configuration (not of the build) [default: default, or LEAKCHECK_PROFILE]
    #[arg(long, value_name = "NAME")]
    pub leakcheck_profile: Option<String>,
    /// Tests at a time [default: number of CPUs]
    #[arg(short, long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<NonZeroUsize>,
    /// End a test after this time: 30, 30s, 2m, 500ms [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Run a test that fails or leaks so many times more; one that leaks in any attempt still fails [default: 0]
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Start no more tests after so many have failed or leaked
    #[arg(long, value_name = "N", conflicts_with = "retries")]
    pub max_fail: Option<NonZeroUsize>,
    /// --max-fail 1
    #[arg(long, conflicts_with_all = ["retries", "max_fail"])]
    pub fail_fast: bool,
    /// Leaks that are known, which do not count [default: .config/leakcheck-baseline.json in the workspace's root, if there is one]
    #[arg(long, value_name = "PATH")]
    pub baseline: Option<Utf8PathBuf>,
    /// Count known leaks as all others
    #[arg(long, conflicts_with = "baseline")]
    pub no_baseline: bool,
    /// Suppressions of LeakSanitizer's or Valgrind's, to be rules
    #[arg(long, value_name = "PATH")]
    pub suppressions: Vec<Utf8PathBuf>,
    /// Print rules to standard output by which the run would pass
    #[arg(long)]
    pub write_rules: bool,
    /// Fail if a rule is for nothing that was found
    #[arg(long)]
    pub deny_unused_rules: bool,
    /// What the limits for bytes and blocks are for: what is lost, or all that is outstanding at exit [default: lost]
    #[arg(long, value_name = "lost|outstanding", hide_possible_values = true)]
    pub count: Option<CountArg>,
    /// Count the leaks of tests that fail, abort or run out of time
    #[arg(long)]
    pub count_failed: bool,
    /// Count the leaks of #[should_panic] tests
    #[arg(long)]
    pub count_should_panic: bool,
    /// Fail tests that free a block twice or free what was never allocated
    #[arg(long)]
    pub deny_bad_frees: bool,
    /// What comes of leaks of dependencies and libraries: they fail tests as all others, or are reported only [default: fail]
    #[arg(long, value_name = "fail|report", hide_possible_values = true)]
    pub dependencies: Option<DependenciesArg>,
    /// Descriptors that a test may leave open, unless it has a limit of its own [default: 0; none for whole programs]
    #[arg(long, value_name = "N")]
    pub fds: Option<u64>,
    /// Do not look at descriptors
    #[arg(long, conflicts_with = "fds")]
    pub no_fds: bool,
    /// Bytes that such descriptors may hold in the kernel, unless a test has a limit of its own [default: none]
    #[arg(long, value_name = "N", conflicts_with = "no_fds")]
    pub kernel_bytes: Option<u64>,
    /// Do not say what descriptors hold in the kernel; a test that leaves too many is otherwise run once more for it
    #[arg(long, conflicts_with = "kernel_bytes")]
    pub no_kernel_bytes: bool,
    /// Show what the kernel has allocated for each test, by system call and place, and not freed at its end
    #[arg(long)]
    pub kernel_report: bool,
    /// IPC objects that a test may leave behind, unless it has a limit of its own [default: 0]
    #[arg(long, value_name = "N")]
    pub ipc: Option<u64>,
    /// No private IPC namespaces; do not look at IPC objects
    #[arg(long, conflicts_with = "ipc")]
    pub no_ipc: bool,
    /// Show what tests leave in their temporary directories, also for tests without findings
    #[arg(long, conflicts_with = "no_files")]
    pub files: bool,
    /// No temporary directories of their own for tests
    #[arg(long)]
    pub no_files: bool,
    /// Children that a test may leave running or not waited for, unless it has a limit of its own [default: 0; none for whole programs]
    #[arg(long, value_name = "N")]
    pub children: Option<u64>,
    /// Do not look at children, threads and timers that are left, and end what has left the test's group only with the run
    #[arg(long, conflicts_with_all = ["children", "threads"])]
    pub no_children: bool,
    /// Threads that a test may leave running, unless it has a limit of its own [default: none]
    #[arg(long, value_name = "N")]
    pub threads: Option<u64>,
    /// Bytes that a test may leave mapped, unless it has a limit of its own [default: none]
    #[arg(long, value_name = "N")]
    pub mapped_bytes: Option<u64>,
    /// Do not look at mappings
    #[arg(long, conflicts_with = "mapped_bytes")]
    pub no_mappings: bool,
    /// Run each test's body so often in its process, and judge what each iteration adds [default: once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_ITERATIONS))]
    pub growth: Option<u64>,
    /// Bytes that a test may have allocated at a time, unless it has a limit of its own [default: none]
    #[arg(long, value_name = "N")]
    pub peak_bytes: Option<u64>,
    /// Blocks that a test may allocate, freed ones too, unless it has a limit of its own [default: none]
    #[arg(long, value_name = "N")]
    pub total_blocks: Option<u64>,
    #[command(flatten)]
    pub written: WrittenArgs,
    /// Annotations and a step summary for GitHub Actions [default: auto, where GITHUB_ACTIONS is true]
    #[arg(long, value_name = "auto|always|never", hide_possible_values = true)]
    pub github: Option<WhenArg>,
    /// Show the frames of std, allocator and test harness too
    #[arg(long)]
    pub full_stacks: bool,
    /// When to colour [default: auto, on a terminal]
    #[arg(long, value_name = "auto|always|never", hide_possible_values = true)]
    pub color: Option<WhenArg>,
    /// What writes allocations down: a preloaded library, or eBPF programs at probes in the C library (needs root); auto is the library, or eBPF for a binary that is known to pass the library by [default: auto]
    #[arg(long, value_name = "auto|ledger|uprobe", hide_possible_values = true)]
    pub recorder: Option<RecorderArg>,
    /// How a test's process is made: its binary is started, or was started once and forks before anything of it has run; auto forks where a binary has several tests and nothing is in the way [default: exec]
    #[arg(long, value_name = "exec|fork|auto", hide_possible_values = true)]
    pub spawn: Option<SpawnArg>,
    /// Fail where eBPF, or a part of it that is asked for, is not available, instead of doing without
    #[arg(long)]
    pub require_ebpf: bool,
    /// Do not raise the tracer's privileges where they are missing, by `sudo -n` or by what `setup` has installed
    #[arg(long)]
    pub no_sudo: bool,
    /// Record the workspace's executables too where a test starts them; what they leak is the test's
    #[arg(long)]
    pub follow_children: bool,
    /// Note where every block is freed, for double frees; a test that has one is otherwise run once more for it
    #[arg(long)]
    pub free_stacks: bool,
    /// Note what was alive at each test's peak by call stacks, for the page and its own reports; its threads wait for each other then
    #[arg(long)]
    pub peak_stacks: bool,
    #[command(flatten)]
    pub tables: TableArgs,
    /// Probe functions at their first instruction (for the benchmark)
    #[arg(long, hide = true)]
    pub probe_at_entry: bool,
    /// Record in the spare tables only, as if the kernel had no memory at hand (for tests)
    #[arg(long, hide = true)]
    pub spare_only: bool,
    /// Print how long the leak check at a process's exit and following all tests took, and the memory it took (for the
    /// benchmark)
    #[arg(long, hide = true)]
    pub timings: bool,
}
