//! Events on standard output, against the report of the same run.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use leakcheck_tests::tool::{Run, Workshop, open_to_all};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("stream::agrees_with_report", agrees_with_report),
    ("stream::list", list),
    ("stream::alone", alone),
    ("stream::read_late", read_late),
    ("stream::unwritten", unwritten),
    ("stream::interrupted_unread", interrupted_unread),
    ("stream::interrupted_twice", interrupted_twice),
];

/// The events of a run, each with its kind.
fn events(run: &Run) -> Result<Vec<(String, Value)>, String> {
    let event = |line: &str| {
        let value: Value = serde_json::from_str(line).map_err(|problem| format!("{line}: {problem}"))?;
        Ok((value["event"].as_str().ok_or_else(|| format!("no event: {line}"))?.to_owned(), value))
    };
    run.stdout.lines().map(event).collect()
}

/// The last event of each test is its record in the report, also where attempts and second runs have changed it.
fn agrees_with_report(workshop: &Workshop) -> Outcome {
    for (package, options, attempts) in
        [("flaky", &["--retries", "2"][..], 3), ("descriptors", &["file_closed", "in_a_loop"], 1)]
    {
        let desk = Desk::new(workshop, package)?;
        let attempted = desk.file("attempted");
        std::fs::create_dir(&attempted).map_err(|problem| problem.to_string())?;
        let variables = [("FLAKY".to_owned(), attempted.to_string())];
        let (run, _) = desk.run(workshop, &[&["--message-format", "json"], options].concat(), &variables)?;
        agree(&run, &desk, attempts).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    }
    Ok(())
}

fn agree(run: &Run, desk: &Desk, attempts: usize) -> Outcome {
    let events = events(run)?;
    let of = |kind: &str| events.iter().filter(|it| it.0 == kind).map(|it| &it.1).collect::<Vec<_>>();
    let text = std::fs::read_to_string(desk.file("report.json")).map_err(|problem| problem.to_string())?;
    let mut report: Value = serde_json::from_str(&text).map_err(|problem| problem.to_string())?;
    let id = |test: &Value| (test["binary"].to_string(), test["name"].to_string());
    let mut last = BTreeMap::new();
    for test in of("test-finished") {
        last.insert(id(test), test.clone());
    }
    let mut tests = BTreeMap::new();
    for test in report["tests"].take().as_array().ok_or("no tests")? {
        let mut test = test.clone();
        test["event"] = "test-finished".into();
        tests.insert(id(&test), test);
    }
    if last != tests {
        return Err(format!("the last events of tests are {last:?}"));
    }
    let started = of("test-started");
    let runs = of("run-started");
    let count = |tests: &Value| tests.as_u64().unwrap_or(0);
    let all: u64 = runs.iter().map(|run| count(&run["tests"])).sum();
    if runs.len() != attempts || started.len() as u64 != all || count(&runs[0]["tests"]) != tests.len() as u64
    {
        return Err(format!("{} runs and {} tests have started", runs.len(), started.len()));
    }
    let (kind, end) = events.last().ok_or("no events")?;
    if kind != "run-finished" || end["summary"] != report["summary"] || end["exit_code"] != run.code {
        return Err(format!("the last event is {kind}: {end}"));
    }
    Ok(())
}

/// What would run, with its budget.
fn list(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let options = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "budgets"];
    let run = workshop.run(&[&["list", "--message-format", "json"], &options[..]].concat(), &[])?;
    let plain = workshop.run(&[&["list"], &options[..]].concat(), &[])?;
    let listed = events(&run)?;
    let is_there = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = |(kind, test): &(String, Value)| {
            kind == "test-listed" && test["binary"] == words[0] && test["name"] == words[1]
        };
        let found = listed.iter().find(|it| of(it));
        // `bytes=96`, and the like.
        found.is_some_and(|(_, test)| {
            words[2..].iter().filter_map(|word| word.split_once('=')).all(|(limit, value)| {
                let said = test["budget"][limit].to_string();
                limit == "ignore" || said == value || value.contains('"')
            })
        })
    };
    let lines = plain.stdout.lines();
    match lines.clone().count() == listed.len() && lines.clone().all(is_there) && lines.count() > 3 {
        true => run.expect(0, &[]),
        false => Err(format!("{}\n{}", run.describe(), plain.describe())),
    }
}

/// Nothing else may write there.
fn alone(workshop: &Workshop) -> Outcome {
    for other in [&["--no-capture"][..], &["--json", "-"], &["--", "--nocapture"]] {
        let run = workshop.run(&[&["--message-format", "json"], other].concat(), &[])?;
        run.expect(11, &["both write to standard output"])?;
    }
    Ok(())
}

/// Who wants events and has no room for them is told; who does not read on is not.
fn unwritten(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let fixed = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "clean"];
    let run = |first: &[&str], stdout: Stdio| -> Result<Run, String> {
        let mut command = workshop.command(&[first, &fixed, &["--message-format", "json"]].concat())?;
        let child = command.stdout(stdout).stderr(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output);
        Ok(Run::new(format!("{command:?}"), output.map_err(|problem| problem.to_string())?))
    };
    for first in [&[][..], &["list"]] {
        let full = std::fs::File::create("/dev/full").map_err(|problem| problem.to_string())?;
        run(first, full.into())?.expect(11, &["writing events", "No space left"])?;
        let (reader, writer) = std::io::pipe().map_err(|problem| problem.to_string())?;
        drop(reader);
        run(first, writer.into())?.expect(0, &[])?;
    }
    Ok(())
}

/// Each writes 8 KB, which is in its event, and takes a while.
const WORDY: &str = "
use std::io::Write as _;

fn write() {
    std::io::stdout().write_all(&[b'x'; 8000]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(150));
}

macro_rules! tests { ($($name:ident)*) => { $(#[test] fn $name() { write() })* } }
tests! { a b c d e f g h i j k l m n o p }
";

/// The manifest of a package of such tests, which are built.
fn wordy(workshop: &Workshop, name: &str) -> Result<Utf8PathBuf, String> {
    let failed = |problem: std::io::Error| problem.to_string();
    let folder = workshop.path().join(name);
    let manifest = folder.join("Cargo.toml");
    std::fs::create_dir_all(folder.join("src")).map_err(failed)?;
    std::fs::write(folder.join("src/lib.rs"), WORDY).map_err(failed)?;
    let package = format!("[package]\nname = '{name}'\nversion = '0.0.0'\nedition = '2024'\n[workspace]\n");
    std::fs::write(&manifest, package).map_err(failed)?;
    open_to_all(&folder)?;
    let target = workshop.target_dir();
    let list = ["list", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
    workshop.run(&list, &[])?.expect(0, &[])?;
    Ok(manifest)
}

/// Whoever reads the events may take longer than a test may run: that a test has to wait for him is not held against it.
fn read_late(workshop: &Workshop) -> Outcome {
    let failed = |problem: std::io::Error| problem.to_string();
    let (manifest, target) = (wordy(workshop, "wordy")?, workshop.target_dir());
    let fixed = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
    let options = ["--message-format", "json", "--jobs", "1", "--timeout", "2s"];
    let mut command = workshop.command(&[&fixed[..], &options].concat())?;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    // A pipe has room for half of what is said.
    std::thread::sleep(Duration::from_secs(6));
    let run = Run::new(format!("{command:?}"), child.wait_with_output().map_err(failed)?);
    let outcomes: Vec<_> = events(&run)?
        .into_iter()
        .filter(|(kind, _)| kind == "test-finished")
        .map(|(_, event)| event["outcome"].as_str().unwrap_or("none").to_owned())
        .collect();
    match outcomes.len() == 16 && outcomes.iter().all(|outcome| outcome == "passed") {
        true => run.expect(0, &[]),
        false => Err(format!("{outcomes:?}")),
    }
}

/// How long the tool may take to end.
const LIMIT: Duration = Duration::from_secs(15);

fn wait(tool: &mut Child) -> Result<ExitStatus, String> {
    let ended = processes::wait_for("the tool to end", LIMIT, || matches!(tool.try_wait(), Ok(Some(_))));
    if ended.is_err() {
        let _ = tool.kill();
    }
    let status = tool.wait().map_err(|problem| problem.to_string())?;
    ended.map(|()| status)
}

fn interrupt(tool: &Child) -> Outcome {
    kill(Pid::from_raw(tool.id().cast_signed()), Signal::SIGINT).map_err(|problem| problem.to_string())
}

/// An interrupt ends the run at once, where its events, what its tests write, or its report go to somebody who reads nothing.
fn interrupted_unread(workshop: &Workshop) -> Outcome {
    let (manifest, target) = (wordy(workshop, "unread")?, workshop.target_dir());
    let fixed = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "--jobs", "1"];
    for options in [&["--message-format", "json"][..], &["--no-capture"]] {
        let desk = Desk::new(workshop, "clean")?;
        let (json, temporary) = (desk.file("report.json"), desk.file("tmp"));
        let mut command = workshop.command(&[&fixed[..], options, &["--json", json.as_str()]].concat())?;
        command.env("TMPDIR", &temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut tool = command.spawn().map_err(|problem| problem.to_string())?;
        // Time for more than a pipe has room for.
        std::thread::sleep(Duration::from_secs(4));
        interrupt(&tool)?;
        let status = wait(&mut tool).map_err(|problem| format!("{options:?}: {problem}"))?;
        let report = documents::json(&json)?;
        let ended = report.tests.len();
        if status.code() != Some(10) || ended == 0 || ended == 16 {
            return Err(format!("{options:?}: {status}, {ended} tests"));
        }
        processes::left_files(&temporary)?;
    }
    Ok(())
}

/// The second one needs nobody's help: here nobody even opens the pipe that the report is to go to.
fn interrupted_twice(workshop: &Workshop) -> Outcome {
    let (manifest, target) = (wordy(workshop, "twice-interrupted")?, workshop.target_dir());
    let pipe = workshop.path().join("twice-interrupted/report");
    let made = Command::new("mkfifo").arg(&pipe).status().map_err(|problem| problem.to_string())?;
    if !made.success() {
        return Err(format!("mkfifo: {made}"));
    }
    let args =
        ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "--json", pipe.as_str()];
    let mut tool = workshop.command(&args)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let tool = tool.as_mut().map_err(|problem| problem.to_string())?;
    std::thread::sleep(Duration::from_secs(2));
    interrupt(tool)?;
    std::thread::sleep(Duration::from_millis(1500));
    interrupt(tool)?;
    match wait(tool)?.signal() {
        Some(signal) if signal == Signal::SIGINT as i32 => Ok(()),
        signal => Err(format!("it ended by signal {signal:?}")),
    }
}
