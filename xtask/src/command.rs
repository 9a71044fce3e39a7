//! Commands that are shown as they can be pasted into a shell, and must succeed.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::Result;

/// Runs a command with its output on the terminal.
///
/// # Errors
/// It cannot be started or ends without success.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", show(command));
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", show(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", show(command)).into()) }
}

/// Runs a command and keeps what it writes.
///
/// # Errors
/// It cannot be started or ends without success.
pub fn capture(command: &mut Command) -> Result<Output> {
    let output = command.output().map_err(|error| format!("cannot run `{}`: {error}", show(command)))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` ended with {}:\n{text}", show(command), output.status).into())
}

/// The first line that a command writes to standard output, trimmed.
///
/// # Errors
/// Those of [`capture`].
pub fn first_line(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim().lines().next().unwrap_or_default().trim().to_owned())
}

/// Where a program is in `PATH`; none if it is not installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
