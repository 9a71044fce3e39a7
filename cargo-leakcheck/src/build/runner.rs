//! What makes cargo, or whoever calls it, start tests by this program: the flags of our builds, and the runner.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use fs_err as fs;

use super::command::quote;
use super::{Directories, Workspace, config, flags};
use crate::error::{Error, Result};
use crate::model::OwnCode;
use crate::options::{BuildOptions, Environment, ExecOptions};

const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";

/// The variable that names a file with what `cargo metadata` says, for the runner.
pub const METADATA: &str = "LEAKCHECK_METADATA";

/// What `cargo metadata` says of the workspace that a runner's test is of.
///
/// # Errors
/// Cargo cannot be called, or knows of no workspace.
pub fn metadata(exec: &ExecOptions, with_dependencies: bool) -> Result<String> {
    if let Some(path) = &exec.metadata {
        let path = path.clone();
        return fs::read_to_string(&path)
            .map_err(|source| Error::System { call: format!("reading {}", path.display()), source });
    }
    let variable = |name: &str| exec.environment.get(OsStr::new(name));
    let cargo = variable("CARGO").cloned().unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args(["metadata", "--format-version=1"]).args((!with_dependencies).then_some("--no-deps"));
    command.current_dir(variable("CARGO_MANIFEST_DIR").map_or(&*exec.directory, Path::new));
    command.env_clear().envs(&exec.environment).stdin(Stdio::null());
    let failed = |reason: String| Error::Command {
        command: "cargo metadata".to_owned(),
        reason: format!("{reason} (filters of the configuration speak of packages)"),
    };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(failed(text.trim().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|_| failed("what it prints is not UTF-8".to_owned()))
}

/// The variables, and whose code is whose. `options` are those that the runner has.
///
/// # Errors
/// Cargo's configuration cannot be kept, or an option cannot be handed to a runner.
pub fn environment(
    build: &BuildOptions,
    workspace: &Workspace,
    options: &[String],
) -> Result<(Environment, OwnCode)> {
    let Workspace { config, apart, directories } = workspace;
    let targets = config::targets(build, config)?;
    let host = config
        .host_triple()
        .map_err(|error| Error::Usage(format!("cannot find the host's target: {error}")))?;
    let mut variables = flags::variables(build, config, &targets, apart)?;
    let Directories { arguments: places, own, .. } = directories;
    if let [_, target, rest @ ..] = &places[..] {
        variables.insert("CARGO_TARGET_DIR".into(), target.clone());
        // A build directory of the user's own is set by `--config build.build-dir="…"`.
        let directory = rest.get(1).and_then(|value| value.to_str()?.strip_prefix("build.build-dir="));
        if let Some(Ok(directory)) = directory.map(serde_json::from_str::<String>) {
            variables.insert("CARGO_BUILD_BUILD_DIR".into(), directory.into());
        }
    }
    let runner = runner(build, options)?;
    for triple in targets.iter().map(|target| target.triple()).chain([host]) {
        variables.insert(config::runner_variable(triple).into(), runner.clone().into());
    }
    Ok((variables, own.clone()))
}

/// The runner with its arguments, between blanks: there is no way to quote one.
fn runner(build: &BuildOptions, options: &[String]) -> Result<String> {
    let is_odd = |word: &str| word.is_empty() || word.contains(char::is_whitespace);
    if let Some(option) = options.iter().find(|option| is_odd(option)) {
        return Err(Error::Usage(format!(
            "{option:?} cannot be handed to a runner, which may have no blanks"
        )));
    }
    // One in a directory with blanks is looked up in PATH.
    let own = build.executable.to_str().filter(|path| !is_odd(path)).unwrap_or("cargo-leakcheck");
    Ok(format!("{own} exec --runner {} --", options.join(" ")).replace("  ", " "))
}

/// The variables for a shell, one a line. Flags are shown as cargo's users write them, where that can be done.
pub fn script(mut variables: Environment, build: &BuildOptions, export: bool) -> String {
    let rust = OsStr::new(ENCODED);
    if let Some(plain) = variables.get(rust).and_then(|flags| plain_flags(flags))
        // It would go before the other.
        && !build.environment.contains_key(rust)
    {
        variables.remove(rust);
        variables.insert("RUSTFLAGS".into(), plain.into());
    }
    let export = if export { "export " } else { "" };
    let line =
        |(name, value): (&OsString, &OsString)| format!("{export}{}={}\n", name.display(), quote(value));
    variables.iter().map(line).collect()
}

fn plain_flags(encoded: &OsStr) -> Option<String> {
    let flags = encoded.to_str()?;
    (!flags.contains(char::is_whitespace)).then(|| flags.replace('\u{1f}', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build() -> BuildOptions {
        BuildOptions {
            cargo: "cargo".into(),
            executable: "/bin/cargo-leakcheck".into(),
            directory: "/".into(),
            environment: Environment::new(),
            cargo_args: Vec::new(),
            metadata_args: Vec::new(),
            with_dependencies: false,
            target_dir: None,
            targets: Vec::new(),
            configs: Vec::new(),
        }
    }

    #[test]
    fn a_runner_has_no_blanks_but_those_between_its_arguments() {
        let options = ["--fds", "3"].map(str::to_owned);
        assert_eq!(runner(&build(), &options).unwrap(), "/bin/cargo-leakcheck exec --runner --fds 3 --");
        let odd = BuildOptions { executable: "/my tools/cargo-leakcheck".into(), ..build() };
        assert_eq!(runner(&odd, &[]).unwrap(), "cargo-leakcheck exec --runner --");
        assert!(runner(&build(), &["a b".to_owned()]).unwrap_err().to_string().contains("\"a b\""));
    }

    #[test]
    fn flags_are_written_as_users_do_unless_they_have_blanks() {
        let flags = |flags: &str| Environment::from([(ENCODED.into(), flags.into())]);
        assert_eq!(script(flags("-Ca=1\u{1f}-g"), &build(), true), "export RUSTFLAGS='-Ca=1 -g'\n");
        let encoded = "CARGO_ENCODED_RUSTFLAGS=$'-Ca=x y\\x1f-g'\n";
        assert_eq!(script(flags("-Ca=x y\u{1f}-g"), &build(), false), encoded);
        let set = BuildOptions { environment: flags("-g"), ..build() };
        assert_eq!(script(flags("-g"), &set, false), "CARGO_ENCODED_RUSTFLAGS=-g\n");
    }
}
