//! What a test's code says of its blocks, in the reports, and beside rules and the baseline. Which blocks it is of, the fixture
//! `marks` says.

use fs_err as fs;
use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("marks::in_every_report", in_every_report),
    ("marks::beside_the_baseline_and_rules", beside_the_baseline_and_rules),
];

/// Place of the call in `a_box_is_ignored`.
fn place(workshop: &Workshop) -> Result<String, String> {
    let source = workshop.fixtures().join("marks/src/lib.rs");
    let source = fs::read_to_string(source).map_err(|problem| problem.to_string())?;
    let line = source.lines().position(|line| line.contains("leakcheck::ignore(&kept)"));
    Ok(format!("marks/src/lib.rs:{}", line.ok_or("nothing is ignored")? + 1))
}

fn in_every_report(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "marks")?;
    let sarif = desk.file("leaks.sarif");
    let names = ["--exact", "a_box_is_ignored", "scopes::nested_in_limits"];
    let (run, report) =
        desk.run(workshop, &[&["--sarif", sarif.as_str(), "--"], &names[..]].concat(), &[])?;
    let place = place(workshop)?;
    run.expect(
        2,
        &[
            &format!("     Ignored {place}: 24 B in 1 block of 1 test\n"),
            "in scope 'outer': 25 B definitely lost in 2 blocks (budget 24 B)\n",
            "definitely lost: 16 B in 1 block of Box<[u8; 16]>, in scope 'outer'\n",
            "definitely lost: 9 B in 1 block of Box<[u8; 9]>, in scope 'inner'\n",
            "1 clean, 1 leaking",
        ],
    )?;
    let ignored = report.tests.iter().find(|test| test.name == "a_box_is_ignored").ok_or("it is missing")?;
    let by: Vec<_> = ignored.accepted.iter().map(|it| it.by["code"].as_str()).collect();
    if by != [Some(place.as_str())] || ignored.definitely_lost.bytes != 24 {
        return Err(format!("not reported as ignored: {ignored:?}"));
    }
    let junit = fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
    let sarif = fs::read_to_string(sarif).map_err(|problem| problem.to_string())?;
    for (text, part) in [
        (&junit, format!("24 B in 1 block ignored at {place}")),
        (&sarif, format!("leakcheck::ignore at {place}")),
        (&sarif, "\"inSource\"".to_owned()),
    ] {
        if !text.contains(&part) {
            return Err(format!("`{part}` is not in {text}"));
        }
    }
    Ok(())
}

/// Of two equal boxes one is ignored: the other one is all that the baseline knows, and that rules are written for.
fn beside_the_baseline_and_rules(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "marks")?;
    let names = ["--", "--exact", "a_box_is_ignored", "only_what_is_named_is_ignored"];
    let rules = [&["--no-baseline", "--write-rules"], &names[..]].concat();
    let (run, _) = desk.run(workshop, &rules, &[])?;
    run.expect(2, &["1 clean, 1 leaking"])?;
    if run.stdout.matches("[[").count() != 1 || !run.stdout.contains("max-bytes = 24\nmax-blocks = 1\n") {
        return Err(format!("one rule for one block was to be written: {}", run.stdout));
    }
    let baseline = desk.file("baseline.json");
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let fixed = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "--package", "marks"];
    let named = ["--baseline", baseline.as_str()];
    let write = [&["baseline", "write"], &fixed[..], &named[..], &names[..]].concat();
    let output = workshop.command(&write)?.output().map_err(|problem| problem.to_string())?;
    let written = fs::read_to_string(&baseline).map_err(|problem| format!("{problem}: {output:?}"))?;
    if written.matches("\"bytes\":24").count() + written.matches("\"bytes\": 24").count() != 1 {
        return Err(format!("one leak of 24 bytes is to be known: {written}"));
    }
    let (run, _) = desk.run(workshop, &[&named[..], &names[..]].concat(), &[])?;
    run.expect(0, &["Baseline 1 known\n", "2 clean"])
}
