//! Costs, compared with other tools in one run on one machine: ratios are the result, times only
//! explain them. No test depends on a time.

mod crates;
mod descriptors;
mod exit;
mod marks;
mod page;
mod pairs;
mod suite;
mod table;
mod threads;

pub use crates::{CRATES, unpack};
pub use suite::clean;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum as _;

use crate::command::{capture, cargo, find, run as must};
use crate::{Result, repository};

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// One malloc and free
    Pairs,
    /// Two threads at once
    Threads,
    /// A whole run of many trivial tests
    Suite,
    /// Whole runs of the tests of real crates; needs the network
    Crates,
    /// The leak check at a process's exit
    Exit,
    /// Opening and closing, traced and beside
    Descriptors,
    /// What a test's code says, without the tool
    Marks,
    /// Reports of many findings, and the page in a browser
    Page,
}

/// Runs the benchmark, or one part of it, and prints its tables to standard output. Every measurement is repeated, all
/// of a table in turn, and the median counts: what else the machine does meets all of them.
///
/// # Errors
/// The tool cannot be built, or a run of it fails. Other tools that are missing or fail are named in
/// the table.
pub fn run(repeats: usize, only: Option<Part>) -> Result<()> {
    if repeats == 0 {
        return Err("--repeats must be at least 1".into());
    }
    // What nobody traces needs no tool.
    let tool = if only == Some(Part::Marks) { PathBuf::new() } else { build_tool()? };
    let folder = tempfile::tempdir()?;
    let parts = only.map_or_else(|| Part::value_variants().to_vec(), |part| vec![part]);
    for part in parts {
        let tables = match part {
            Part::Pairs => vec![pairs::measure(&tool, folder.path(), repeats)?],
            Part::Threads => vec![threads::measure(&tool, folder.path(), repeats)?],
            Part::Suite => suite::measure(&tool, folder.path(), repeats)?,
            Part::Crates => crates::measure(&tool, folder.path(), repeats)?,
            Part::Exit => exit::measure(&tool, folder.path(), repeats)?,
            Part::Descriptors => descriptors::measure(&tool, folder.path(), repeats)?,
            Part::Marks => vec![marks::measure(repeats)?],
            Part::Page => page::measure(&tool, folder.path(), repeats)?,
        };
        tables.iter().for_each(|table| println!("{table}"));
    }
    Ok(())
}

/// The tool, built for release.
///
/// # Errors
/// It cannot be built.
pub fn build_tool() -> Result<PathBuf> {
    must(cargo().args(["build", "--release", "--package", "cargo-leakcheck"]).current_dir(repository()))?;
    // This program is in the same target directory, in another profile.
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2).ok_or("this program is in no target directory")?;
    let tool = target.join("release/cargo-leakcheck");
    if tool.exists() { Ok(tool) } else { Err(format!("{} was not built", tool.display()).into()) }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bench").join(name)
}

/// The newest clang that is installed.
fn clang() -> Option<&'static str> {
    let names = ["clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-14"];
    names.into_iter().find(|name| find(name).is_some())
}

/// Compiles one of the benchmark's programs.
fn compile(name: &str, compiler: &str, flags: &[&str], program: &Path) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-fno-omit-frame-pointer", "-fno-builtin"]).args(flags);
    capture(command.arg(source(name)).arg("-o").arg(program)).map(drop)
}

/// The number that a program prints.
fn number(command: &mut Command) -> Result<f64> {
    let output = capture(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().find_map(|line| line.trim().parse().ok());
    number.ok_or_else(|| format!("no number in the output of {command:?}: {text}").into())
}
