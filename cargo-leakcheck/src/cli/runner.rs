//! `exec`, which may be a runner; what `nextest` and `show-env` hand to it, and what nextest's own options tell of the build.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use camino::Utf8PathBuf;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _};

use super::args::{CargoArgs, RunArgs, WhenArg};
use super::other_args::ExecArgs;
use super::{Surroundings, libtest};
use crate::error::{Error, Result};
use crate::options::{Action, Asked, ExecOptions, KernelBytes, Options};
use crate::report::results::VARIABLE;

/// What `exec` asks for.
///
/// # Errors
/// The directory of results has no name that a report could have.
pub fn exec(exec: ExecArgs, surroundings: Surroundings) -> Result<Options> {
    let (asked, threads) = libtest::asked(exec.command.get(1..).unwrap_or_default());
    let (mut trace, judge, mut report) = super::run(&exec.run, threads, &surroundings);
    if matches!(&asked, Asked::Tests(selection) if selection.no_capture) {
        trace.jobs = 1;
    }
    // A program is not run twice.
    if trace.kernel_bytes == KernelBytes::IfLeft && !exec.runner {
        trace.kernel_bytes = KernelBytes::Off;
    }
    // One of many processes has no summary to write.
    report.github = report.github.filter(|_| !exec.runner || exec.run.github == WhenArg::Always);
    let Surroundings { mut environment, directory, .. } = surroundings;
    report.results =
        match environment.remove(OsStr::new(VARIABLE)).map(PathBuf::from) {
            Some(path) => Some(Utf8PathBuf::try_from(path).map_err(|_| {
                Error::Usage(format!("{VARIABLE}: paths that are not UTF-8 are not supported"))
            })?),
            None => None,
        };
    let sudo = !exec.run.no_sudo;
    let exec = ExecOptions { command: exec.command, directory, environment, runner: exec.runner, asked };
    Ok(Options { action: Action::Exec(exec), sudo, trace, judge, report })
}

/// The options of ours that were given, as the runner takes them. Where reports go is not its business.
pub fn options(matches: &ArgMatches) -> Vec<String> {
    let known = RunArgs::augment_args(clap::Command::new(""));
    let mut options = Vec::new();
    for argument in known.get_arguments() {
        let id = argument.get_id().as_str();
        if ["github", "json", "junit"].contains(&id)
            || matches.value_source(id) != Some(ValueSource::CommandLine)
        {
            continue;
        }
        options.extend(argument.get_long().map(|name| format!("--{name}")));
        if argument.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            options.extend(values.map(|value| value.to_string_lossy().into_owned()));
        }
    }
    options
}

/// What a build of nextest's depends on besides the environment, by its arguments.
pub fn cargo_args(arguments: &[OsString]) -> CargoArgs {
    let mut found = CargoArgs::default();
    let mut rest = arguments.iter().map_while(|argument| argument.to_str()).take_while(|it| *it != "--");
    while let Some(argument) = rest.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if !["--target", "--target-dir", "--manifest-path", "--config"].contains(&name) {
            continue;
        }
        let Some(value) = value.or_else(|| rest.next()) else { break };
        match name {
            "--target" => found.place.target.push(value.to_owned()),
            "--target-dir" => found.place.target_dir = Some(value.into()),
            "--manifest-path" => found.place.manifest_path = Some(value.into()),
            _ => found.config.push(value.to_owned()),
        }
    }
    found
}
