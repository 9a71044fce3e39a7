//! Parts of a run, further attempts, and an early end.

use std::collections::BTreeSet;

use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, nextest};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("parts::as_nextest_deals_them_out", as_nextest_deals_them_out),
    ("parts::expressions", expressions),
    ("parts::retries", retries),
    ("parts::max_fail", max_fail),
    ("parts::no_capture", no_capture),
];

/// Crates with libraries, binaries, integration tests, ignored tests; a macro's.
const PACKAGES: [&str; 7] = ["budgets", "children", "direct", "endings", "ignored", "macro-crate", "process"];

/// What `cargo leakcheck list` and `cargo nextest list` say of those crates with the same selection, if it is the same.
fn listed(workshop: &Workshop, selection: &[&str]) -> Result<BTreeSet<String>, String> {
    let packages: Vec<&str> = PACKAGES.iter().flat_map(|package| ["-p", package]).collect();
    let (manifest, target) = (workshop.fixtures().join("Cargo.toml"), workshop.target_dir());
    let place = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
    let ours = workshop.run(&[&["list"][..], &place, &packages, selection].concat(), &[])?;
    ours.expect(0, &[])?;
    // Columns are two blanks apart: binary, name, budget.
    let line = |line: &str| {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        Some(format!("{} {}", columns.next()?, columns.next()?))
    };
    let found: BTreeSet<String> = ours.stdout.lines().filter_map(line).collect();
    let list = [&["nextest", "list", "-Toneline", "--color=never"][..], &packages, selection].concat();
    let theirs = workshop.cargo(&list, &[])?;
    theirs.expect(0, &[])?;
    let expected: BTreeSet<String> = theirs.stdout.lines().map(str::to_owned).collect();
    if found == expected && !found.is_empty() {
        return Ok(found);
    }
    let (missing, more) = (&expected - &found, &found - &expected);
    Err(format!("{selection:?}: {missing:?} are missing, {more:?} besides\n{}", ours.describe()))
}

/// The same tests in each part, for every way of dealing them out.
fn as_nextest_deals_them_out(workshop: &Workshop) -> Outcome {
    let mut all = BTreeSet::new();
    for part in ["slice:1/3", "slice:2/3", "slice:3/3"] {
        all.extend(listed(workshop, &["--partition", part])?);
    }
    for part in ["hash:1/2", "hash:2/2", "count:2/3"] {
        listed(workshop, &["--partition", part])?;
    }
    match all.len() > 50 {
        true => Ok(()),
        false => Err(format!("the slices together have {} tests", all.len())),
    }
}

/// nextest's expressions select what they do there, with names and parts besides.
fn expressions(workshop: &Workshop) -> Outcome {
    for selection in [
        &["-E", "package(endings) & test(/^panics/)"][..],
        &["-E", "kind(bin) | test(=clean)"],
        &["-E", "deps(budgets) - test(over)"],
        &["-E", "binary_id(=process)", "-E", "kind(proc-macro)"],
        &["-E", "kind(test) | package(process)", "--partition", "slice:2/3", "child"],
    ] {
        listed(workshop, selection)?;
    }
    let desk = Desk::new(workshop, "endings")?;
    let (run, report) = desk.run(workshop, &["-E", "test(=panics) | test(=passes_and_leaks)"], &[])?;
    if report.tests.len() != 2 {
        return Err(run.describe());
    }
    run.expect(3, &[])?;
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let args =
        ["list", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "endings"];
    let run = workshop.run(&[&args[..], &["-E", "package(=none)"]].concat(), &[])?;
    run.expect(11, &["no packages matched this: `=none`"])
}

/// The fixture counts attempts in a folder.
fn flaky(desk: &Desk) -> Result<[(String, String); 1], String> {
    let folder = desk.file("attempts");
    fs_err::create_dir(&folder).map_err(|problem| problem.to_string())?;
    Ok([("FLAKY".to_owned(), folder.to_string())])
}

/// As with nextest; a test that has failed and then passed is none that fails.
fn retries(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    let (run, report) = desk.run(workshop, &["--retries", "2"], &flaky(&desk)?)?;
    nextest::flaky(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    run.expect(2, &["attempt 3 of 3 at 1 test", "leaks in 1 of 3 attempts"])?;
    let desk = Desk::new(workshop, "flaky")?;
    let passes = ["--retries", "1", "--", "--exact", "fails_at_first", "steady"];
    desk.run(workshop, &passes, &flaky(&desk)?)?.0.expect(0, &["2 tests run: 2 clean"])
}

/// The first test fails; what has not been started then is counted, and no verdict on it is made.
fn max_fail(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "forget")?;
    let (run, report) = desk.run(workshop, &["--fail-fast", "-j1"], &[])?;
    // What is analysed while the next ones run comes late for those.
    if report.tests.is_empty() || report.tests.len() == 20 {
        return Err(format!("{} tests have run\n{}", report.tests.len(), run.describe()));
    }
    run.expect(2, &[&format!("{} other tests: not run after", 20 - report.tests.len())])?;
    let (run, report) = Desk::new(workshop, "forget")?.run(workshop, &["--max-fail", "100"], &[])?;
    match report.tests.len() {
        20 => run.expect(2, &[]),
        number => Err(format!("{number} tests have run\n{}", run.describe())),
    }
}

/// What a test writes comes as it is, and once; that a test is to panic is known all the same.
fn no_capture(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "endings")?;
    let args = ["--no-capture", "--", "--exact", "panics", "should_panic_and_leaks"];
    let (run, report) = desk.run(workshop, &args, &[])?;
    let verdicts: Vec<_> = report.tests.iter().map(|test| (test.outcome.as_str(), test.counts)).collect();
    let said = run.stderr.matches("on purpose").count();
    match verdicts == [("failed", false), ("passed", false)]
        && said == 2
        && run.stdout.contains("should panic ... ok")
    {
        true => run.expect(1, &[]),
        false => Err(format!("{verdicts:?}, said {said} times\n{}", run.describe())),
    }
}
