//! What looking at descriptors costs: the program that is traced, and another one beside it.
//!
//! A test that leaves nothing is judged by lists of its descriptors. What explains descriptors is attached from the first test on
//! that leaves one, and for programs: so both are measured, by tests and by programs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::table::{Row, Table};
use super::{capture, compile, number, source};
use crate::Result;

const NATIVE: &str = "native";
const NATIVE_TEST: &str = "native, in a test";
const TRACED_TEST: &str = "in a test, traced";
const TRACED: &str = "traced, with what explains";
const OFF: &str = "traced, --no-fds";
const BESIDE: &str = "native, beside a test that leaves nothing";
const BESIDE_EXPLAINED: &str = "native, beside what explains";
const OBJECTS: &str = "traced, --kernel-bytes";
const REPORT: &str = "traced, --kernel-report";
const BESIDE_REPORT: &str = "native, beside --kernel-report";

/// What is measured.
struct Bench<'a> {
    tool: &'a Path,
    /// The loops, and a program that waits.
    program: PathBuf,
    /// The same as tests.
    tests: PathBuf,
    repeats: usize,
}

/// Measures both loops; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let bench = Bench { tool, program: folder.join("open"), tests: folder.join("beside"), repeats };
    compile("open.c", "cc", &[], &bench.program)?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--test", "--edition=2024", "-Copt-level=2", "-Cdebuginfo=1", "-Cforce-frame-pointers"]);
    capture(rustc.arg(source("beside.rs")).arg("-o").arg(&bench.tests))?;
    [("open", "opens", "One open and close, 20 frames deep"), ("pipe", "pipes", "One pipe, 20 frames deep")]
        .into_iter()
        .map(|(what, test, title)| bench.table(what, test, title.to_owned()))
        .collect()
}

impl Bench<'_> {
    fn table(&self, what: &str, test: &str, title: String) -> Result<Table> {
        let arguments = [what, "300000"];
        let traced = |options: &[&str]| {
            let mut command = self.traced(options);
            number(command.arg(&self.program).args(arguments))
        };
        let exact = ["--exact", test, "--nocapture"];
        let in_test = || number(self.traced(&[]).arg(&self.tests).args(exact));
        let native = || number(Command::new(&self.program).args(arguments));
        let beside = |options: &[&str], program: &Path, arguments: &[&str]| {
            let _run = Background::start(self.traced(options).arg(program).args(arguments))?;
            native()
        };
        let waits = ["--exact", "wait", "--nocapture"];
        let rows = [
            Row { name: NATIVE, measure: Box::new(native), required: true },
            Row {
                name: NATIVE_TEST,
                measure: Box::new(|| number(Command::new(&self.tests).args(exact))),
                required: true,
            },
            Row { name: TRACED_TEST, measure: Box::new(in_test), required: true },
            Row { name: TRACED, measure: Box::new(|| traced(&[])), required: true },
            Row { name: OFF, measure: Box::new(|| traced(&["--no-fds"])), required: true },
            Row { name: BESIDE, measure: Box::new(|| beside(&[], &self.tests, &waits)), required: true },
            // What is needed for an explanation has no bar for others, nor has what is asked for: it costs what it costs.
            Row {
                name: BESIDE_EXPLAINED,
                measure: Box::new(|| beside(&[], &self.program, &["wait"])),
                required: true,
            },
            Row { name: OBJECTS, measure: Box::new(|| traced(&["--kernel-bytes", "0"])), required: true },
            Row { name: REPORT, measure: Box::new(|| traced(&["--kernel-report"])), required: true },
            Row {
                name: BESIDE_REPORT,
                measure: Box::new(|| beside(&["--kernel-report"], &self.program, &["wait"])),
                required: true,
            },
        ];
        let table = Table::measure(title, "ns", &rows, self.repeats)?;
        Ok(table.bar(TRACED_TEST, NATIVE_TEST, 1.5).bar(TRACED, NATIVE, 1.5).bar(BESIDE, NATIVE, 1.1))
    }

    /// The tool, for a program and its arguments.
    fn traced(&self, options: &[&str]) -> Command {
        let mut command = Command::new(self.tool);
        command.args(["leakcheck", "exec"]).args(options).arg("--");
        command
    }
}

/// A run of the tool on something that waits; ended with this.
struct Background(Child);

impl Background {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut run = Self(child);
        let output = run.0.stdout.take().ok_or("the run has no output")?;
        // libtest has lines of its own before the test's.
        let mut lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
        match lines.any(|line| line.ends_with("begun")) {
            true => Ok(run),
            false => Err("the run beside has not begun".into()),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Its test ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
