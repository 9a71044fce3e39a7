//! `nextest`: another runner's run, whose tests this program traces.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use camino::Utf8Path;
use fs_err as fs;

use super::untested::untested;
use super::{annotate, job, rules, view};
use crate::build::{Workspace, runner};
use crate::config::Config;
use crate::error::{Error, Exit, Result};
use crate::model::OwnCode;
use crate::options::{BuildOptions, Options};
use crate::progress::Progress;
use crate::report::{self, Run, Terminal, results};
use crate::scratch::Scratch;
use crate::sys::Interrupts;

/// Runs nextest, and writes the reports of all its tests at once.
///
/// # Errors
/// nextest cannot be started, or a report not be read or written.
pub fn nextest(
    (build, config): (&BuildOptions, &Config),
    runner_options: &[String],
    command: &[OsString],
    options: &Options,
    interrupts: &Interrupts,
) -> Result<Exit> {
    let files = report::open(&options.report)?;
    let (rules, notes) = rules::all(config, &[], options)?;
    let (run, own) = match traced((build, config), runner_options, command, options, interrupts) {
        Ok(traced) => traced,
        Err(error) => return Err(untested(error, files, options)),
    };
    let view = view(own, options);
    // Without tests it has listed or archived, or said why it ran nothing.
    if !run.tests.is_empty() {
        let terminal = Terminal::new(view.clone());
        let progress = Progress::new(options.report.color);
        for test in run.tests.iter().filter(|test| is_news(test)) {
            progress.print(&terminal.finished(test));
        }
        progress.print(&terminal.summary(&run));
        if let Some(note) = run.steered.note() {
            progress.print(&format!("note: {note}\n"));
        }
        notes.iter().for_each(|note| progress.print(&format!("note: {note}\n")));
        annotate(&run, &view, options, &progress);
    }
    files.write(&run, &view)?;
    // Which tests nextest has selected is its own affair: nobody is told unless it is asked for.
    rules::unused(&run, &rules, options.accept.deny_unused_rules, options)?;
    Ok(run.exit)
}

/// All results, and whose code is whose.
fn traced(
    (build, config): (&BuildOptions, &Config),
    runner_options: &[String],
    command: &[OsString],
    options: &Options,
    interrupts: &Interrupts,
) -> Result<(Run, OwnCode)> {
    let system = |call: &str| {
        let call = call.to_owned();
        move |source| Error::System { call, source }
    };
    let (workspace, _) = job::watched(interrupts, || job::find(build, &[], config, options))?;
    let (mut variables, own) = runner::environment(build, &workspace, runner_options)?;
    let scratch = Scratch::new().map_err(system("making a temporary directory"))?;
    let directory = Utf8Path::from_path(scratch.path())
        .ok_or_else(|| Error::Usage("the temporary directory's path is not UTF-8".to_owned()))?;
    if config.filters().next().is_some() {
        // Every process would have to ask cargo for it.
        let path = directory.join("metadata");
        fs::write(&path, workspace.metadata()).map_err(system("writing a temporary file"))?;
        variables.insert(runner::METADATA.into(), path.into());
    }
    let start = Instant::now();
    let mut child = Command::new(&build.cargo)
        .arg("nextest")
        .args(command)
        .current_dir(&build.directory)
        .env_clear()
        .envs(&build.environment)
        .envs(variables)
        .env(results::VARIABLE, directory)
        .spawn()
        .map_err(|error| Error::Command { command: "cargo nextest".to_owned(), reason: error.to_string() })?;
    let status = interrupts.wait_for(&mut child).map_err(system("waiting for cargo nextest"))?;
    let mut run = results::merge(results::read_directory(directory, &own.root)?);
    run.duration = start.elapsed();
    run.exit = exit(&run, status);
    if run.exit == Exit::Build && !is_installed(build) {
        // Cargo's own exit code for this is nextest's for a build that has failed.
        let reason = "it is not installed; see https://nexte.st".to_owned();
        return Err(Error::Command { command: "cargo nextest".to_owned(), reason });
    }
    Ok((run, own))
}

fn is_installed(build: &BuildOptions) -> bool {
    let mut command = Command::new(&build.cargo);
    command.args(["nextest", "--version"]).env_clear().envs(&build.environment);
    command.output().is_ok_and(|output| output.status.success())
}

/// Prints the variables.
///
/// # Errors
/// Cargo's configuration cannot be kept, or nobody takes the output.
pub fn show_env(build: &BuildOptions, runner_options: &[String], export: bool) -> Result<Exit> {
    let (variables, _) = runner::environment(build, &Workspace::find(build)?, runner_options)?;
    let script = runner::script(variables, build, export);
    io::stdout()
        .write_all(script.as_bytes())
        .map_err(|source| Error::System { call: "writing the variables".to_owned(), source })?;
    Ok(Exit::Clean)
}

/// Whether nextest has not shown what became of a test: of one whose tracer was ended, and of one that has passed
/// in a later attempt.
fn is_news(test: &crate::model::CheckedTest) -> bool {
    test.memory.attempts.is_some_and(|attempts| attempts.leaking > 0)
        || test.memory.losses.iter().any(|loss| report::loss_kind(loss) == "unfinished")
}

/// The exit code of all: what our processes have seen, or else what nextest says went wrong besides.
fn exit(run: &Run, status: ExitStatus) -> Exit {
    /// nextest's documented exit codes.
    const NO_TESTS: i32 = 4;
    const TESTS_FAILED: i32 = 100;
    const BUILD_FAILED: i32 = 101;
    match (run.exit, status.code()) {
        (Exit::Clean | Exit::NothingRan, Some(0)) if run.tests.is_empty() => Exit::Clean,
        (Exit::Clean | Exit::NothingRan, code) => match code {
            Some(0) => run.exit,
            Some(NO_TESTS) => Exit::NothingRan,
            // A test that leaves its output open, or one that was not traced.
            Some(TESTS_FAILED) => Exit::Failed,
            Some(BUILD_FAILED) => Exit::Build,
            _ => Exit::Tool,
        },
        (exit, _) => exit,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn what_our_processes_have_seen_goes_before_what_nextest_says() {
        let none = results::merge(Vec::new());
        let code = |code: i32| ExitStatus::from_raw(code << 8);
        for (nextest, ours) in [
            (0, Exit::Clean),
            (4, Exit::NothingRan),
            (100, Exit::Failed),
            (101, Exit::Build),
            (96, Exit::Tool),
        ] {
            assert_eq!(exit(&none, code(nextest)), ours, "{nextest}");
        }
        assert_eq!(exit(&none, ExitStatus::from_raw(9)), Exit::Tool);
        let leaks = Run { exit: Exit::Leaks, ..results::merge(Vec::new()) };
        assert_eq!(exit(&leaks, code(0)), Exit::Leaks);
        assert_eq!(exit(&leaks, code(100)), Exit::Leaks);
    }
}
