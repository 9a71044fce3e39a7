//! `exec` as the runner of cargo and nextest: what it leaves alone, and the same tests fail as by the tool itself.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("runner::listing_is_untouched", listing_is_untouched),
    ("runner::no_tests_are_no_failure", no_tests_are_no_failure),
    ("runner::other_programs_are_untouched", other_programs_are_untouched),
    ("runner::signals_are_handed_on", signals_are_handed_on),
    ("runner::signals_reach_the_second_run", signals_reach_the_second_run),
    ("runner::nextest", nextest),
    ("runner::nextest_wrapper_script", nextest_wrapper_script),
    ("runner::cargo_test", cargo_test),
];

/// Crates with tests that leak, fail, end in other ways, have budgets, and are not libtest's; of the last, the
/// target that nextest can list.
const PACKAGES: [(&str, &[&str]); 4] =
    [("budgets", &[]), ("custom-harness", &["--test=mimic"]), ("endings", &[]), ("ignored", &[])];

/// The variables that make cargo and nextest start tests by the tool, and keep frame pointers.
pub fn variables(workshop: &Workshop) -> Result<[(&'static str, String); 2], String> {
    Ok([
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", format!("{} exec --runner --", workshop.tool()?)),
        ("RUSTFLAGS", "-Cforce-frame-pointers=yes -Cdebuginfo=1".to_owned()),
    ])
}

fn cargo(workshop: &Workshop, args: &[&str]) -> Result<Run, String> {
    let variables = variables(workshop)?;
    workshop.cargo(args, &variables.each_ref().map(|(name, value)| (*name, value.as_str())))
}

/// The tests that make a run of the tool fail, as `binary name`.
pub fn bad(report: &Report) -> BTreeSet<String> {
    let is_bad = |test: &&leakcheck_tests::report::Test| {
        test.counts && matches!(test.verdict.as_str(), "leaks" | "incomplete") || test.outcome != "passed"
    };
    report.tests.iter().filter(is_bad).map(|test| format!("{} {}", test.binary, test.name)).collect()
}

/// The tests that nextest calls failed, as `binary name`, by the lines behind its summary:
/// `FAIL [   0.012s] (1/2) binary name`, or without the number.
pub fn failed(run: &Run) -> BTreeSet<String> {
    let lines = run.stderr.lines().skip_while(|line| !line.contains("Summary ["));
    let failing = lines.filter(|line| line.trim_start().starts_with("FAIL ["));
    let name = |line: &str| {
        let rest = line.split_once("s] ")?.1;
        Some(
            rest.strip_prefix('(')
                .and_then(|rest| rest.split_once(") "))
                .map_or(rest, |(_, name)| name)
                .to_owned(),
        )
    };
    failing.filter_map(name).collect()
}

/// A test binary of a fixture, as cargo has built it.
fn binary(workshop: &Workshop, package: &str) -> Result<String, String> {
    let args = ["test", "--no-run", "-p", package, "--lib", "--message-format=json"];
    let run = cargo(workshop, &args)?;
    let found = run.stdout.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(message.get("executable")?.as_str()?.to_owned())
    });
    found.ok_or_else(|| format!("nothing was built\n{}", run.describe()))
}

fn output(program: &[&str], input: &str) -> Result<Output, String> {
    let failed = |problem: std::io::Error| format!("{program:?}: {problem}");
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).map_err(failed)?;
    child.wait_with_output().map_err(failed)
}

/// Runs a program by itself and by the runner; both must come to the same, byte for byte.
fn same(workshop: &Workshop, program: &[&str], input: &str) -> Outcome {
    let plain = output(program, input)?;
    let runner = [workshop.tool()?.as_str(), "exec", "--runner", "--"];
    let through = output(&[&runner[..], program].concat(), input)?;
    let same = plain.stdout == through.stdout && plain.stderr == through.stderr;
    match same && plain.status == through.status && !plain.stdout.is_empty() {
        true => Ok(()),
        false => Err(format!("{program:?}: {plain:?} by itself, {through:?} by the runner")),
    }
}

fn listing_is_untouched(workshop: &Workshop) -> Outcome {
    let binary = binary(workshop, "ignored")?;
    for arguments in [&["--list", "--format", "terse"][..], &["--list", "--ignored"], &["--help"]] {
        same(workshop, &[&[binary.as_str()], arguments].concat(), "")?;
    }
    Ok(())
}

/// Cargo starts the runner for every binary, also with options of its configuration's.
fn no_tests_are_no_failure(workshop: &Workshop) -> Outcome {
    let binary = binary(workshop, "custom-harness")?;
    for options in [&[][..], &["--retries", "2"]] {
        let args = [&["exec", "--runner"], options, &["--", &binary]].concat();
        workshop.run(&args, &[])?.expect(0, &[])?;
    }
    Ok(())
}

fn other_programs_are_untouched(workshop: &Workshop) -> Outcome {
    same(workshop, &["/bin/sh", "-c", "cat; echo to standard error >&2; exit 3"], "to\u{fe}\0 be read\n")?;
    same(workshop, &["/bin/sh", "-c", "echo before; kill -TERM $$"], "")
}

/// A program that is asked to end may do so in its own time, and is looked at as ever.
fn signals_are_handed_on(workshop: &Workshop) -> Outcome {
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let mut command = workshop.command(&["exec", "--", "/bin/sh", "-c", script])?;
    let log = workshop.path().join("handed-on.log");
    let file = fs_err::File::create(&log).map_err(|problem| problem.to_string())?;
    let mut tool =
        command.stdout(file.into_file()).stderr(Stdio::null()).spawn().map_err(|it| it.to_string())?;
    let said = |word: &str| fs_err::read_to_string(&log).is_ok_and(|text| text.contains(word));
    let limit = Duration::from_secs(20);
    let ready = processes::wait_for("the program", limit, || said("ready"));
    let sent = kill(Pid::from_raw(tool.id().cast_signed()), Signal::SIGTERM);
    let ended = processes::wait_for("the tool's end", limit, || matches!(tool.try_wait(), Ok(Some(_))));
    if ended.is_err() {
        let _ = tool.kill();
    }
    let status = tool.wait().map_err(|problem| problem.to_string())?;
    ready.and(ended)?;
    match said("asked") && status.code() == Some(0) && sent.is_ok() {
        true => Ok(()),
        false => Err(format!("{status}, {sent:?}, {:?}", fs_err::read_to_string(&log))),
    }
}

/// A single test that has its streams gets the tool's signals, in both of its runs.
fn signals_reach_the_second_run(workshop: &Workshop) -> Outcome {
    let binary = binary(workshop, "descriptors")?;
    for signal in [Signal::SIGUSR1, Signal::SIGQUIT] {
        let desk = Desk::new(workshop, "descriptors")?;
        let test = [binary.as_str(), "waits_for_its_first_run", "--exact", "--nocapture"];
        let mut command = workshop.command(&[&["exec", "--runner", "--"][..], &test].concat())?;
        command.env("LEAKCHECK_FIXTURE_LOCK", desk.file(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let tool = command.spawn().map_err(|problem| format!("{command:?}: {problem}"))?;
        let waits = || desk.file("waits").exists();
        let waiting = processes::wait_for("the second run", Duration::from_secs(120), waits);
        // It has ended by itself if this fails.
        let _ = kill(Pid::from_raw(tool.id().cast_signed()), signal);
        let output = tool.wait_with_output().map_err(|problem| problem.to_string())?;
        let run = Run::new(format!("{command:?}"), output);
        waiting.map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        run.expect(2, &["1 descriptor left open (budget 0)", "opened at: not seen"])?;
        if !desk.file("asked").exists() {
            return Err(format!("{signal} has not reached it\n{}", run.describe()));
        }
    }
    Ok(())
}

/// Arguments for `cargo nextest run` on a package, whose summary names each test that failed.
pub fn nextest_run<'a>(package: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["nextest", "run", "-p", package, "--no-fail-fast", "--color=never", "--status-level=none"];
    let output = ["--final-status-level=fail", "--failure-output=immediate", "--show-progress=none"];
    [&fixed[..], &output, more].concat()
}

fn same_failures(workshop: &Workshop, package: &str, more: &[&str]) -> Outcome {
    let (tools, report) = Desk::new(workshop, package)?.run(workshop, more, &[])?;
    let run = cargo(workshop, &nextest_run(package, more))?;
    let (expected, found) = (bad(&report), failed(&run));
    if expected != found {
        let (missing, more) = (&expected - &found, &found - &expected);
        let runs = format!("{}\n{}", run.describe(), tools.describe());
        return Err(format!("{package}: nextest lacks {missing:?} and has {more:?} besides\n{runs}"));
    }
    let code = if expected.is_empty() { 0 } else { 100 };
    run.expect(code, &[])
}

/// nextest calls the tests failed that the tool does, and shows why.
fn nextest(workshop: &Workshop) -> Outcome {
    for (package, target) in PACKAGES {
        same_failures(workshop, package, target)?;
    }
    let run = cargo(workshop, &nextest_run("ignored", &["--run-ignored=all"]))?;
    if failed(&run) != BTreeSet::from(["ignored leaks".to_owned()]) {
        return Err(run.describe());
    }
    let shown = ["--no-capture", "-E", "test(=passes_and_leaks)"];
    let run = cargo(workshop, &nextest_run("endings", &shown))?;
    run.expect(100, &["700 b definitely lost in 1 block (budget 0 b)", "endings/src/lib.rs:"])
}

/// The same by a script that nextest wraps around tests.
fn nextest_wrapper_script(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "budgets")?;
    let config = desk.file("nextest.toml");
    let tool = workshop.tool()?;
    let text = format!(
        "experimental = ['wrapper-scripts']\n[scripts.wrapper.leakcheck]\ncommand = '{tool} exec --runner --'\n\
         [[profile.default.scripts]]\nfilter = 'all()'\nrun-wrapper = 'leakcheck'\n"
    );
    fs_err::write(&config, text).map_err(|problem| problem.to_string())?;
    let (_, report) = desk.run(workshop, &[], &[])?;
    let args = nextest_run("budgets", &["--config-file", config.as_str()]);
    let run = workshop.cargo(&args, &[("RUSTFLAGS", "-Cforce-frame-pointers=yes -Cdebuginfo=1")])?;
    let (expected, found) = (bad(&report), failed(&run));
    match expected == found && !expected.is_empty() {
        true => run.expect(100, &[]),
        false => Err(format!("{found:?} instead of {expected:?}\n{}", run.describe())),
    }
}

/// Each binary runs its tests in processes of their own; filters that match nothing in it are no failure.
fn cargo_test(workshop: &Workshop) -> Outcome {
    let run = cargo(workshop, &["test", "-p", "custom-harness", "--tests", "--no-fail-fast"])?;
    run.expect(101, &["custom-harness::mimic leaks", "leak"])?;
    let run = cargo(workshop, &["test", "-p", "endings", "--lib", "--", "--exact", "passes_and_leaks"])?;
    run.expect(2, &["700 B definitely lost in 1 block (budget 0 B)", "1 test run: 0 clean, 1 leaking"])?;
    cargo(workshop, &["test", "-p", "endings", "--lib", "no test has this name"])?.expect(0, &["0 tests"])
}
