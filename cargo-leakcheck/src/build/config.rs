//! Cargo's configuration, as far as the build has to know it.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_config2::{Config, ResolveOptions, TargetTriple, de};
use fs_err as fs;

use crate::error::{Error, Result};
use crate::options::BuildOptions;

/// Reads the configuration files and variables that cargo will read; and where the compiler has its libraries.
pub fn load(options: &BuildOptions) -> Result<(Config, Option<PathBuf>)> {
    for value in &options.configs {
        refuse_flags(&options.directory, value)?;
    }
    let resolve = || ResolveOptions::default().env(options.environment.clone()).cargo(&options.cargo);
    let load = |resolve| Config::load_with_options(&options.directory, resolve).map_err(usage);
    let config = load(resolve())?;
    // By itself it would ask cargo, which runs a dozen programs to describe the system.
    match host(options, &config) {
        Some((host, libraries)) => Ok((load(resolve().host_triple(host))?, Some(libraries))),
        None => Ok((config, None)),
    }
}

/// The host's target and where its libraries are, as the compiler says that cargo will call.
fn host(options: &BuildOptions, config: &Config) -> Option<(String, PathBuf)> {
    let rustc = config.rustc();
    let mut command = Command::new(&rustc.path);
    command.args(&rustc.args).args(["--print", "host-tuple", "--print", "target-libdir"]);
    command.current_dir(&options.directory).env_clear().envs(&options.environment);
    let text = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let (host, libraries) = text.trim_end().split_once('\n')?;
    Some((host.to_owned(), libraries.into()))
}

/// The targets that are built: those asked for, or the host.
pub fn targets(options: &BuildOptions, config: &Config) -> Result<Vec<TargetTriple>> {
    config.build_target_for_config(&options.targets).map_err(usage)
}

/// The name of the variable with which cargo is told a runner for a target.
pub fn runner_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_RUNNER", triple.to_uppercase().replace(['-', '.'], "_"))
}

/// A `--config` goes before variables, so that a runner or flags set by it would replace ours.
fn refuse_flags(directory: &Path, value: &str) -> Result<()> {
    let path = directory.join(value);
    let text = if path.is_file() {
        fs::read_to_string(&path).map_err(|error| Error::Usage(format!("--config {value}: {error}")))?
    } else {
        value.to_owned()
    };
    let scratch = tempfile::NamedTempFile::new()
        .and_then(|file| fs::write(file.path(), text).map(|()| file))
        .map_err(|source| Error::System { call: "writing a temporary file".to_owned(), source })?;
    // What does not parse is cargo's to refuse.
    let Ok(config) = de::Config::load_file(scratch.path()) else { return Ok(()) };
    let target = config.target.values();
    let setting =
        if config.build.rustflags.is_some() || target.clone().any(|target| target.rustflags.is_some()) {
            "rustflags; use RUSTFLAGS or a configuration file"
        } else if target.clone().any(|target| target.runner.is_some()) {
            "a runner; tests are started without one"
        } else if config.build.target.is_some() {
            "build.target; use --target"
        } else if config.env.keys().any(|name| name.contains("CFLAGS") || name.contains("CXXFLAGS")) {
            "flags for C and C++; use the environment or a configuration file"
        } else {
            return Ok(());
        };
    Err(Error::Usage(format!("--config {value} must not set {setting}")))
}

fn usage(error: cargo_config2::Error) -> Error {
    Error::Usage(format!("cannot read cargo's configuration: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_runners_by_config_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("c.toml"), "[target.'cfg(unix)']\nrunner = ['a', 'b']\n").unwrap();
        for (value, words) in [
            ("build.rustflags=['-g']", "RUSTFLAGS"),
            ("target.x86_64-unknown-linux-gnu.rustflags='-g'", "RUSTFLAGS"),
            ("target.x86_64-unknown-linux-gnu.runner='qemu'", "runner"),
            ("c.toml", "runner"),
            ("env.CFLAGS='-O2'", "environment"),
            ("env.CXXFLAGS_x86_64={value='-O2', force=true}", "environment"),
            ("build.target='x86_64-unknown-linux-musl'", "--target"),
        ] {
            let text = refuse_flags(directory.path(), value).unwrap_err().to_string();
            assert!(text.contains(words) && text.contains(value), "{value}: {text}");
        }
    }

    #[test]
    fn other_configuration_passes() {
        for value in
            ["profile.dev.debug=1", "env.A='1'", "not toml at all =", "build.jobs=2", "no-such-file.toml"]
        {
            refuse_flags(Path::new("/"), value).unwrap();
        }
    }

    #[test]
    fn runner_variables() {
        assert_eq!(
            runner_variable("x86_64-unknown-linux-gnu"),
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
        );
        assert_eq!(runner_variable("thumbv8m.main-none-eabi"), "CARGO_TARGET_THUMBV8M_MAIN_NONE_EABI_RUNNER");
    }
}
