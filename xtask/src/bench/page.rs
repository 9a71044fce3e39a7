//! Reports of a run with ten thousand findings: how long it takes to write them, and Chromium to show the page. What is
//! written includes reading the JSON report and showing the run on the terminal.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use leakcheck_tests::browser::Browser;
use leakcheck_tests::many;

use super::table::{Row, Table};
use crate::Result;

const FINDINGS: usize = 10_000;
const WRITE: &str = "2 s";
const OPEN: &str = "3 s";
const PAGE: &str = "report FILE --html";
const ALL: &str = "report FILE, every format";
const LOADED: &str = "DOMContentLoaded";
const ROWS: &str = "first rows";

/// Measures all of it; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let (program, json, page) = (folder.join("many"), folder.join("many.json"), folder.join("many.html"));
    many::compile(FINDINGS, &program)?;
    let took = |command: &mut Command| {
        let start = Instant::now();
        let output = command.output()?;
        // The exit code of leaks.
        match output.status.code() {
            Some(2) => Ok(start.elapsed().as_secs_f64() * 1000.0),
            _ => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    };
    let run = || {
        let mut command = Command::new(tool);
        command
            .args(["leakcheck", "exec", "--json"])
            .arg(&json)
            .arg("--html")
            .arg(&page)
            .arg("--")
            .arg(&program);
        took(&mut command)
    };
    run()?;
    let report = |formats: &[&str]| {
        let mut command = Command::new(tool);
        command.args(["leakcheck", "report"]).arg(&json).current_dir(folder);
        for format in formats {
            command.arg(format!("--{format}")).arg(folder.join(format!("many.{format}")));
        }
        took(&mut command)
    };
    let rows = [
        Row { name: WRITE, measure: Box::new(|| Ok(2000.0)), required: true },
        Row { name: PAGE, measure: Box::new(|| report(&["html"])), required: true },
        Row {
            name: ALL,
            measure: Box::new(|| report(&["html", "sarif", "junit", "flamegraph", "folded", "pprof"])),
            required: true,
        },
        Row { name: "the whole run, --json and --html", measure: Box::new(run), required: true },
    ];
    let title = format!("Reports of {FINDINGS} findings");
    let written = Table::measure(title, "ms", &rows, repeats)?.bar(PAGE, WRITE, 1.0).bar(ALL, WRITE, 1.0);

    let browser = RefCell::new(Browser::start(1280, 800)?);
    let opened = |expression: &str| {
        let mut browser = browser.borrow_mut();
        browser.open(&page)?;
        let milliseconds = browser.value(expression)?;
        milliseconds.as_f64().ok_or_else(|| format!("{milliseconds} is no time").into())
    };
    let loaded = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd";
    let rows = [
        Row { name: OPEN, measure: Box::new(|| Ok(3000.0)), required: true },
        Row { name: LOADED, measure: Box::new(|| opened(loaded)), required: true },
        Row {
            name: ROWS,
            measure: Box::new(|| opened("performance.getEntriesByName('rows')[0].startTime")),
            required: true,
        },
    ];
    let size = std::fs::metadata(&page)?.len() as f64 / (1024.0 * 1024.0);
    let title =
        format!("The page of {FINDINGS} findings ({size:.1} MiB) in Chromium, since it was asked for");
    let shown = Table::measure(title, "ms", &rows, repeats)?.bar(LOADED, OPEN, 1.0).bar(ROWS, OPEN, 1.0);
    Ok(vec![written, shown])
}
