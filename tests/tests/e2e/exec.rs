//! `exec`: any program, with the same report.

use camino::Utf8Path;
use leakcheck_tests::compare;
use leakcheck_tests::fixture::{ExpectedTest, Fixture};
use leakcheck_tests::report::{Measure, Test};
use leakcheck_tests::tool::{Run, Workshop, open_to_all};

use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("exec::system_program", system_program),
    ("exec::clean_program", clean_program),
    ("exec::leaking_program", leaking_program),
    ("exec::failing_program", failing_program),
    ("exec::below_exit", below_exit),
    ("exec::stripped_program", stripped_program),
    ("exec::daemon_is_ended", daemon_is_ended),
    ("exec::killed_as_a_thread_ends", killed_as_a_thread_ends),
    ("exec::reused_stack", reused_stack),
    ("exec::own_stack", own_stack),
    ("exec::missing_program", missing_program),
    ("exec::plain_clone", plain_clone),
    ("exec::leaves_its_group", leaves_its_group),
    ("exec::kept_by_unusual_memory", kept_by_unusual_memory),
    ("exec::output_passes", output_passes),
];

/// Descendants are left alone, or traced.
const FOLLOWS: [&str; 2] = ["--color=never", "--follow-children"];

/// Runs a program, with the report on a file of its own.
pub fn exec(workshop: &Workshop, program: &[&str]) -> Result<(Run, Test), String> {
    exec_with(workshop, &[], program)
}

/// The same, with more options for the tool.
pub fn exec_with(workshop: &Workshop, options: &[&str], program: &[&str]) -> Result<(Run, Test), String> {
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let path = Utf8Path::from_path(folder.path()).ok_or("the temporary folder has no readable name")?;
    open_to_all(path)?;
    let json = path.join("report.json").into_string();
    let mut args = vec!["exec", "--json", &json];
    args.extend(options);
    args.push("--");
    args.extend(program);
    let run = workshop.run(&args, &[])?;
    let report =
        documents::json(json.as_str().into()).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    match <[Test; 1]>::try_from(report.tests) {
        Ok([test]) => Ok((run, test)),
        Err(tests) => Err(format!("{} tests in the report of one program\n{}", tests.len(), run.describe())),
    }
}

fn compared(expected: &ExpectedTest, code: i32, (run, test): &(Run, Test)) -> Outcome {
    let differences = compare::test(expected, test);
    match differences.is_empty() {
        true => run.expect(code, &[]),
        false => Err(format!("{differences}\n{}", run.describe())),
    }
}

/// Its C library buffers may be reachable, but nothing is lost.
fn system_program(workshop: &Workshop) -> Outcome {
    let (run, test) = exec(workshop, &["/bin/true"])?;
    if test.name != "true" || test.verdict != "clean" {
        return Err(format!("{test:?}\n{}", run.describe()));
    }
    run.expect(0, &[])
}

fn clean_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("clean", &[])?;
    compared(&ExpectedTest::default(), 0, &exec(workshop, &[program.as_str()])?)
}

fn expected_leaks(workshop: &Workshop) -> Result<ExpectedTest, String> {
    Fixture::read_program(&workshop.fixtures().join("programs/leak.c"))
}

fn leaking_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    compared(&expected_leaks(workshop)?, 2, &exec(workshop, &[program.as_str()])?)
}

/// Arguments reach the program; a failed program's leaks are shown, but do not count.
fn failing_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    let expected = ExpectedTest { outcome: Some("failed".into()), ..expected_leaks(workshop)? };
    compared(&expected, 1, &exec(workshop, &[program.as_str(), "3", "an argument with blanks"])?)
}

/// The stack below the call of `exit` is nobody's, whatever a handler has left there.
fn below_exit(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("below_exit", &[])?;
    let expected = Fixture::read_program(&workshop.fixtures().join("programs/below_exit.c"))?;
    compared(&expected, 2, &exec(workshop, &[program.as_str()])?)
}

/// Without symbols the sizes are as sure as with; places are not guessed.
fn stripped_program(workshop: &Workshop) -> Outcome {
    std::fs::copy(
        workshop.fixtures().join("programs/leak.c"),
        workshop.fixtures().join("programs/stripped.c"),
    )
    .map_err(|problem| problem.to_string())?;
    let program = workshop.compile("stripped", &["-s"])?;
    let (run, test) = exec(workshop, &[program.as_str()])?;
    let lines =
        test.findings.iter().filter(|finding| finding.site.as_ref().is_some_and(|site| site.line.is_some()));
    if test.definitely_lost != (Measure { bytes: 1100, blocks: 2 }) || lines.count() > 0 {
        return Err(format!("{test:?}\n{}", run.describe()));
    }
    run.expect(2, &[])
}

/// What leaves the process group and the session of a test is ended with the run.
fn daemon_is_ended(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("daemon", &[])?;
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let folder = Utf8Path::from_path(folder.path()).ok_or("the temporary folder has no readable name")?;
    open_to_all(folder)?;
    let file = folder.join("daemon.pid");
    for option in FOLLOWS {
        let arguments = ["exec", option, "--", program.as_str(), file.as_str()];
        workshop.run(&arguments, &[])?.expect(0, &[])?;
        let pid = std::fs::read_to_string(&file).map_err(|problem| format!("{file}: {problem}"))?;
        if std::path::Path::new(&format!("/proc/{}", pid.trim())).exists() {
            return Err(format!("{option}: process {pid} is still there"));
        }
    }
    Ok(())
}

/// Processes that are no threads are let go, whichever of the two reports comes first.
fn plain_clone(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("plain_clone", &[])?;
    FOLLOWS.into_iter().try_for_each(|option| {
        workshop.run(&["exec", option, "--timeout", "20", "--", program.as_str()], &[])?.expect(0, &[])
    })
}

/// The time is up for the process itself, not only for the group that it had.
fn leaves_its_group(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leaves_group", &[])?;
    FOLLOWS.into_iter().try_for_each(|option| {
        workshop
            .run(&["exec", option, "--timeout", "1", "--", program.as_str()], &[])?
            .expect(1, &["TIMEOUT"])
    })
}

fn kept_by_unusual_memory(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("kept", &[])?;
    let places = [("reused", 1), ("handler", 2), ("data", 1), ("none", 1), ("block", 2)];
    for (place, blocks) in places {
        let (run, test) = exec(workshop, &[program.as_str(), place])?;
        run.expect(0, &[])?;
        if test.still_reachable.blocks != blocks {
            return Err(format!("{place}: {test:?}\n{}", run.describe()));
        }
    }
    Ok(())
}

/// Whether the thread's end is seen before the kill, with it, or not at all is a matter of time.
fn killed_as_a_thread_ends(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("killed", &["-pthread"])?;
    let expected = Fixture::read_program(&workshop.fixtures().join("programs/killed.c"))?;
    let expected = ExpectedTest { outcome: Some("signalled".into()), ..expected };
    (0..20).try_for_each(|_| compared(&expected, 1, &exec(workshop, &[program.as_str()])?))
}

/// A thread's stack has been another's.
fn reused_stack(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("reused_stack", &["-pthread"])?;
    let expected = Fixture::read_program(&workshop.fixtures().join("programs/reused_stack.c"))?;
    compared(&expected, 2, &exec(workshop, &[program.as_str()])?)
}

/// A stack that is the program's own memory keeps what the program has put there.
fn own_stack(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("own_stack", &["-pthread"])?;
    let expected = Fixture::read_program(&workshop.fixtures().join("programs/own_stack.c"))?;
    compared(&expected, 0, &exec(workshop, &[program.as_str()])?)
}

fn missing_program(workshop: &Workshop) -> Outcome {
    workshop.run(&["exec", "--", "/nonexistent/program"], &[])?.expect(11, &["/nonexistent/program"])?;
    workshop.run(&["exec"], &[])?.expect(11, &["PROGRAM"])
}

/// The program's output is its user's; the JSON report can go to standard output of `cargo leakcheck` only
/// where nothing else does.
fn output_passes(workshop: &Workshop) -> Outcome {
    let run = workshop.run(&["exec", "--json", "-", "--", "/bin/true"], &[])?;
    documents::json_text(&run.stdout).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    let run = workshop.run(&["exec", "--", "/bin/echo", "hello from the program"], &[])?;
    match run.stdout.contains("hello from the program") || run.stderr.contains("hello from the program") {
        true => run.expect(0, &[]),
        false => Err(format!("the program's output is missing\n{}", run.describe())),
    }
}
