//! `exec`, which may be a runner; what `nextest` and `show-env` hand to it, and what nextest's own options tell of the build.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use camino::Utf8PathBuf;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _};

use super::args::{CargoArgs, RunArgs};
use super::other_args::ExecArgs;
use super::written_args::WrittenArgs;
use super::{Surroundings, given, libtest};
use crate::build::runner::METADATA;
use crate::error::{Error, Result};
use crate::options::{Action, Asked, ExecOptions, Options};
use crate::report::results::VARIABLE;

/// What `exec` asks for.
///
/// # Errors
/// The directory of results has no name that a report could have.
pub fn exec(exec: ExecArgs, surroundings: Surroundings) -> Result<Options> {
    let (asked, threads) = libtest::asked(exec.command.get(1..).unwrap_or_default());
    let jobs = match &asked {
        Asked::Tests(selection) if selection.no_capture => Some((NonZeroUsize::MIN, "no-capture")),
        _ => threads.map(|threads| (threads, "test-threads")),
    };
    let jobs = jobs.or(super::jobs(&exec.run));
    // Cargo and nextest start the tests of a workspace; a program of the user's own choice is in none.
    let workspace = |name: &str| exec.runner.then(|| surroundings.variable(name)).flatten();
    let start = workspace("NEXTEST_WORKSPACE_ROOT").or_else(|| workspace("CARGO_MANIFEST_DIR"));
    let mut config = given::config(&exec.run, jobs, start.map(Utf8PathBuf::from), &surroundings);
    if !exec.runner && config.file.is_none() {
        // The variable is meant for those tests.
        config.profile.clone_from(&exec.run.leakcheck_profile);
    }
    let mut shared = super::run(&exec.run, config, &surroundings);
    let Surroundings { mut environment, directory, .. } = surroundings;
    let metadata = environment.remove(OsStr::new(METADATA)).map(PathBuf::from);
    shared.report.results =
        match environment.remove(OsStr::new(VARIABLE)).map(PathBuf::from) {
            Some(path) => Some(Utf8PathBuf::try_from(path).map_err(|_| {
                Error::Usage(format!("{VARIABLE}: paths that are not UTF-8 are not supported"))
            })?),
            None => None,
        };
    let sudo = !exec.run.no_sudo;
    let exec =
        ExecOptions { command: exec.command, directory, environment, metadata, runner: exec.runner, asked };
    Ok(shared.with(Action::Exec(exec), sudo))
}

/// The options of ours that were given, as the runner takes them. Where reports go is not its business.
pub fn options(matches: &ArgMatches, surroundings: &Surroundings) -> Vec<String> {
    let known = RunArgs::augment_args(clap::Command::new(""));
    let written = WrittenArgs::augment_args(clap::Command::new(""));
    let of_all = |id: &str| {
        ["github", "write_rules", "deny_unused_rules"].contains(&id)
            || written.get_arguments().any(|written| written.get_id() == id)
    };
    let mut options = Vec::new();
    // The reports that are made of it are not handed on.
    let is_given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    if ["peak_flamegraph", "peak_folded"].into_iter().any(is_given) && !is_given("peak_stacks") {
        options.push("--peak-stacks".to_owned());
    }
    for argument in known.get_arguments() {
        let id = argument.get_id().as_str();
        if of_all(id) || !is_given(id) {
            continue;
        }
        options.extend(argument.get_long().map(|name| format!("--{name}")));
        if argument.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            let values = values.map(|value| value.to_string_lossy().into_owned());
            // The runner has another working directory.
            let place = |path| given::directory(surroundings).join(path).into_string();
            let is_path = ["config_file", "baseline", "suppressions"].contains(&id);
            options.extend(values.map(|value| if is_path { place(value) } else { value }));
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
