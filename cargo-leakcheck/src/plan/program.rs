//! The one test of `cargo leakcheck exec`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use camino::Utf8PathBuf;
use nix::unistd::{AccessFlags, access};

use crate::error::{Error, Result};
use crate::model::{Budget, PlannedTest, Stdio, TargetKind, TestBinary, TestName, Window};
use crate::options::ExecOptions;

/// The program as a test named after it, whose streams lead where `stdio` says.
///
/// # Errors
/// [`Error::Command`] when there is no such program.
pub fn program(options: &ExecOptions, stdio: Stdio) -> Result<PlannedTest> {
    let (name, arguments) =
        options.command.split_first().ok_or_else(|| Error::Usage("exec needs a program".to_owned()))?;
    let failed =
        |reason: &str| Error::Command { command: name.display().to_string(), reason: reason.to_owned() };
    let path = find(options, name).ok_or_else(|| failed("no such executable file"))?;
    let utf8 = |path: PathBuf| Utf8PathBuf::try_from(path).map_err(|_| failed("its path is not UTF-8"));
    let path = utf8(path)?;
    let target = path.file_name().unwrap_or(path.as_str()).to_owned();
    let binary = TestBinary {
        package: String::new(),
        target: target.clone(),
        kind: TargetKind::Program,
        path,
        directory: utf8(options.directory.clone())?,
        environment: options.environment.clone().into_iter().collect(),
    };
    Ok(PlannedTest {
        binary: Arc::new(binary),
        name: TestName::Unit(target),
        arguments: arguments.to_vec(),
        window: Window::Process,
        budget: Budget::default(),
        should_panic: false,
        stdio,
        policy: None,
    })
}

/// As a shell finds it.
fn find(options: &ExecOptions, name: &OsStr) -> Option<PathBuf> {
    let executable = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if name.as_bytes().contains(&b'/') {
        return Some(options.directory.join(name)).filter(executable);
    }
    let path = options.environment.get(OsStr::new("PATH"))?;
    std::env::split_paths(path)
        .map(|directory| options.directory.join(directory).join(Path::new(name)))
        .find(executable)
}
