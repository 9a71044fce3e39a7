//! The checks of the continuous integration that need no privileges. The tests themselves are the
//! README's command, see `.ci/run`.

use crate::command::{capture, cargo, run as must};
use crate::{Result, bpf, repository};

/// Runs them all, cheapest first, and ends at the first that fails.
///
/// # Errors
/// Which one failed.
pub fn run() -> Result<()> {
    merged()?;
    must(cargo_here().args(["fmt", "--all", "--check"]))?;
    for folder in ["leakcheck-ebpf", "fixtures", "examples/leaky"] {
        must(cargo().args(["fmt", "--all", "--check"]).current_dir(repository().join(folder)))?;
    }
    let ledger = repository().join("leakcheck-preload/ledger/lib.rs");
    must(std::process::Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(ledger))?;
    must(cargo_here().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    must(
        cargo_here().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    // What users install is what is packaged. That it can be built, and works, is an end-to-end test.
    let packages =
        ["leakcheck-common", "leakcheck-preload", "leakcheck-macros", "leakcheck", "cargo-leakcheck"];
    let packages = packages.into_iter().flat_map(|package| ["--package", package]);
    let folder = tempfile::tempdir()?;
    let mut package = cargo_here();
    package.args(["package", "--no-verify", "--locked", "--allow-dirty", "--target-dir"]).arg(folder.path());
    must(package.args(packages))?;
    match capture(cargo_here().args(["deny", "--version"])) {
        // Advisories need the network.
        Ok(_) => must(cargo_here().args(["deny", "--locked", "check", "licenses", "bans", "sources"]))?,
        Err(_) => eprintln!("note: dependencies are not checked, as cargo-deny is not installed"),
    }
    bpf::check()
}

/// Looks whether merges are whole.
fn merged() -> Result<()> {
    let mut search = std::process::Command::new("git");
    search.args(["grep", "--line-number", "--extended-regexp", "^(<{7}|>{7}) "]).current_dir(repository());
    // As grep, 1 is nothing found.
    match search.status()?.code() {
        Some(1) => Ok(()),
        Some(0) => Err("a merge has left its marks".into()),
        _ => Err("git could not search the repository".into()),
    }
}

fn cargo_here() -> std::process::Command {
    let mut command = cargo();
    command.current_dir(repository());
    command
}
