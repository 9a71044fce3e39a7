//! Which tests, and how they are told of while they run.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::values::partition;
use crate::options::Partition;

#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Run only tests whose names contain one of these
    #[arg(value_name = "TESTNAME")]
    pub filters: Vec<String>,
    /// Run only tests that nextest's filter expression accepts: 'package(a) & test(/^b/)'
    #[arg(short = 'E', long = "filterset", value_name = "EXPRESSION", alias = "filter-expr")]
    pub expressions: Vec<String>,
    /// Run one of several parts of the tests, as nextest does: slice:1/4 deals them out in turn, hash:1/4 by their names, count:1/4 in turn in each binary
    #[arg(long, value_name = "KIND:M/N", value_parser = partition)]
    pub partition: Option<Partition>,
    /// Whether tests marked #[ignore] run [default: default, they do not]
    #[arg(long, value_name = "default|only|all", hide_possible_values = true)]
    pub run_ignored: Option<RunIgnoredArg>,
    /// json: events on standard output while tests run, an object a line
    #[arg(
        long,
        value_name = "human|json",
        default_value = "human",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub message_format: MessageFormatArg,
    /// Pass on what tests write, as it comes, and run them one by one
    #[arg(long, alias = "nocapture")]
    pub no_capture: bool,
    /// More names and libtest's selection: --skip NAME, --exact, --ignored, --include-ignored
    #[arg(last = true, value_name = "ARGS")]
    pub libtest: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunIgnoredArg {
    Default,
    #[value(alias = "ignored-only")]
    Only,
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MessageFormatArg {
    #[default]
    Human,
    Json,
}
