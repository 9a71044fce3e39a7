//! Time of a whole run of 500 trivial tests, everything built before.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::{Row, Table};
use crate::Result;
use crate::command::{capture, cargo, find};

const TESTS: usize = 500;
/// Names of the rows.
pub const NEXTEST: &str = "cargo nextest run";
pub const LEAKCHECK: &str = "cargo leakcheck";
pub const FORK: &str = "cargo leakcheck --spawn fork";

/// Measures all; `folder` is for the generated crate.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let root = folder.join("trivial");
    generate(&root)?;
    let title = format!("A whole run of {TESTS} trivial tests");
    let whole =
        compare(tool, &root, title, &[], repeats)?.bar(LEAKCHECK, NEXTEST, 1.0).bar(FORK, NEXTEST, 0.5);
    Ok(vec![whole, processor(tool, &root, repeats)?])
}

/// What the tool takes of a processor for a test, beside what a run takes in any case: the thread that follows the tests, as it
/// says itself, and all of it.
fn processor(tool: &Path, root: &Path, repeats: usize) -> Result<Table> {
    const LIMIT: &str = "(as much as the tracer may take)";
    const TRACER: &str = "the tracer, --spawn fork";
    let run = |way: &str, tests: &[&str]| {
        let mut command = Command::new(tool);
        command.args(["leakcheck", "--timings", "--spawn", way]).args(tests).current_dir(root);
        own_time(clean(&mut command))
    };
    let whole = |way: &str| -> Result<f64> {
        let [all, one] =
            [&[][..], &["--", "--exact", "t0"]].map(|tests| run(way, tests).map(|(time, _)| time));
        Ok((all? - one?) / (TESTS - 1) as f64)
    };
    let tracer = || -> Result<f64> {
        let (_, text) = run("fork", &[])?;
        Ok(tracer(&text).ok_or_else(|| format!("no time in {text}"))? / TESTS as f64)
    };
    let rows = [
        Row { name: LIMIT, measure: Box::new(|| Ok(0.3)), required: true },
        Row { name: TRACER, measure: Box::new(tracer), required: true },
        Row { name: LEAKCHECK, measure: Box::new(|| whole("exec")), required: true },
        Row { name: FORK, measure: Box::new(|| whole("fork")), required: true },
    ];
    let title = "Time on processors for a trivial test".to_owned();
    Ok(Table::measure(title, "ms", &rows, repeats)?.bar(TRACER, LIMIT, 1.0))
}

/// The milliseconds in `tracer: 5 us on a processor for 500 tests`.
fn tracer(text: &str) -> Option<f64> {
    let time = text.lines().find_map(|line| line.strip_prefix("tracer: ")?.split(' ').next())?;
    Some(time.parse::<f64>().ok()? / 1000.0)
}

/// The time that a process has been on processors for itself, in milliseconds: what the kernel says of it when it has ended
/// and nobody has waited for it (proc(5), `stat`; the times of its children are others). And what it has said.
fn own_time(command: &mut Command) -> Result<(f64, String)> {
    // Clock ticks, 100 a second for programs whatever the kernel counts in.
    const TICK: f64 = 10.0;
    let said = tempfile::NamedTempFile::new()?;
    let mut child = command.stdout(Stdio::null()).stderr(said.reopen()?).spawn()?;
    let time = loop {
        let text = fs_err::read_to_string(format!("/proc/{}/stat", child.id()))?;
        // The name is in brackets, and may have any in it.
        let (_, fields) = text.rsplit_once(") ").ok_or("no fields")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        if fields[0] == "Z" {
            break TICK * (fields[11].parse::<f64>()? + fields[12].parse::<f64>()?);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !child.wait()?.success() {
        return Err(format!("{command:?} has failed").into());
    }
    Ok((time, fs_err::read_to_string(said.path())?))
}

/// Measures them in a folder; `tests` is libtest's selection.
pub fn compare(tool: &Path, root: &Path, title: String, tests: &[&str], repeats: usize) -> Result<Table> {
    let time = |command: &mut Command| -> Result<f64> {
        // With backtraces, tests that are to panic mostly measure how std reads debug information.
        clean(command).env_remove("RUST_BACKTRACE").current_dir(root).arg("--").args(tests);
        let start = Instant::now();
        capture(command)?;
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
        Row { name: LEAKCHECK, measure: Box::new(|| leakcheck(&["--spawn", "exec"])), required: true },
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
