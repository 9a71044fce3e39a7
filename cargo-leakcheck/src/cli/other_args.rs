//! The arguments of the commands that do not select tests of a workspace.

use std::ffi::OsString;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::args::{PlaceArgs, RunArgs};
use super::choices::WhenArg;

#[derive(Debug, Args)]
pub struct ExecArgs {
    /// As a runner of cargo's or nextest's: start what is no test binary, and trace only tests
    #[arg(long)]
    pub runner: bool,
    /// The program and its arguments; a test binary runs its tests
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print a JSON document
    #[arg(long)]
    pub json: bool,
    /// Do not raise the tracer's privileges
    #[arg(long)]
    pub no_sudo: bool,
    /// When to colour [default: auto, on a terminal]
    #[arg(long, value_name = "auto|always|never", hide_possible_values = true)]
    pub color: Option<WhenArg>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// JSON report
    #[arg(value_name = "REPORT")]
    pub report: Utf8PathBuf,
    /// Name of a test, or a part of the names of several
    #[arg(value_name = "TEST")]
    pub test: String,
    /// Show the frames of std, allocator and test harness too
    #[arg(long)]
    pub full_stacks: bool,
    /// When to colour [default: auto, on a terminal]
    #[arg(long, value_name = "auto|always|never", hide_possible_values = true)]
    pub color: Option<WhenArg>,
}

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// Take back what was installed
    #[arg(long)]
    pub remove: bool,
    /// Say whether it is installed and works; exit code 10 if not
    #[arg(long, conflicts_with = "remove")]
    pub check: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Suppression files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<Utf8PathBuf>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportArgs {
    #[command(subcommand)]
    pub command: Option<ReportCommand>,
    #[command(flatten)]
    pub again: RereadArgs,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// Put JSON reports together, of partitions or of processes (`LEAKCHECK_RESULTS`)
    Merge(RereadArgs),
}

#[derive(Debug, Args)]
pub struct RereadArgs {
    /// JSON reports; several become one
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<Utf8PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct NextestArgs {
    /// nextest's command and its options: run --retries 2
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct ShowEnvArgs {
    /// Put `export` before each
    #[arg(long)]
    pub export_prefix: bool,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub run: RunArgs,
}
