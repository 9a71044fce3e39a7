//! `nextest`, `show-env` and `report merge`: one report of many processes, with the same verdicts as by the tool itself.

use std::collections::BTreeSet;

use leakcheck_tests::marker::Kind;
use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::{Run, Workshop};
use serde_json::Value;

use crate::fixtures::Desk;
use crate::runner::bad;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("nextest::verdicts", verdicts),
    ("nextest::one_at_a_time", one_at_a_time),
    ("nextest::retries", retries),
    ("nextest::profile_and_group", profile_and_group),
    ("nextest::archive", archive),
    ("nextest::partitions_are_merged", partitions_are_merged),
    ("nextest::killed", killed),
    ("nextest::nothing_to_run", nothing_to_run),
    ("nextest::not_installed", not_installed),
    ("nextest::show_env", show_env),
    ("report::merge_of_one", merge_of_one),
    ("report::merge_of_nonsense", merge_of_nonsense),
];

/// `cargo leakcheck nextest ARGS` on the fixtures, and its report.
pub fn nextest(workshop: &Workshop, desk: &Desk, args: &[&str]) -> Result<(Run, Report), String> {
    let (json, junit) = (desk.file("nextest.json"), desk.file("nextest.xml"));
    let reports = ["nextest", "--json", json.as_str(), "--junit", junit.as_str()];
    let run = in_fixtures(workshop, desk, &[&reports[..], args].concat(), &[])?;
    let problem = |problem: String| format!("{problem}\n{}", run.describe());
    let report = documents::json(&json).map_err(problem)?;
    documents::junit(&junit, &report).map_err(problem)?;
    Ok((run, report))
}

/// `cargo leakcheck ARGS` in the folder of the fixtures.
pub fn in_fixtures(
    workshop: &Workshop,
    desk: &Desk,
    args: &[&str],
    variables: &[(&str, &str)],
) -> Result<Run, String> {
    let mut command = workshop.command(args)?;
    command.current_dir(workshop.fixtures()).env("CARGO_TARGET_DIR", workshop.target_dir());
    command.env("TMPDIR", desk.file("tmp")).env("FLAKY", desk.file("tmp")).envs(variables.iter().copied());
    let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
    Ok(Run::new(format!("{command:?}"), output))
}

/// What must not depend on who runs a test. What a harness's own threads can still reach does on how far they are.
fn told(test: &Test) -> String {
    let Test { binary, name, outcome, verdict, definitely_lost, .. } = test;
    let own_harness = binary.starts_with("custom-harness");
    let still_reachable = (!own_harness).then_some(test.still_reachable);
    let findings = test.findings.iter().filter(|it| !own_harness || it.kind != Kind::StillReachable);
    let sites = findings.filter_map(|finding| Some((finding.kind, finding.site.as_ref()?.line)));
    let left: Vec<_> = test.kernel.descriptors.iter().map(|open| (&open.kind, &open.call)).collect();
    let files = test.temporary_files.as_ref().map(|files| files.count);
    format!(
        "{binary} {name} {outcome} {verdict} {definitely_lost:?} {still_reachable:?} {:?} {left:?} {files:?}",
        sites.collect::<Vec<_>>()
    )
}

fn same_results(expected: &Report, found: &Report) -> Outcome {
    let set = |report: &Report| report.tests.iter().map(told).collect::<BTreeSet<_>>();
    let (expected, found) = (set(expected), set(found));
    match expected == found {
        true => Ok(()),
        false => Err(format!("missing: {:#?}\nbesides: {:#?}", &expected - &found, &found - &expected)),
    }
}

fn verdicts(workshop: &Workshop) -> Outcome {
    let packages: [(&str, &[&str]); 5] = [
        ("budgets", &[]),
        ("custom-harness", &["--test=mimic"]),
        ("endings", &[]),
        ("files", &[]),
        ("handle", &[]),
    ];
    for (package, target) in packages {
        let desk = Desk::new(workshop, package)?;
        let (tools, expected) = desk.run(workshop, target, &[])?;
        let args = [&["run", "-p", package, "--no-fail-fast"], target].concat();
        let (run, report) = nextest(workshop, &desk, &args)?;
        same_results(&expected, &report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        run.expect(tools.code, &["summary"])?;
        let sum = |report: &Report| report.tests.iter().map(|test| test.findings.len()).sum::<usize>();
        if sum(&report) == 0 && package != "files" {
            return Err(format!("{package}: no findings\n{}", run.describe()));
        }
    }
    Ok(())
}

/// Without capturing, tests run one by one, with nextest's own streams.
fn one_at_a_time(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "endings")?;
    let filter = "test(=panics) | test(=passes_and_leaks) | test(=should_panic_and_leaks)";
    let (run, report) =
        nextest(workshop, &desk, &["run", "-p", "endings", "--no-capture", "--no-fail-fast", "-E", filter])?;
    let expected = ["endings panics", "endings passes_and_leaks"].map(str::to_owned);
    if report.tests.len() != 3 || bad(&report) != BTreeSet::from(expected) {
        return Err(run.describe());
    }
    run.expect(3, &["700 B definitely lost in 1 block", "on purpose"])
}

/// Attempts are processes of their own, and a leak in one of them is a leak.
fn retries(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    let (run, report) =
        nextest(workshop, &desk, &["run", "-p", "flaky", "--no-fail-fast", "--retries", "2"])?;
    flaky(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    run.expect(2, &["leaks in 1 of 3 attempts", "811 B definitely lost"])
}

/// The fixture's tests with two retries.
pub fn flaky(report: &Report) -> Outcome {
    let attempts = |test: &Test| test.attempts.map(|it| (it.total, it.leaking, it.failed));
    let found: Vec<_> =
        report.tests.iter().map(|test| (test.name.as_str(), test.verdict.as_str(), attempts(test))).collect();
    let expected = [
        ("fails_and_leaks_then", "leaks", Some((3, 1, 1))),
        ("fails_at_first", "clean", Some((2, 0, 1))),
        ("leaks_at_first", "leaks", Some((2, 1, 0))),
        ("steady", "clean", None),
    ];
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
}

/// What a profile says of retries and groups is nextest's business, and kept.
fn profile_and_group(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    let config = desk.file("nextest.toml");
    let text = "[test-groups]\nserial = { max-threads = 1 }\n[profile.ours]\nretries = 2\nfail-fast = false\n\
                [[profile.ours.overrides]]\nfilter = 'all()'\ntest-group = 'serial'\n";
    fs_err::write(&config, text).map_err(|problem| problem.to_string())?;
    let args = ["run", "-p", "flaky", "--profile", "ours", "--config-file", config.as_str()];
    let (run, report) = nextest(workshop, &desk, &args)?;
    flaky(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))
}

fn archive(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "budgets")?;
    let (_, expected) = desk.run(workshop, &[], &[])?;
    let file = desk.file("budgets.tar.zst");
    let archive = ["nextest", "archive", "-p", "budgets", "--archive-file", file.as_str()];
    in_fixtures(workshop, &desk, &archive, &[])?.expect(0, &[])?;
    let (run, report) =
        nextest(workshop, &desk, &["run", "--archive-file", file.as_str(), "--no-fail-fast"])?;
    same_results(&expected, &report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    run.expect(2, &[])
}

fn partitions_are_merged(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "endings")?;
    let (tools, expected) = desk.run(workshop, &[], &[])?;
    let mut parts = Vec::new();
    for part in ["slice:1/2", "slice:2/2"] {
        let (_, report) =
            nextest(workshop, &desk, &["run", "-p", "endings", "--no-fail-fast", "--partition", part])?;
        if report.tests.len() * 3 < expected.tests.len() || report.tests.len() >= expected.tests.len() {
            return Err(format!("{part} has {} of {} tests", report.tests.len(), expected.tests.len()));
        }
        let path = desk.file(&format!("{}.json", parts.len()));
        fs_err::rename(desk.file("nextest.json"), &path).map_err(|problem| problem.to_string())?;
        parts.push(path);
    }
    let (json, junit) = (desk.file("all.json"), desk.file("all.xml"));
    let args = [
        "report",
        "merge",
        parts[0].as_str(),
        parts[1].as_str(),
        "--json",
        json.as_str(),
        "--junit",
        junit.as_str(),
    ];
    let run = in_fixtures(workshop, &desk, &args, &[])?;
    let report = documents::json(&json)?;
    documents::junit(&junit, &report)?;
    same_results(&expected, &report)?;
    run.expect(tools.code, &["700 B definitely lost in 1 block", "summary"])
}

/// nextest ends what takes too long by force. The test is named, and its verdict is none.
fn killed(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "hang")?;
    let config = desk.file("nextest.toml");
    let text =
        "[profile.default]\nslow-timeout = { period = '3s', terminate-after = 1, grace-period = '0s' }\n";
    fs_err::write(&config, text).map_err(|problem| problem.to_string())?;
    let filter = "test(=spins) | test(=quick)";
    let args = ["run", "-p", "hang", "--config-file", config.as_str(), "--no-fail-fast", "-E", filter];
    let (run, report) = nextest(workshop, &desk, &args)?;
    let seen: Vec<_> = report.tests.iter().map(|test| (test.name.as_str(), test.verdict.as_str())).collect();
    if seen != [("quick", "clean"), ("spins", "incomplete")] {
        return Err(format!("{seen:?}\n{}", run.describe()));
    }
    run.expect(10, &["there is no result", "hang spins"])
}

fn nothing_to_run(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    nextest(workshop, &desk, &["run", "-p", "clean", "no_test_has_this_name"])?.0.expect(4, &[])?;
    nextest(workshop, &desk, &["list", "-p", "clean"])?.0.expect(0, &[])?;
    let run = in_fixtures(workshop, &desk, &["nextest", "no-such-command"], &[])?;
    run.expect(11, &["no-such-command"])
}

/// Cargo ends as nextest does when a build fails.
fn not_installed(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let sysroot = workshop.outside("rustc").args(["--print", "sysroot"]).output();
    let sysroot = Run::new("rustc".to_owned(), sysroot.map_err(|problem| problem.to_string())?).stdout;
    let (home, path) = (desk.file("home"), format!("{}/bin:/usr/bin:/bin", sysroot.trim()));
    // Cargo looks for commands there as well.
    let variables = [("CARGO_HOME", home.as_str()), ("PATH", path.as_str())];
    in_fixtures(workshop, &desk, &["nextest", "run", "-p", "clean"], &variables)?
        .expect(11, &["cargo nextest", "it is not installed"])
}

/// What `show-env` prints makes a shell's cargo use the tool, options included.
fn show_env(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "budgets")?;
    let variables =
        in_fixtures(workshop, &desk, &["show-env", "--export-prefix", "--count", "outstanding"], &[])?;
    variables.expect(0, &[])?;
    let results = desk.file("results");
    fs_err::create_dir(&results).map_err(|problem| problem.to_string())?;
    let script = format!("{}\nexec cargo test -p statics --lib -- once_lock", variables.stdout);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(workshop.fixtures()).env("LEAKCHECK_RESULTS", &results);
    let output = command.output().map_err(|problem| problem.to_string())?;
    let run = Run::new(script, output);
    run.expect(2, &["statics once_lock", "outstanding"])?;
    // Each process has left its result, which `report merge` takes.
    let files: Vec<_> = results.read_dir_utf8().map_err(|problem| problem.to_string())?.flatten().collect();
    let paths = files.iter().map(|file| file.path().as_str());
    let merge: Vec<&str> = ["report", "merge"].into_iter().chain(paths).collect();
    in_fixtures(workshop, &desk, &merge, &[])?.expect(2, &["statics once_lock", "1 test run"])
}

/// A report that is read and written again is the same, with everything that a test can leave.
fn merge_of_one(workshop: &Workshop) -> Outcome {
    for package in ["bad-free", "children", "descriptors", "endings", "ipc", "leftovers"] {
        let desk = Desk::new(workshop, package)?;
        let (first, _) = desk.run(workshop, &[], &[])?;
        let json = desk.file("merged.json");
        let args = ["report", "merge", desk.file("report.json").as_str(), "--json", json.as_str()]
            .map(str::to_owned);
        let run = in_fixtures(workshop, &desk, &args.each_ref().map(String::as_str), &[])?;
        let value = |path: &camino::Utf8Path| -> Result<Value, String> {
            let text = fs_err::read_to_string(path).map_err(|problem| problem.to_string())?;
            serde_json::from_str(&text).map_err(|problem| problem.to_string())
        };
        if value(&json)? != value(&desk.file("report.json"))? {
            return Err(format!("{package}: {} is another document\n{}", json, run.describe()));
        }
        run.expect(first.code, &[])?;
    }
    Ok(())
}

fn merge_of_nonsense(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let path = desk.file("no.json");
    fs_err::write(&path, "{}").map_err(|problem| problem.to_string())?;
    in_fixtures(workshop, &desk, &["report", "merge", path.as_str()], &[])?
        .expect(11, &["no.json", "no JSON report"])?;
    in_fixtures(workshop, &desk, &["report", "merge"], &[])?.expect(11, &["REPORT"])
}
