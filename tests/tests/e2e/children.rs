//! Children that execute programs of the workspace. (The fixture has what they come to.)

use leakcheck_tests::compare;
use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::tool::Workshop;

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("children::are_not_followed_unasked", are_not_followed_unasked),
    ("children::are_named", are_named),
    ("children::of_a_program", of_a_program),
];

const RECORDERS: [&str; 3] = ["ledger", "uprobe", "user"];

/// Without the option the tests of the fixture are clean, but for children that are left.
fn are_not_followed_unasked(workshop: &Workshop) -> Outcome {
    let mut fixture = Fixture::read(&workshop.fixtures().join("children"))?;
    for test in fixture.tests.values_mut() {
        test.findings.clear();
        (test.verdict, test.findings_any) = (None, false);
    }
    for recorder in RECORDERS {
        let (run, report) = Desk::new(workshop, "children")?.run(workshop, &["--recorder", recorder], &[])?;
        if recorder == "user" {
            // Nobody sees where they are started.
            let left = fixture.tests.values_mut().flat_map(|test| &mut test.left);
            left.for_each(|left| left.at = None);
        }
        let differences = compare::report(&fixture, &report);
        if !differences.is_empty() {
            return Err(format!("{differences}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}

/// All reports say which process it was.
fn are_named(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "children")?;
    let arguments = ["--follow-children", "child_leaks", "child_frees_twice", "child_that_", "child_with"];
    let (run, _) = desk.run(workshop, &arguments, &[])?;
    let said = [
        "in child process: ",
        "/debug/children leak\n",
        "/debug/children twice\n",
        "freed first:\n    at children::main",
        "/debug/children replace: the process replaced itself",
        "/debug/alone: allocator not covered: the executable is statically linked",
    ];
    run.expect(10, &said)?;
    let junit = std::fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
    match said.iter().find(|text| !junit.contains(**text)) {
        Some(text) => Err(format!("`{text}` was expected in {junit}")),
        None => Ok(()),
    }
}

/// A program that is given to `exec` and executes itself once more.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("again", &[])?;
    let expected = Fixture::read_program(&workshop.fixtures().join("programs/again.c"))?;
    for recorder in RECORDERS {
        let options = ["--recorder", recorder, "--follow-children"];
        let (run, test) = exec_with(workshop, &options, &[program.as_str()])?;
        let differences = compare::test(&expected, &test);
        if !differences.is_empty() {
            return Err(format!("{differences}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}
