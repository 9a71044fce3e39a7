//! What becomes of each test under `cargo nextest run` and under `cargo leakcheck`: nextest is the reference for which
//! tests there are and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::bench::{CRATES, build_tool, clean, unpack};
use crate::command::cargo;

/// Crates besides those of the benchmark, whose packages bring their tests along.
const MORE: [(&str, &str); 2] = [("semver", "1.0.28"), ("tempfile", "3.27.0")];

/// When a test is ended, in seconds; the crates' own take less.
const TIME_LIMIT: u32 = 60;

/// Test by binary and name, and what becomes of it: `passed`, `failed`, `timed out` or `ignored`.
type Ends = BTreeMap<String, &'static str>;

/// Compares the tests of the packages in `folders`, or of crates of cargo's registry if there are none.
///
/// # Errors
/// Something cannot be built or run, or a test ends in another way.
pub fn run(folders: &[PathBuf]) -> Result<()> {
    let tool = build_tool()?;
    let temporary = tempfile::tempdir()?;
    let mut differences = 0;
    for folder in &folders_or_crates(folders, temporary.path())? {
        let (nextest, (leakcheck, leaking)) =
            (by_nextest(folder, temporary.path())?, by_leakcheck(&tool, folder, temporary.path())?);
        let name = folder.file_name().unwrap_or(folder.as_os_str()).display();
        println!("{name}: {}; {leaking} of them leak", sums(&nextest));
        let tests: BTreeSet<&String> = nextest.keys().chain(leakcheck.keys()).collect();
        for test in tests {
            let end = |of: &Ends| of.get(test).copied().unwrap_or("missing");
            if end(&nextest) != end(&leakcheck) {
                differences += 1;
                println!("  {test}: {} under nextest, {} here", end(&nextest), end(&leakcheck));
            }
        }
    }
    match differences {
        0 => Ok(()),
        number => Err(format!("{number} tests end in another way than under nextest").into()),
    }
}

/// The folders, or those of crates of cargo's registry if there are none; `temporary` is for their sources.
///
/// # Errors
/// Cargo cannot get one.
pub fn folders_or_crates(folders: &[PathBuf], temporary: &Path) -> Result<Vec<PathBuf>> {
    if !folders.is_empty() {
        return Ok(folders.to_vec());
    }
    CRATES.into_iter().chain(MORE).map(|(name, version)| unpack(name, version, temporary)).collect()
}

fn sums(ends: &Ends) -> String {
    let mut text = format!("{} tests", ends.len());
    for end in ["passed", "failed", "timed out", "ignored"] {
        let number = ends.values().filter(|it| **it == end).count();
        let _ = write!(text, ", {number} {end}");
    }
    text
}

/// By nextest's list and its messages. The latter name a test by package, binary's name and test.
fn by_nextest(folder: &Path, temporary: &Path) -> Result<Ends> {
    let config = temporary.join("nextest.toml");
    fs_err::write(
        &config,
        format!("[profile.default]\nslow-timeout = {{ period = '{TIME_LIMIT}s', terminate-after = 1 }}\n"),
    )?;
    let list = output(cargo().args(["nextest", "list", "--message-format=json"]), folder, &[0])?;
    let list: Value = serde_json::from_str(&list)?;
    let (mut ends, mut ids) = (Ends::new(), BTreeMap::new());
    for suite in list["rust-suites"].as_object().into_iter().flat_map(|suites| suites.values()) {
        let text = |key: &str| suite[key].as_str().unwrap_or_default();
        ids.insert(format!("{}::{}", text("package-name"), text("binary-name")), text("binary-id"));
        for (name, test) in suite["testcases"].as_object().into_iter().flatten() {
            if test["ignored"] == true {
                ends.insert(format!("{} {name}", text("binary-id")), "ignored");
            }
        }
    }
    let mut command = cargo();
    command.args(["nextest", "run", "--no-fail-fast", "--message-format=libtest-json", "--config-file"]);
    command.arg(config).env("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1");
    for line in output(&mut command, folder, &[0, 100])?.lines() {
        let event: Value = serde_json::from_str(line)?;
        let end = match (event["event"].as_str(), event["reason"].as_str()) {
            (Some("ok"), _) => "passed",
            (Some("failed"), Some("time limit exceeded")) => "timed out",
            (Some("failed"), _) => "failed",
            _ => continue,
        };
        if let Some((binary, name)) = event["name"].as_str().and_then(|name| name.split_once('$')) {
            let id = ids.get(binary).ok_or_else(|| format!("nextest has not listed {binary}"))?;
            ends.insert(format!("{id} {name}"), end);
        }
    }
    Ok(ends)
}

/// By the JSON report, and how many tests leak.
fn by_leakcheck(tool: &Path, folder: &Path, temporary: &Path) -> Result<(Ends, usize)> {
    let mut ends = Ends::new();
    let list = output(Command::new(tool).args(["leakcheck", "list", "--", "--ignored"]), folder, &[0, 4])?;
    for line in list.lines() {
        // Columns are two blanks apart: binary, name, budget.
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        if let (Some(binary), Some(name)) = (columns.next(), columns.next()) {
            ends.insert(format!("{binary} {name}"), "ignored");
        }
    }
    let json = temporary.join("leakcheck.json");
    let limit = TIME_LIMIT.to_string();
    let mut command = Command::new(tool);
    command.args(["leakcheck", "--timeout", &limit, "--json"]).arg(&json);
    output(&mut command, folder, &[0, 1, 2, 3, 10])?;
    let report: Value = serde_json::from_str(&fs_err::read_to_string(&json)?)?;
    let mut leaking = 0;
    for test in report["tests"].as_array().into_iter().flatten() {
        let text = |key: &str| test[key].as_str().unwrap_or_default();
        let end = match text("outcome") {
            "passed" => "passed",
            "timed_out" => "timed out",
            _ => "failed",
        };
        leaking += usize::from(test["verdict"] == "leaks");
        ends.insert(format!("{} {}", text("binary"), text("name")), end);
    }
    Ok((ends, leaking))
}

/// What a command writes to standard output, if it ends with one of the codes.
fn output(command: &mut Command, folder: &Path, codes: &[i32]) -> Result<String> {
    let output = clean(command).current_dir(folder).output()?;
    match output.status.code() {
        Some(code) if codes.contains(&code) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?} ended with {}:\n{text}", output.status).into())
        }
    }
}
