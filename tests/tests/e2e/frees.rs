//! Double frees: where the block was allocated, freed first, and freed again.

use camino::Utf8Path;
use leakcheck_tests::marker::Kind;
use leakcheck_tests::report::{Frame, Test};
use leakcheck_tests::tool::Workshop;

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("frees::of_a_program", of_a_program),
    ("frees::of_a_test", of_a_test),
    ("frees::not_noted", not_noted),
];

const RECORDERS: [&str; 2] = ["ledger", "uprobe"];

/// The line of a source file that contains a text, from 1.
fn line(source: &Utf8Path, text: &str) -> Result<usize, String> {
    let content = std::fs::read_to_string(source).map_err(|problem| format!("{source}: {problem}"))?;
    let place = content.lines().position(|line| line.contains(text));
    place.map(|place| place + 1).ok_or_else(|| format!("{source} has no line with `{text}`"))
}

/// Compares the innermost lines in a source file of what the only double free of a test shows.
fn compare(test: &Test, file: &str, expected: [Option<usize>; 3]) -> Outcome {
    let mut frees = test.findings.iter().filter(|finding| finding.kind == Kind::DoubleFree);
    let (Some(free), None) = (frees.next(), frees.next()) else {
        return Err(format!("not one double free: {test:?}"));
    };
    let innermost = |stack: &Option<Vec<Frame>>| {
        let frame =
            stack.iter().flatten().find(|frame| frame.file.as_ref().is_some_and(|name| name.ends_with(file)));
        frame.and_then(|frame| frame.line)
    };
    let found = [&free.allocated, &free.freed_first, &free.stack].map(innermost);
    if found == expected { Ok(()) } else { Err(format!("lines {found:?}, not {expected:?}: {free:?}")) }
}

/// The tool is asked for it.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("twice", &[])?;
    let source = workshop.fixtures().join("programs/twice.c");
    let expected = ["// allocated", "// freed first", "// freed again"].map(|text| line(&source, text).ok());
    for recorder in RECORDERS {
        let options = ["--recorder", recorder, "--free-stacks"];
        let (run, test) = exec_with(workshop, &options, &[program.as_str()])?;
        compare(&test, "twice.c", expected).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        run.expect(0, &["freed first:", "allocated:"])?;
    }
    Ok(())
}

/// A program is not run once more unasked.
fn not_noted(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("twice", &[])?;
    let source = workshop.fixtures().join("programs/twice.c");
    let [allocated, again] = ["// allocated", "// freed again"].map(|text| line(&source, text).ok());
    for recorder in RECORDERS {
        let (run, test) = exec_with(workshop, &["--recorder", recorder], &[program.as_str()])?;
        compare(&test, "twice.c", [allocated, None, again])?;
        run.expect(0, &["use --free-stacks"])?;
    }
    Ok(())
}

/// A test is run once more, and is one test all the same.
fn of_a_test(workshop: &Workshop) -> Outcome {
    const NAME: &str = "double_free_that_passes";
    let source = workshop.fixtures().join("bad-free/c/bad_free.c");
    let allocated = line(&source, "malloc(1000)")?;
    let expected = [Some(allocated), Some(allocated + 1), Some(line(&source, &format!("[{NAME}]"))?)];
    for recorder in RECORDERS {
        let desk = Desk::new(workshop, "bad-free")?;
        let (run, report) = desk.run(workshop, &["--recorder", recorder, NAME], &[])?;
        let [test] = &report.tests[..] else { return Err(run.describe()) };
        compare(test, "bad_free.c", expected).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        run.expect(0, &["1 test run", "freed first:"])?;
    }
    Ok(())
}
