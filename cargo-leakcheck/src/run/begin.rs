//! What comes before a run: what is configured, and which program `exec` is to start.

use super::exec;
use crate::accept::baseline;
use crate::config::{Config, Key};
use crate::error::Result;
use crate::options::{Action, KernelBytes, Options, When};
use crate::plan::Called;
use crate::plan::filterset::needs_dependencies;

/// A run that is known in all its options, and has set up nothing.
pub struct Begun {
    /// The options, with what is configured.
    pub options: Options,
    pub(super) config: Config,
    pub(super) called: Option<Called>,
}

impl Begun {
    /// Returns unless all that the options come to is to put another program in this process's place, which needs
    /// neither configuration nor privileges.
    ///
    /// # Errors
    /// There is no such program, it is a test binary that is asked for something unknown, or what is configured makes no
    /// sense.
    pub fn new(mut options: Options) -> Result<Self> {
        let called = match &options.action {
            Action::Exec(exec) => Some(exec::called(exec, &options.report)?),
            Action::ShowEnv { .. } | Action::Report(_) | Action::Explain { .. } => {
                return Ok(Self { options, config: Config::default(), called: None });
            }
            _ => None,
        };
        let config = Config::load(&options.config)?;
        let is_program = matches!(&called, Some(Called::One(test)) if test.is_program());
        let config = if is_program { config.of_programs() } else { config };
        let accept = &mut options.accept;
        if !accept.no_baseline && !is_program && accept.baseline.is_none() {
            accept.baseline = config.root().map(|root| root.join(baseline::FILE));
        }
        options.accept.suppressions.extend(config.suppressions());
        config.resolve(&mut options)?;
        match &mut options.action {
            // One of many processes has no summary to write.
            Action::Exec(exec) if exec.runner && !options.config.given.contains_key(&Key::Github) => {
                options.report.github = When::Never;
            }
            // A program is not run twice.
            Action::Exec(exec) if !exec.runner && options.trace.kernel_bytes == KernelBytes::IfLeft => {
                options.trace.kernel_bytes = KernelBytes::Off;
            }
            Action::Test(build, _)
            | Action::List(build, _)
            | Action::ShowConfig(build, _)
            | Action::Nextest { build, .. } => {
                build.with_dependencies |= needs_dependencies(config.filters());
            }
            _ => {}
        }
        Ok(Self { options, config, called })
    }
}
