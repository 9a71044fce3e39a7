//! The arguments behind `--`: what libtest understands of selecting tests.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::error::{Error, Result};

/// libtest's own selection arguments.
#[derive(Debug, Default, Parser)]
#[command(name = "--", no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
pub struct LibtestArgs {
    pub filters: Vec<String>,
    #[arg(long)]
    pub skip: Vec<String>,
    #[arg(long)]
    pub exact: bool,
    #[arg(long, conflicts_with = "include_ignored")]
    pub ignored: bool,
    #[arg(long)]
    pub include_ignored: bool,
    #[arg(long)]
    pub test_threads: Option<NonZeroUsize>,
    #[arg(long, alias = "no-capture")]
    nocapture: bool,
    #[arg(long)]
    show_output: bool,
    #[arg(long)]
    list: bool,
}

impl LibtestArgs {
    /// Reads the arguments, or says which one is not understood.
    pub fn read(arguments: &[OsString]) -> Result<Self> {
        let parsed = Self::command()
            .try_get_matches_from(arguments)
            .and_then(|mut matches| Self::from_arg_matches_mut(&mut matches))
            .map_err(|error| {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                Error::Usage(format!(
                    "behind `--`: {first}; test names, --skip NAME, --exact, --ignored, --include-ignored and \
                     --test-threads N are understood there"
                ))
            })?;
        if parsed.nocapture || parsed.show_output {
            return Err(Error::Usage(
                "behind `--`: --nocapture and --show-output have no effect, because tests run side by side in processes \
                 of their own; what a test wrote is shown when it fails, and always in the --json and --junit reports"
                    .to_owned(),
            ));
        }
        if parsed.list {
            return Err(Error::Usage("behind `--`: use `cargo leakcheck list` to list tests".to_owned()));
        }
        Ok(parsed)
    }
}
