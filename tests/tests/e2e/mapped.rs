//! Memory that is left mapped, beyond what the fixture `mappings` shows.

use leakcheck_tests::report::Test;
use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("mapped::limit_for_all", limit_for_all),
    ("mapped::of_a_program", of_a_program),
    ("mapped::switched_off", switched_off),
    ("mapped::said_everywhere", said_everywhere),
];

fn expect(run: &Run, test: &Test, (code, verdict): (i32, &str), bytes: u64) -> Outcome {
    let found: u64 = test.kernel.mappings.iter().map(|mapping| mapping.bytes).sum();
    match test.verdict == verdict && found == bytes {
        true => run.expect(code, &[]),
        false => Err(format!("{bytes} and {verdict} were expected: {test:?}\n{}", run.describe())),
    }
}

/// Limits are inclusive; the test leaves a memory file of a page ten times.
fn limit_for_all(workshop: &Workshop) -> Outcome {
    for (limit, code, verdict) in [("40960", 0, "clean"), ("40959", 2, "leaks")] {
        let options = ["--mapped-bytes", limit, "forgotten_within_a_loop"];
        let (run, report) = Desk::new(workshop, "mappings")?.run(workshop, &options, &[])?;
        expect(&run, &report.tests[0], (code, verdict), 40_960)?;
    }
    Ok(())
}

/// Arguments: how many bytes are mapped, of which a page is unmapped.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("mapped", &[])?;
    for (options, code, verdict, words) in [
        (&[][..], 0, "clean", "/mapped.c:8)"),
        (&["--mapped-bytes", "61440"], 0, "clean", "(61440 B left mapped at "),
        (&["--mapped-bytes", "0"], 2, "leaks", "61440 B left mapped in 1 mapping (budget 0 B)"),
    ] {
        let (run, test) = exec_with(workshop, options, &[program.as_str(), "65536"])?;
        expect(&run, &test, (code, verdict), 65_536 - 4096)?;
        run.expect(code, &[words])?;
    }
    Ok(())
}

/// The report says what was not looked at.
fn switched_off(workshop: &Workshop) -> Outcome {
    let options = ["--no-mappings", "forgotten_within_a_loop"];
    let (run, report) = Desk::new(workshop, "mappings")?.run(workshop, &options, &[])?;
    expect(&run, &report.tests[0], (0, "clean"), 0)?;
    let off = &report.steering.checks_off;
    match off.iter().any(|check| check.contains("mapped")) {
        true => Ok(()),
        false => Err(format!("{off:?}")),
    }
}

/// Terminal and JUnit have the same words.
fn said_everywhere(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "mappings")?;
    let (run, _) = desk.run(workshop, &["over_the_budget", "both_ends", "shared_memory"], &[])?;
    let said = [
        "8192 B left mapped in 1 mapping (budget 8191 B)",
        "8192 B mapped  anonymous  by mmap at mappings/src/lib.rs:",
        "20480 B left mapped at mappings/src/lib.rs:",
        "12288 B left mapped at mappings/src/lib.rs:",
    ];
    run.expect(2, &said)?;
    let junit = std::fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
    match said.iter().find(|text| !junit.contains(**text)) {
        Some(text) => Err(format!("`{text}` was expected in {junit}")),
        None => Ok(()),
    }
}
