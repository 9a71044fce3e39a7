//! What looking at descriptors costs: the program that is traced, and another one beside it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::table::{Row, Table};
use super::{compile, number};
use crate::Result;

const NATIVE: &str = "native";
const TRACED: &str = "cargo leakcheck";
const OFF: &str = "cargo leakcheck --no-fds";
const BESIDE: &str = "beside cargo leakcheck";
const OBJECTS: &str = "cargo leakcheck --kernel-bytes";
const REPORT: &str = "cargo leakcheck --kernel-report";
const BESIDE_REPORT: &str = "beside cargo leakcheck --kernel-report";

/// Measures both loops; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let program = folder.join("open");
    compile("open.c", "cc", &[], &program)?;
    [("open", "One open and close, 20 frames deep"), ("pipe", "One pipe, 20 frames deep")]
        .into_iter()
        .map(|(what, title)| table(tool, &program, what, title.to_owned(), repeats))
        .collect()
}

fn table(tool: &Path, program: &Path, what: &str, title: String, repeats: usize) -> Result<Table> {
    let arguments = [what, "300000"];
    let traced = |options: &[&str]| {
        let mut command = Command::new(tool);
        number(command.args(["leakcheck", "exec"]).args(options).arg("--").arg(program).args(arguments))
    };
    let native = || number(Command::new(program).args(arguments));
    let beside = |options: &[&str]| {
        let _run = Background::start(tool, options, program)?;
        native()
    };
    let rows = [
        Row { name: NATIVE, measure: Box::new(native), required: true },
        Row { name: TRACED, measure: Box::new(|| traced(&[])), required: true },
        Row { name: OFF, measure: Box::new(|| traced(&["--no-fds"])), required: true },
        Row { name: BESIDE, measure: Box::new(|| beside(&[])), required: true },
        // What is asked for has no bar: it costs what it costs.
        Row { name: OBJECTS, measure: Box::new(|| traced(&["--kernel-bytes", "0"])), required: true },
        Row { name: REPORT, measure: Box::new(|| traced(&["--kernel-report"])), required: true },
        Row { name: BESIDE_REPORT, measure: Box::new(|| beside(&["--kernel-report"])), required: true },
    ];
    Ok(Table::measure(title, "ns", &rows, repeats)?.bar(TRACED, NATIVE, 1.5).bar(BESIDE, NATIVE, 1.1))
}

/// A run of the tool on a program that waits; ended with this.
struct Background(Child);

impl Background {
    fn start(tool: &Path, options: &[&str], program: &Path) -> Result<Self> {
        let mut command = Command::new(tool);
        command.args(["leakcheck", "exec"]).args(options).arg("--").arg(program).arg("wait");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut run = Self(child);
        let output = run.0.stdout.take().ok_or("the run has no output")?;
        match BufReader::new(output).lines().next() {
            Some(Ok(_)) => Ok(run),
            _ => Err("the run beside has not begun".into()),
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
