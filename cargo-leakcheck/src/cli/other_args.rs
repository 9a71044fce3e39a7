//! The arguments of the commands around other runners.

use std::ffi::OsString;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::args::RunArgs;

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// Put JSON reports together, of partitions or of processes (`LEAKCHECK_RESULTS`)
    Merge(MergeArgs),
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// JSON reports
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
    /// Build for this target
    #[arg(long, value_name = "TRIPLE")]
    pub target: Vec<String>,
    /// Build in `leakcheck` below this directory [default: cargo's own target directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub target_dir: Option<Utf8PathBuf>,
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<OsString>,
    #[command(flatten)]
    pub run: RunArgs,
}
