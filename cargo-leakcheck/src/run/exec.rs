//! The first stages of `exec`, which builds nothing.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::Job;
use crate::discover;
use crate::error::{Error, Result};
use crate::model::{OwnCode, Stdio};
use crate::options::{ExecOptions, ReportOptions};
use crate::plan::{self, Called};
use crate::sys::{Interrupts, Signal};

/// Signals that are for the program, besides those that ask for an end.
pub const HANDED_ON: [Signal; 3] = [Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// What is to be traced. A program that is not to be takes this process's place.
///
/// # Errors
/// There is no such program, or it is a test binary that is asked for something unknown.
pub fn called(exec: &ExecOptions, report: &ReportOptions) -> Result<Called> {
    let on_stdout = report.json.as_deref().is_some_and(|path| path == "-");
    let stdio = if on_stdout { Stdio::PassedToStderr } else { Stdio::Passed };
    let called = plan::called(exec, stdio)?;
    let Called::Other(path) = &called else { return Ok(called) };
    let mut command = Command::new(path);
    command.arg0(&exec.command[0]).args(&exec.command[1..]).env_clear().envs(&exec.environment);
    // It only comes back if that fails.
    let reason = command.exec().to_string();
    Err(Error::Command { command: path.to_string(), reason })
}

/// The tests, or the program.
///
/// # Errors
/// The budgets in a test binary cannot be read, or the user has asked for the end.
pub fn job(exec: &ExecOptions, called: Called, interrupts: &Interrupts) -> Result<Job> {
    let mut notes = Vec::new();
    let may_be_empty = matches!(called, Called::Tests(..));
    let tests = match called {
        Called::Tests(binary, selection) => {
            let found = interrupts.watch(|| Ok(discover::discover(vec![*binary], 1)))?;
            if interrupts.requested() {
                return Err(Error::Interrupted);
            }
            let plan = plan::plan(found, &selection, plan::budgets::of_binary)?;
            notes = plan.notes;
            plan.tests
        }
        Called::One(test) => vec![*test],
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
    Ok(Job { tests, executables, not_checked: Vec::new(), notes, own, may_be_empty, brief })
}
