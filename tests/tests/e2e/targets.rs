//! Every target of the fixtures is in the report, with as many tests as cargo has.

use std::process::Command;

use leakcheck_tests::compare;
use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::report::{Report, Target};
use leakcheck_tests::tool::{Run, Workshop};

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("targets::counts", counts),
    ("targets::statuses", statuses),
    ("targets::nothing", nothing),
    ("targets::of_parts", of_parts),
    ("targets::of_other_profiles", of_other_profiles),
];

/// The targets by their names with `_`, whether they are doctests, and the number of their tests.
type Counts = Vec<(String, bool, usize)>;

fn counts(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let plain = target.join("plain");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", "cargo", "test", "--workspace", "--no-fail-fast"]);
    command.args(["--manifest-path", manifest.as_str(), "--target-dir", plain.as_str()]);
    command.args(["--", "--list", "--format", "terse"]).env_remove("CARGO_TARGET_DIR");
    let output = command.output().map_err(|problem| problem.to_string())?;
    let cargo = Run::new(format!("{command:?}"), output);
    let expected = listed(&cargo.stdout);

    let args = [
        "--manifest-path",
        manifest.as_str(),
        "--target-dir",
        target.as_str(),
        "--workspace",
        "-E",
        "none()",
        "--json",
        "-",
    ];
    let run = workshop.run(&args, &[])?;
    run.expect(4, &[])?;
    let report = documents::json_text(&run.stdout)?;
    let of = |target: &Target| {
        (target.name.replace('-', "_"), target.kind == "doctest", target.tests.unwrap_or(0))
    };
    let mut found: Counts = report.targets.iter().map(of).collect();
    found.sort();
    if found != expected || found.len() < 40 {
        let differ = |one: &Counts, other: &Counts| -> Counts {
            one.iter().filter(|row| !other.contains(row)).cloned().collect()
        };
        let (ours, theirs) = (differ(&found, &expected), differ(&expected, &found));
        return Err(format!("only here: {ours:?}; only cargo's: {theirs:?}\n{}", cargo.describe()));
    }
    Ok(())
}

/// What cargo has listed: a line that names the target, and then a line a test. (What programs that list nothing
/// print is no such line.)
fn listed(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let running = line.trim_start().strip_prefix("Running ").and_then(|rest| rest.rsplit_once('/'));
        if let Some((_, file)) = running.filter(|_| line.ends_with(')')) {
            let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
            counts.push((name.replace('-', "_"), false, 0));
        } else if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            counts.push((name.to_owned(), true, 0));
        } else if [": test", ": benchmark"]
            .iter()
            .any(|end| line.strip_suffix(end).is_some_and(|name| !name.is_empty()))
            && let Some((.., count)) = counts.last_mut()
        {
            *count += 1;
        }
    }
    counts.sort();
    counts
}

/// What the targets of a crate came to: name, kind, status, tests, ignored, checked.
type Row<'a> = (&'a str, &'a str, &'a str, Option<usize>, usize, usize);

fn rows(report: &Report) -> Vec<Row<'_>> {
    report
        .targets
        .iter()
        .map(|target| {
            let Target { name, kind, status, tests, ignored, checked, .. } = target;
            (&**name, &**kind, &**status, *tests, *ignored, *checked)
        })
        .collect()
}

fn check(workshop: &Workshop, package: &str, args: &[&str], expected: &[Row<'_>], says: &[&str]) -> Outcome {
    let (run, report) = Desk::new(workshop, package)?.run(workshop, args, &[])?;
    let mut found = rows(&report);
    found.sort_unstable();
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?}\n{}", run.describe()));
    }
    run.expect(run.code, says)
}

fn statuses(workshop: &Workshop) -> Outcome {
    let unit = |name| (name, "test", "one_unit", None, 0, 1);
    let harnesses = [
        unit("custom"),
        ("custom_harness", "lib", "not_checked", Some(0), 0, 0),
        unit("garbage"),
        ("mimic", "test", "checked", Some(3), 0, 3),
        unit("stale"),
    ];
    // Cargo asks rustdoc about every library.
    let with_doctests =
        [&harnesses[..2], &[("custom_harness", "doctest", "not_checked", Some(0), 0, 0)], &harnesses[2..]]
            .concat();
    let mut expected = with_doctests;
    expected.sort_unstable();
    check(
        workshop,
        "custom-harness",
        &["--full-stacks"],
        &expected,
        &["as one unit custom-harness::garbage", "checked custom-harness::mimic: 3 tests"],
    )?;
    let ignored =
        [("ignored", "doctest", "not_checked", Some(0), 0, 0), ("ignored", "lib", "checked", Some(2), 1, 1)];
    check(workshop, "ignored", &[], &ignored, &[])?;
    let documented =
        [("doctest", "doctest", "not_checked", Some(1), 0, 0), ("doctest", "lib", "checked", Some(1), 0, 1)];
    check(
        workshop,
        "doctest",
        &[],
        &documented,
        &["not checked 1 doctest of doctest: doctests are not run yet"],
    )
}

/// A run that selects nothing is no success, and one of which nothing could be checked says why.
fn nothing(workshop: &Workshop) -> Outcome {
    let (run, _) = Desk::new(workshop, "clean")?.run(workshop, &["no such test"], &[])?;
    run.expect(4, &["0 tests run"])?;
    let (run, report) = Desk::new(workshop, "clean")?.run(workshop, &["-E", "package(forget)"], &[])?;
    if report.targets.iter().any(|target| target.status != "not_checked") {
        return Err(run.describe());
    }
    run.expect(4, &["0 tests run"])
}

/// A build profile of one's own, which strips what it builds and has no use for panics, and a target that is named: the
/// same findings, in the same lines, and a target directory that keeps them apart.
fn of_other_profiles(workshop: &Workshop) -> Outcome {
    let settings = ["inherits='dev'", "strip=true", "debug=false", "panic='abort'", "codegen-units=1"];
    let settings = settings.map(|setting| format!("profile.ours.{setting}"));
    let configs = settings.iter().flat_map(|setting| ["--config", setting]);
    let target = ["--target", "x86_64-unknown-linux-gnu"];
    for more in [&[][..], &target] {
        let fixture = Fixture::read(&workshop.fixtures().join("endings"))?;
        let args: Vec<&str> =
            ["--profile", "ours"].into_iter().chain(configs.clone()).chain(more.iter().copied()).collect();
        let own = fixture.args.iter().map(String::as_str);
        let (run, report) = Desk::new(workshop, "endings")?.run(
            workshop,
            &args.into_iter().chain(own).collect::<Vec<_>>(),
            &[],
        )?;
        let differences = compare::report(&fixture, &report);
        if !differences.is_empty() {
            return Err(format!("{differences}\n{}", run.describe()));
        }
        run.expect(fixture.exit, &[])?;
    }
    Ok(())
}

/// Reports of parts come to the same targets as one run.
fn of_parts(workshop: &Workshop) -> Outcome {
    for (package, count) in [("custom-harness", 6), ("doctest", 2)] {
        let desk = Desk::new(workshop, package)?;
        let (_, whole) = desk.run(workshop, &[], &[])?;
        let mut parts = Vec::new();
        for part in ["slice:1/2", "slice:2/2"] {
            desk.run(workshop, &["--partition", part], &[])?;
            let path = desk.file(&format!("{}.json", parts.len()));
            fs_err::rename(desk.file("report.json"), &path).map_err(|problem| problem.to_string())?;
            parts.push(path);
        }
        let all = desk.file("all.json");
        let args = ["report", "merge", parts[0].as_str(), parts[1].as_str(), "--json", all.as_str()];
        let run = workshop.run(&args, &[])?;
        let merged = documents::json(&all)?;
        if rows(&merged) != rows(&whole) || merged.targets.len() != count {
            let (merged, whole) = (rows(&merged), rows(&whole));
            return Err(format!("{merged:?} instead of {whole:?}\n{}", run.describe()));
        }
    }
    Ok(())
}
