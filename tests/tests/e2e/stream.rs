//! Events on standard output, against the report of the same run.

use std::collections::BTreeMap;

use leakcheck_tests::tool::{Run, Workshop};
use serde_json::Value;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] =
    &[("stream::agrees_with_report", agrees_with_report), ("stream::list", list), ("stream::alone", alone)];

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
                limit == "ignore" || test["budget"][limit].to_string() == value || value.contains('"')
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
