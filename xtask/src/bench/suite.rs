//! Time of a whole run of 500 trivial tests, everything built before.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::table::{Row, Table};
use crate::Result;
use crate::command::{capture, cargo, find};

const TESTS: usize = 500;
/// Names of the rows.
pub const NEXTEST: &str = "cargo nextest run";
pub const LEAKCHECK: &str = "cargo leakcheck";
const FORK: &str = "cargo leakcheck --spawn fork";

/// Measures all; `folder` is for the generated crate.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Table> {
    let root = folder.join("trivial");
    generate(&root)?;
    let title = format!("A whole run of {TESTS} trivial tests");
    Ok(compare(tool, &root, title, repeats)?.bar(LEAKCHECK, NEXTEST, 1.0).bar(FORK, NEXTEST, 0.5))
}

/// Measures them in a folder.
pub fn compare(tool: &Path, root: &Path, title: String, repeats: usize) -> Result<Table> {
    let time = |command: &mut Command| -> Result<f64> {
        let start = Instant::now();
        capture(clean(command).current_dir(root))?;
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    };
    let nextest = || time(cargo().args(["nextest", "run"]));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = tool.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders)?;
    // By cargo, as a user would. A test of serde_json leaves its listener to a thread that never ends.
    let leakcheck =
        |more: &[&str]| time(cargo().args(["leakcheck", "--fds", "1"]).args(more).env("PATH", &path));
    // Builds.
    if find("cargo-nextest").is_some() {
        nextest()?;
    }
    leakcheck(&[])?;
    let rows = [
        Row {
            name: NEXTEST,
            measure: Box::new(|| {
                find("cargo-nextest").ok_or("cargo-nextest is not installed")?;
                nextest()
            }),
            required: false,
        },
        Row { name: LEAKCHECK, measure: Box::new(|| leakcheck(&[])), required: true },
        Row { name: FORK, measure: Box::new(|| leakcheck(&["--spawn", "fork"])), required: true },
    ];
    Table::measure(title, "ms", &rows, repeats)
}

fn generate(root: &Path) -> Result<()> {
    fs_err::create_dir_all(root.join("src"))?;
    let manifest = "[package]\nname = \"trivial\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ndoctest = false\n\n[workspace]\n";
    fs_err::write(root.join("Cargo.toml"), manifest)?;
    let tests = (0..TESTS)
        .map(|number| format!("#[test]\nfn t{number}() {{\n    assert_eq!({number}, {number});\n}}\n"));
    fs_err::write(root.join("src/lib.rs"), tests.collect::<String>())?;
    Ok(())
}

/// Takes out what the cargo that runs this program has put in.
pub fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text == "LD_LIBRARY_PATH" {
            command.env_remove(&name);
        }
    }
    command
}
