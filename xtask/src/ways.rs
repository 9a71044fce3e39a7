//! What tests leave behind when each is started, and when they are forked: the same, however often and however many at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::bench::{build_tool, clean};
use crate::compare::folders_or_crates;

/// When a test is ended, in seconds.
const TIME_LIMIT: &str = "60";
/// Tests at a time.
const JOBS: [&str; 2] = ["1", "8"];
const WAYS: [&str; 2] = ["exec", "fork"];

/// What is compared of each test, by binary and name.
type Left = BTreeMap<String, Value>;

/// Runs the tests of the packages in `folders`, or of crates of cargo's registry if there are none, `rounds` times in each way.
///
/// # Errors
/// Something cannot be built or run, or a test has left something else than in the first run.
pub fn run(folders: &[PathBuf], rounds: usize) -> Result<()> {
    let tool = build_tool()?;
    let temporary = tempfile::tempdir()?;
    let mut differences = 0;
    for folder in &folders_or_crates(folders, temporary.path())? {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).display();
        let mut first: Option<Left> = None;
        for round in 1..=rounds {
            for (jobs, way) in JOBS.iter().flat_map(|jobs| WAYS.map(|way| (jobs, way))) {
                let left = left(&tool, folder, temporary.path(), &["--spawn", way, "--jobs", jobs])?;
                let first = first.get_or_insert_with(|| left.clone());
                for (test, value) in &left {
                    if first.get(test) != Some(value) {
                        differences += 1;
                        let before = first.get(test).unwrap_or(&Value::Null);
                        println!(
                            "{name}: {test}, round {round}, {way}, -j{jobs}:\n  {value}\n  {before} at first"
                        );
                    }
                }
                if left.len() != first.len() {
                    return Err(format!("{name}: {} tests instead of {}", left.len(), first.len()).into());
                }
            }
        }
        println!("{name}: {} tests, {rounds} rounds", first.unwrap_or_default().len());
    }
    match differences {
        0 => Ok(()),
        number => Err(format!("{number} times a test has left something else").into()),
    }
}

/// By the JSON report.
fn left(tool: &Path, folder: &Path, temporary: &Path, options: &[&str]) -> Result<Left> {
    let path = temporary.join("leakcheck.json");
    let _ = fs_err::remove_file(&path);
    let mut command = Command::new(tool);
    command.args(["leakcheck", "--timeout", TIME_LIMIT]).args(options).arg("--json").arg(&path);
    let output = clean(&mut command).current_dir(folder).output()?;
    let report = fs_err::read_to_string(&path)
        .map_err(|error| format!("{error}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let report: Value = serde_json::from_str(&report)?;
    let tests = report["tests"].as_array().into_iter().flatten();
    Ok(tests.map(|test| (format!("{} {}", test["binary"], test["name"]), essence(test))).collect())
}

/// What no two runs have otherwise.
fn essence(test: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let finding =
        |it: &Value| json!([it["kind"], it["bytes"], it["blocks"], it["site"]["file"], it["site"]["line"]]);
    let mut findings: Vec<Value> = list(&test["findings"]).iter().map(finding).collect();
    findings.sort_by_key(Value::to_string);
    let kernel = ["descriptors", "ipc", "children", "timers", "mappings"]
        .map(|kind| list(&test["kernel"][kind]).len());
    json!([test["outcome"], test["verdict"], test["bad_frees"], findings, kernel, test["losses"]])
}
