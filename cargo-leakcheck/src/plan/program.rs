//! What `cargo leakcheck exec` starts: a program, tests, or something that is none of ours.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::{AccessFlags, access};

use super::budgets::of_binary;
use super::identity::{self, Identity};
use crate::discover::is_libtest;
use crate::error::{Error, Result};
use crate::model::{Budget, PlannedTest, Stdio, TestBinary, TestName, Window};
use crate::options::{Asked, ExecOptions, JudgeOptions, Selection};

/// What a call of `exec` comes to.
#[derive(Clone, Debug)]
pub enum Called {
    /// No test, in a place where only tests are ours: the program takes the tool's place.
    Other(Utf8PathBuf),
    /// A program, or the one test that nextest has chosen.
    One(Box<PlannedTest>),
    /// A test binary, and what it is to run.
    Tests(Box<TestBinary>, Selection),
}

/// What is to be done with the program that was asked for; the streams of one that is no test lead where `stdio`
/// says.
///
/// # Errors
/// [`Error::Command`] when there is no such program; [`Error::Usage`] when a test binary is asked for something
/// that is not understood.
pub fn called(options: &ExecOptions, stdio: Stdio) -> Result<Called> {
    let (name, arguments) =
        options.command.split_first().ok_or_else(|| Error::Usage("exec needs a program".to_owned()))?;
    let failed =
        |reason: &str| Error::Command { command: name.display().to_string(), reason: reason.to_owned() };
    let path = find(options, name).ok_or_else(|| failed("no such executable file"))?;
    let path = Utf8PathBuf::try_from(path).map_err(|_| failed("its path is not UTF-8"))?;
    // What cannot be read as an executable (a script) has no libtest.
    let libtest = is_libtest(&path).unwrap_or(false);
    let chosen = options.runner.then(|| identity::chosen(&options.environment)).flatten();
    let is_test = libtest || chosen.is_some() || options.runner && identity::is_built_for_tests(&path);
    let binary = |kind_of: fn(&ExecOptions, &Utf8Path) -> Identity| -> Result<TestBinary> {
        let Identity { package, target, kind } = kind_of(options, &path);
        let directory = Utf8PathBuf::try_from(options.directory.clone())
            .map_err(|_| failed("its working directory is not UTF-8"))?;
        let environment = options.environment.clone().into_iter().collect();
        Ok(TestBinary { package, target, kind, path: path.clone(), directory, environment })
    };
    let one = |binary: TestBinary, name, window, budget, stdio| {
        let attempt = identity::attempt(&options.environment);
        let arguments = arguments.to_vec();
        let binary = Arc::new(binary);
        let (should_panic, judge, policy) = (false, JudgeOptions::default(), None);
        let test = PlannedTest {
            binary,
            name,
            arguments,
            window,
            budget,
            should_panic,
            stdio,
            attempt,
            judge,
            policy,
        };
        Called::One(Box::new(test))
    };
    if options.runner && identity::is_in_setup_script(&options.environment) {
        return Ok(Called::Other(path));
    }
    if !is_test {
        if options.runner {
            return Ok(Called::Other(path));
        }
        let binary = binary(Identity::of_program)?;
        let name = TestName::Unit(binary.target.clone());
        return Ok(one(binary, name, Window::Process, Budget::default(), stdio));
    }
    match &options.asked {
        Asked::Other => Ok(Called::Other(path)),
        Asked::Unknown { reason } => Err(Error::Usage(format!("{path}: {reason}"))),
        // nextest has asked the binary for its tests before.
        Asked::Tests(selection) if chosen.is_some() && selection.filters.len() == 1 => {
            let binary = binary(Identity::of_test)?;
            let name = selection.filters[0].clone();
            let budget = of_binary(&binary)?.remove(&name).unwrap_or_default();
            let window = if libtest { Window::TestBody } else { Window::Process };
            Ok(one(binary, TestName::Listed(name), window, budget, Stdio::Forwarded))
        }
        Asked::Tests(selection) => Ok(Called::Tests(Box::new(binary(Identity::of_test)?), selection.clone())),
    }
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
