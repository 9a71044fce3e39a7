//! Costs, compared with other tools in one run on one machine: ratios are the result, times only
//! explain them. No test depends on a time.

mod pairs;
mod suite;
mod table;

use std::path::{Path, PathBuf};

use crate::command::{cargo, run as must};
use crate::{Result, repository};

/// Runs the benchmark and prints its tables to standard output. Every measurement is repeated, all
/// of a table in turn, and the median counts: what else the machine does meets all of them.
///
/// # Errors
/// The tool cannot be built, or a run of it fails. Other tools that are missing or fail are named in
/// the table.
pub fn run(repeats: usize, pairs: bool, suite: bool) -> Result<()> {
    if repeats == 0 {
        return Err("--repeats must be at least 1".into());
    }
    let tool = build_tool()?;
    let folder = tempfile::tempdir()?;
    if pairs {
        println!("{}", pairs::measure(&tool, folder.path(), repeats)?);
    }
    if suite {
        println!("{}", suite::measure(&tool, folder.path(), repeats)?);
    }
    Ok(())
}

/// The tool, built for release.
fn build_tool() -> Result<PathBuf> {
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
