//! Where the program runs: what environment variables say.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::choices::WhenArg;
use crate::accept::rule::day;
use crate::error::{Error, Result};
use crate::model::Day;
use crate::options::{Color, Environment, Github};

/// What the process was started with, besides its arguments.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Its environment.
    pub environment: Environment,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its own executable.
    pub executable: PathBuf,
    /// How many CPUs it may use.
    pub cpus: usize,
    /// The day, by UTC.
    pub today: Day,
}

impl Surroundings {
    /// Those of this process.
    pub fn current() -> Result<Self> {
        let system = |call: &str| {
            let call = call.to_owned();
            move |source| Error::System { call, source }
        };
        Ok(Self {
            environment: std::env::vars_os().collect(),
            directory: std::env::current_dir().map_err(system("reading the working directory"))?,
            executable: std::env::current_exe().map_err(system("finding the path of this program"))?,
            cpus: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            today: day(std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())),
        })
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(std::ffi::OsStr::new(name))?.to_str()
    }
}

/// Whether the locale and the terminal have more characters than ASCII's.
pub(super) fn has_unicode(surroundings: &Surroundings) -> bool {
    let set = |name| surroundings.variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    let is_utf8 = locale.ends_with("utf-8") || locale.ends_with("utf8");
    is_utf8 && !matches!(set("TERM"), Some("dumb" | "linux"))
}

/// Whether GitHub Actions is there, and where.
pub(super) fn github(surroundings: &Surroundings) -> Github {
    let is_there = surroundings.variable("GITHUB_ACTIONS") == Some("true");
    let path = |variable| surroundings.variable(variable).filter(|path| !path.is_empty());
    let here = surroundings.directory.to_str().unwrap_or_default();
    let repository = path("GITHUB_WORKSPACE").unwrap_or(here).into();
    Github { is_there, repository, summary: path("GITHUB_STEP_SUMMARY").map(Into::into) }
}

/// The option first, then cargo's variable, then the one that all programs share.
pub(super) fn color(option: Option<WhenArg>, surroundings: &Surroundings) -> Color {
    match (option, surroundings.variable("CARGO_TERM_COLOR")) {
        (Some(WhenArg::Always), _) | (None, Some("always")) => Color::Always,
        (Some(WhenArg::Never), _) | (None, Some("never")) => Color::Never,
        (Some(WhenArg::Auto), _) => Color::Auto,
        (None, _) if surroundings.variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => Color::Never,
        (None, _) => Color::Auto,
    }
}
