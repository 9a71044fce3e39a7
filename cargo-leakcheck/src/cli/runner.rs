//! What `nextest` and `show-env` hand to the runner, and what nextest's own options tell of the build.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _};

use super::args::{CargoArgs, RunArgs};

/// The options of ours that were given, as the runner takes them. Where reports go is not its business.
pub fn options(matches: &ArgMatches) -> Vec<String> {
    let known = RunArgs::augment_args(clap::Command::new(""));
    let mut options = Vec::new();
    for argument in known.get_arguments() {
        let id = argument.get_id().as_str();
        if ["json", "junit"].contains(&id) || matches.value_source(id) != Some(ValueSource::CommandLine) {
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
            "--target" => found.target.push(value.to_owned()),
            "--target-dir" => found.target_dir = Some(value.into()),
            "--manifest-path" => found.manifest_path = Some(value.into()),
            _ => found.config.push(value.to_owned()),
        }
    }
    found
}
