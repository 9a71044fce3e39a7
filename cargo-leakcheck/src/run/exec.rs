//! The first stages of `exec`, which builds nothing.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::job::{Job, watched};
use crate::build::runner;
use crate::config::Config;
use crate::discover;
use crate::error::{Error, Result};
use crate::model::{OwnCode, Stdio};
use crate::options::{ExecOptions, ReportOptions};
use crate::plan::filterset::{Filters, needs_dependencies};
use crate::plan::{self, Called};
use crate::sys::{Interrupts, Signal};

/// Signals that are for the program, besides those that ask for an end.
pub const HANDED_ON: [Signal; 3] = [Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// What is to be traced. A program that is not to be takes this process's place.
///
/// # Errors
/// There is no such program, or it is a test binary that is asked for something unknown.
pub fn called(exec: &ExecOptions, report: &ReportOptions) -> Result<Called> {
    let stdio = if report.on_stdout().is_some() { Stdio::PassedToStderr } else { Stdio::Passed };
    let called = plan::called(exec, stdio)?;
    let Called::Other(path) = &called else { return Ok(called) };
    let mut command = Command::new(path);
    command.arg0(&exec.command[0]).args(&exec.command[1..]).env_clear().envs(&exec.environment);
    // It only comes back if that fails.
    let reason = command.exec().to_string();
    Err(Error::Command { command: path.to_string(), reason })
}

/// The tests, or the program, and what overrides are for.
///
/// # Errors
/// The budgets in a test binary cannot be read, a filter of the configuration not be understood, or the user has asked for
/// the end.
pub fn job(
    exec: &ExecOptions,
    called: Called,
    config: &Config,
    interrupts: &Interrupts,
) -> Result<(Job, Filters)> {
    let filters = watched(interrupts, || {
        // Only they have to know which packages there are.
        let metadata = match config.filters().next() {
            Some(_) => runner::metadata(exec, needs_dependencies(config.filters()))?,
            None => String::new(),
        };
        Filters::new(&[], config, &metadata)
    })?;
    let (mut notes, mut targets) = (Vec::new(), Vec::new());
    let may_be_empty = matches!(called, Called::Tests(..));
    let tests = match called {
        Called::Tests(binary, selection) => {
            let found = watched(interrupts, || Ok(discover::discover(vec![*binary], 1)))?;
            let plan = plan::plan(found, &selection, &|_, _| true, plan::budgets::of_binary)?;
            (notes, targets) = (plan.notes, plan.targets);
            plan.tests
        }
        Called::One(test) => {
            if !test.is_program() {
                targets.push(plan::targets::of_one(&test));
            }
            vec![*test]
        }
        Called::Other(_) => Vec::new(),
    };
    let own = match tests.first() {
        Some(test) if !test.is_program() => plan::own_code(exec, &test.binary.directory),
        Some(test) => {
            let root = test.binary.directory.clone();
            OwnCode { packages: vec![root.clone()], root }
        }
        None => OwnCode::default(),
    };
    let mut executables: Vec<_> = tests.iter().map(|test| test.binary.path.clone()).collect();
    executables.dedup();
    let brief = matches!(&tests[..], [test] if test.stdio == Stdio::Forwarded);
    let not_checked = Vec::new();
    let all = std::collections::BTreeSet::new();
    let is_whole = false;
    let job =
        Job { tests, all, is_whole, executables, targets, not_checked, notes, own, may_be_empty, brief };
    Ok((job, filters))
}
