//! What tests leave behind when each is started, and when they are forked: the same, however often and however many at a time.

use std::collections::{BTreeMap, BTreeSet};
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

/// What there is of each test, by binary and name: what no two runs have otherwise, and what is still reachable, which in tests
/// with several threads may be more or less, as it happens.
type Left = BTreeMap<String, [Value; 2]>;

/// Runs the tests of the packages in `folders`, or of crates of cargo's registry if there are none, `rounds` times in each way.
///
/// # Errors
/// Something cannot be built or run, or a test has left something else than in the first run, or something still reachable only
/// where it was forked, though it is always the same where it is started.
pub fn run(folders: &[PathBuf], rounds: usize) -> Result<()> {
    let tool = build_tool()?;
    let temporary = tempfile::tempdir()?;
    let mut differences = 0;
    for folder in &folders_or_crates(folders, temporary.path())? {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).display();
        let mut first: Option<Left> = None;
        let mut reachable: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
        for round in 1..=rounds {
            for (jobs, (number, way)) in
                JOBS.iter().flat_map(|jobs| WAYS.iter().enumerate().map(move |way| (jobs, way)))
            {
                let left = left(&tool, folder, temporary.path(), &["--spawn", way, "--jobs", jobs])?;
                let first = first.get_or_insert_with(|| left.clone());
                for (test, [value, rest]) in &left {
                    let before = first.get(test).map_or(&Value::Null, |[before, _]| before);
                    if before != value {
                        differences += 1;
                        println!(
                            "{name}: {test}, round {round}, {way}, -j{jobs}:\n  {value}\n  {before} at first"
                        );
                    }
                    reachable.entry(test.clone()).or_default()[number].insert(rest.to_string());
                }
                if left.len() != first.len() {
                    return Err(format!("{name}: {} tests instead of {}", left.len(), first.len()).into());
                }
            }
        }
        let mut vary = 0;
        for (test, [started, forked]) in &reachable {
            if started.len() > 1 {
                vary += 1;
            } else if started != forked {
                differences += 1;
                println!("{name}: {test}, still reachable:\n  {forked:?} forked\n  {started:?} started");
            }
        }
        let tests = reachable.len();
        println!(
            "{name}: {tests} tests, {rounds} rounds; what is reachable varies in {vary} that are started"
        );
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

/// Of a test of the report.
fn essence(test: &Value) -> [Value; 2] {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let findings = list(&test["findings"]);
    let (reachable, others): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding["kind"] == "still_reachable");
    let finding =
        |it: &&Value| json!([it["kind"], it["bytes"], it["blocks"], it["site"]["file"], it["site"]["line"]]);
    let [others, reachable] = [others, reachable].map(|findings| {
        let mut findings: Vec<Value> = findings.iter().map(finding).collect();
        findings.sort_by_key(Value::to_string);
        findings
    });
    let kernel = ["descriptors", "ipc", "children", "timers", "mappings"]
        .map(|kind| list(&test["kernel"][kind]).len());
    let others = json!([test["outcome"], test["verdict"], test["bad_frees"], others, kernel, test["losses"]]);
    [others, json!([test["still_reachable"], reachable])]
}
