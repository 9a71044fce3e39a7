//! libtest's own arguments: behind `--`, and those that a test binary is called with.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::error::{Error, Result};
use crate::options::{Asked, Ignored, Selection};

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
        if parsed.show_output {
            return Err(Error::Usage(
                "behind `--`: --show-output has no effect; what a test wrote is shown when it fails, as it comes with \
                 --no-capture, and always in the --json and --junit reports"
                    .to_owned(),
            ));
        }
        if parsed.list {
            return Err(Error::Usage("behind `--`: use `cargo leakcheck list` to list tests".to_owned()));
        }
        Ok(parsed)
    }

    /// What it selects, with `filters` besides its own.
    pub fn selection(self, filters: Vec<String>) -> Selection {
        let ignored = match (self.ignored, self.include_ignored) {
            (true, _) => Ignored::Only,
            (false, true) => Ignored::Include,
            (false, false) => Ignored::Skip,
        };
        let filters = filters.into_iter().chain(self.filters).collect();
        Selection {
            filters,
            skip: self.skip,
            exact: self.exact,
            ignored,
            expressions: Vec::new(),
            partition: None,
            no_capture: self.nocapture,
        }
    }
}

/// The arguments that cargo and nextest start a test binary with: besides those that select, some that say
/// how libtest is to show its results. Those of ours are shown our way.
#[derive(Debug, Parser)]
#[command(name = "--", no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
struct Called {
    #[command(flatten)]
    select: LibtestArgs,
    #[arg(short, long)]
    quiet: bool,
    #[arg(long)]
    test: bool,
    #[arg(long)]
    color: Option<String>,
    #[arg(long, value_parser = ["pretty", "terse"])]
    format: Option<String>,
}

/// What a test binary is asked for by its arguments, and how many tests are to run at a time.
pub fn asked(arguments: &[OsString]) -> (Asked, Option<NonZeroUsize>) {
    let is_other = |argument: &OsString| {
        ["--list", "--help", "-h", "--bench"].iter().any(|other| argument.as_os_str() == *other)
    };
    if arguments.iter().take_while(|argument| *argument != "--").any(is_other) {
        return (Asked::Other, None);
    }
    match Called::try_parse_from(arguments) {
        Ok(Called { select, .. }) => {
            let threads = select.test_threads;
            (Asked::Tests(select.selection(Vec::new())), threads)
        }
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            (Asked::Unknown { reason }, None)
        }
    }
}
