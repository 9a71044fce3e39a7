//! Processes and threads that are left, beyond what the fixture `leftovers` shows.

use leakcheck_tests::report::Test;
use leakcheck_tests::tool::{Run, Workshop, open_to_all};

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("left::by_a_program", by_a_program),
    ("left::limits_for_all", limits_for_all),
    ("left::switched_off", switched_off),
    ("left::ended_with_the_test", ended_with_the_test),
    ("left::ended_ones_take_no_room", ended_ones_take_no_room),
    ("left::full_table", full_table),
    ("left::said_everywhere", said_everywhere),
];

fn expect(run: &Run, test: &Test, (code, verdict): (i32, &str), children: usize) -> Outcome {
    match test.verdict == verdict && test.kernel.children.len() == children {
        true => run.expect(code, &[]),
        false => Err(format!("{children} and {verdict} were expected: {test:?}\n{}", run.describe())),
    }
}

/// What a program leaves is reported, and judged where a limit is given.
fn by_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("daemon", &[])?;
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let folder = camino::Utf8Path::from_path(folder.path()).ok_or("the folder has no readable name")?;
    open_to_all(folder)?;
    let file = folder.join("daemon.pid");
    for (options, code, verdict, word) in [
        (&[][..], 0, "clean", "1 child left)"),
        (&["--children", "1"], 0, "clean", "1 child left"),
        (&["--children", "0"], 2, "leaks", "1 child left (budget 0)"),
    ] {
        let (run, test) = exec_with(workshop, options, &[program.as_str(), file.as_str()])?;
        run.expect(code, &[word])?;
        expect(&run, &test, (code, verdict), 1)?;
        let said = std::fs::read_to_string(&file).map_err(|problem| problem.to_string())?;
        if said.trim() != test.kernel.children[0].id.to_string() {
            return Err(format!("it was process {said}: {test:?}"));
        }
    }
    Ok(())
}

fn limits_for_all(workshop: &Workshop) -> Outcome {
    let desk = || Desk::new(workshop, "leftovers");
    for (children, code, verdict) in [("2", 0, "clean"), ("1", 2, "leaks")] {
        let (run, report) = desk()?.run(workshop, &["--children", children, "two_of_one_line"], &[])?;
        expect(&run, &report.tests[0], (code, verdict), 2)?;
    }
    for (threads, code, verdict) in [("3", 0, "clean"), ("2", 2, "leaks")] {
        let (run, report) = desk()?.run(workshop, &["--threads", threads, "several_that_wait"], &[])?;
        expect(&run, &report.tests[0], (code, verdict), 0)?;
        let words = if code == 0 { "3 threads left running: several" } else { "running (budget 2)" };
        run.expect(code, &[words])?;
    }
    Ok(())
}

/// The report says what was not looked at.
fn switched_off(workshop: &Workshop) -> Outcome {
    let options = ["--no-children", "two_of_one_line", "timers_left", "several_that_wait"];
    let (run, report) = Desk::new(workshop, "leftovers")?.run(workshop, &options, &[])?;
    for test in &report.tests {
        expect(&run, test, (0, "clean"), 0)?;
        if !test.kernel.threads.is_empty() || !test.kernel.timers.is_empty() {
            return Err(format!("{test:?}"));
        }
    }
    let off = &report.steering.checks_off;
    match off.iter().any(|check| check.contains("children")) {
        true => Ok(()),
        false => Err(format!("{off:?}")),
    }
}

/// The next test meets nothing of the one before.
fn ended_with_the_test(workshop: &Workshop) -> Outcome {
    let options = ["-j1", "--", "--exact", "daemon", "forked_by_c", "nothing_else_is_there"];
    let alone = [("LEFTOVERS_ALONE".to_owned(), "1".to_owned())];
    let (run, report) = Desk::new(workshop, "leftovers")?.run(workshop, &options, &alone)?;
    let verdicts: Vec<_> = report.tests.iter().map(|test| test.verdict.as_str()).collect();
    match verdicts == ["leaks", "leaks", "clean"] {
        true => run.expect(2, &[]),
        false => Err(format!("{verdicts:?}\n{}", run.describe())),
    }
}

/// Records of processes and threads that were waited for do not fill the table.
fn ended_ones_take_no_room(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("forks", &["-pthread"])?;
    let options = ["--children", "0", "--threads", "0", "--max-threads", "1000"];
    let (run, test) = exec_with(workshop, &options, &[program.as_str()])?;
    expect(&run, &test, (0, "clean"), 0)
}

/// What finds no room makes a verdict impossible.
fn full_table(workshop: &Workshop) -> Outcome {
    let options = ["--max-threads", "3", "grandchildren_of_grandchildren"];
    let (run, report) = Desk::new(workshop, "leftovers")?.run(workshop, &options, &[])?;
    run.expect(10, &["of processes or threads not recorded", "--max-threads"])?;
    if report.summary.incomplete == 1 { Ok(()) } else { Err(run.describe()) }
}

/// Terminal and JUnit have the same words, and nothing that a terminal would take for a command.
fn said_everywhere(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "leftovers")?;
    let options = ["detached_over", "two_of_one_line", "with_a_name_for_terminals"];
    let (run, _) = desk.run(workshop, &options, &[])?;
    let said = [
        "1 thread left running (budget 0)",
        "2 children left (budget 0)",
        "thread sits-there  still running at leftovers/src/lib.rs:",
        ", started at leftovers/src/lib.rs:",
        "  sleep 31557600.5  still running, started at leftovers/src/lib.rs:",
        "  \\u{1b}[31m) Z 1  ended, not waited for, started at leftovers/src/lib.rs:",
    ];
    run.expect(2, &said)?;
    let junit = std::fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
    match said.iter().find(|text| !junit.contains(**text)) {
        Some(text) => Err(format!("`{text}` was expected in {junit}")),
        None => Ok(()),
    }
}
