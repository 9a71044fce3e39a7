//! One workspace, by every way of running it: the same tests fail each time. `LEAKCHECK_E2E_WAYS=all` runs all of it by
//! all of them, with one and with 16 jobs and on a machine that has no time; otherwise nextest, whose every test sets up tracing for
//! itself, has some of the tests.

mod workspace;

use std::collections::BTreeSet;
use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use camino::Utf8PathBuf;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop};

use crate::fixtures::Desk;
use crate::runner::{bad, failed};
use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("suite::itself", |workshop| each(workshop, "itself", itself)),
    ("suite::parts", |workshop| each(workshop, "parts", parts)),
    ("suite::cargo_test", |workshop| each(workshop, "cargo test", cargo_test)),
    ("suite::nextest", |workshop| each(workshop, "nextest", nextest)),
    ("suite::nextest_in_parts", |workshop| each(workshop, "nextest in parts", nextest_in_parts)),
    ("suite::nextest_runner", |workshop| each(workshop, "nextest with a runner", nextest_runner)),
    ("suite::nextest_wrapper_script", |workshop| each(workshop, "nextest with a script", nextest_script)),
];

/// All tests that run by default, without the program that is one.
const TESTS: usize = 500;

/// What nextest runs unless it is to run all: those that leak and some that do not.
const SOME: &str = "test(/planted/) | test(/^panics$/) | test(/^test_.77$/)";

/// Those that do not leak: one `panics` in each of the eight targets with libtest, and of 480 with numbers each hundred's 77th.
const SOME_CLEAN: usize = 8 + 5;

/// A run.
struct Way<'a> {
    workshop: &'a Workshop,
    desk: Desk,
    root: Utf8PathBuf,
    jobs: String,
    all: bool,
}

/// The report of a run, and what nextest calls failed, where it has said so.
type Found = Result<(Run, Report, Option<BTreeSet<String>>), String>;

/// Runs it with each number of jobs, in parallel with others and not.
fn each(workshop: &Workshop, name: &str, run: fn(&Way<'_>) -> Found) -> Outcome {
    let all = env::var("LEAKCHECK_E2E_WAYS").is_ok_and(|ways| ways == "all");
    let settings: &[(u32, bool)] = if all { &[(1, false), (16, false), (4, true)] } else { &[(16, false)] };
    for &(jobs, busy) in settings {
        let desk = Desk::new(workshop, "")?;
        let root = written(workshop)?;
        let way = Way { workshop, desk, root, jobs: jobs.to_string(), all };
        let _busy = if busy { Busy::all()? } else { Busy(Vec::new()) };
        let start = Instant::now();
        let failed = |problem| format!("{name}, {jobs} jobs, busy: {busy}:\n{problem}");
        let tests = way.check(name, run).map_err(failed)?;
        if all {
            let seconds = start.elapsed().as_secs_f64();
            println!("{name}: {tests} tests, {jobs} jobs, busy: {busy}, {seconds:.1} s");
        }
    }
    Ok(())
}

/// Where the workspace is; it is written once, and so built once.
fn written(workshop: &Workshop) -> Result<Utf8PathBuf, String> {
    static WRITTEN: OnceLock<Result<(), String>> = OnceLock::new();
    let (root, lock) = (workshop.path().join("suite"), workshop.fixtures().join("Cargo.lock"));
    let write = || workspace::write(&root, &lock).map_err(|problem| problem.to_string());
    WRITTEN.get_or_init(write).clone().map(|()| root)
}

/// Processes that take all the time that they get.
struct Busy(Vec<Child>);

impl Busy {
    /// One for each processor.
    fn all() -> Result<Self, String> {
        let number = std::thread::available_parallelism().map_err(|problem| problem.to_string())?.get();
        let start = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let started: Result<Vec<_>, _> = (0..number).map(start).collect();
        started.map(Self).map_err(|problem| problem.to_string())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Way<'_> {
    /// The number of tests, if those fail that have to.
    fn check(&self, name: &str, run: fn(&Self) -> Found) -> Result<usize, String> {
        let (run, report, said) = run(self)?;
        let planted: BTreeSet<_> =
            workspace::PLANTED.iter().map(|(binary, test, _)| format!("{binary} {test}")).collect();
        for (who, found) in [("the report", Some(bad(&report))), ("nextest", said)] {
            if let Some(found) = found.filter(|found| *found != planted) {
                let (missing, besides) = (&planted - &found, &found - &planted);
                let sets = format!("{who} lacks {missing:?} and has {besides:?} besides");
                return Err(format!("{sets}\n{}", run.describe()));
            }
        }
        let is_unit = |test: &leakcheck_tests::report::Test| test.binary == workspace::UNIT;
        let (units, tests) = report.tests.iter().partition::<Vec<_>, _>(|test| is_unit(test));
        let nextest = name.starts_with("nextest");
        let expected = if nextest && !self.all { 12 + SOME_CLEAN } else { TESTS };
        if tests.len() != expected || units.len() != usize::from(!nextest) {
            let numbers = format!("{} tests and {} units", tests.len(), units.len());
            return Err(format!("{numbers} instead of {expected} tests\n{}", run.describe()));
        }
        let left = processes::end_those_with("31557600.125", &self.desk.file("tmp"));
        if left.is_empty() { Ok(tests.len()) } else { Err(left) }
    }

    fn command(&self, args: &[&str]) -> Result<Run, String> {
        self.finish(self.workshop.command(args)?)
    }

    /// A shell that has the variables of `show-env`, whose processes leave their results in one directory; what
    /// `report merge` makes of them.
    fn shell(&self, script: &str) -> Result<(Run, Report), String> {
        let results = self.desk.file("results");
        fs_err::create_dir(&results).map_err(|problem| problem.to_string())?;
        let tool = self.workshop.tool()?;
        let script = format!(
            "variables=$({tool} leakcheck show-env --export-prefix) && eval \"$variables\" && {script}"
        );
        let mut command = self.workshop.outside("sh");
        command.args(["-c", &script]).env("LEAKCHECK_RESULTS", &results);
        let run = self.finish(command)?;
        let files = results.read_dir_utf8().map_err(|problem| problem.to_string())?.flatten();
        let paths: Vec<_> = files.map(|file| file.path().to_string()).collect();
        let report = self.merge(&paths).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        Ok((run, report.1))
    }

    fn finish(&self, mut command: Command) -> Result<Run, String> {
        command.current_dir(&self.root).stdin(Stdio::null()).env("TMPDIR", self.desk.file("tmp"));
        command.env("CARGO_TARGET_DIR", self.workshop.target_dir().join("suite"));
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        Ok(Run::new(format!("{command:?}"), output))
    }

    fn merge(&self, reports: &[String]) -> Result<(Run, Report), String> {
        let json = self.desk.file("merged.json");
        let fixed = ["report", "merge", "--json", json.as_str()];
        let paths: Vec<&str> = reports.iter().map(String::as_str).collect();
        let run = self.command(&[&fixed[..], &paths].concat())?;
        run.expect(2, &["summary"])?;
        Ok((run, documents::json(&json)?))
    }

    /// Each third of the tests, and what they come to together.
    fn thirds(&self, way: &str, args: impl Fn(&str, &str) -> Vec<String>) -> Result<(Run, Report), String> {
        let mut reports = Vec::new();
        for number in 1..=3 {
            let (part, json) = (format!("{way}:{number}/3"), self.desk.file(&format!("{number}.json")));
            let args = args(&part, json.as_str());
            let run = self.command(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
            run.expect(2, &["summary"])?;
            reports.push(json.to_string());
        }
        self.merge(&reports)
    }

    /// nextest's arguments for its own part.
    fn nextest_run(&self) -> Vec<&str> {
        let fixed = ["run", "--no-fail-fast", "--color=never", "--status-level=none", "-j", &self.jobs];
        let shown = ["--final-status-level=fail", "--failure-output=immediate", "--show-progress=none"];
        let some: &[&str] = if self.all { &[] } else { &["-E", SOME] };
        [&fixed[..], &shown, some].concat()
    }
}

fn itself(way: &Way<'_>) -> Found {
    let json = way.desk.file("report.json");
    let run = way.command(&["--json", json.as_str(), "-j", &way.jobs])?;
    run.expect(2, &["summary"])?;
    Ok((run, documents::json(&json)?, None))
}

fn parts(way: &Way<'_>) -> Found {
    let args = |part: &str, json: &str| {
        ["--json", json, "-j", &way.jobs, "--partition", part].map(str::to_owned).to_vec()
    };
    let (run, report) = way.thirds("slice", args)?;
    Ok((run, report, None))
}

fn cargo_test(way: &Way<'_>) -> Found {
    let script = format!("exec cargo test --no-fail-fast -- --test-threads {}", way.jobs);
    let (run, report) = way.shell(&script)?;
    run.expect(101, &[])?;
    Ok((run, report, None))
}

fn nextest(way: &Way<'_>) -> Found {
    let json = way.desk.file("report.json");
    let run = way.command(&[&["nextest", "--json", json.as_str()], &way.nextest_run()[..]].concat())?;
    run.expect(2, &["summary"])?;
    let said = failed(&run);
    Ok((run, documents::json(&json)?, Some(said)))
}

fn nextest_in_parts(way: &Way<'_>) -> Found {
    let args = |part: &str, json: &str| {
        let before = ["nextest", "--json", json];
        let all = [&before[..], &way.nextest_run(), &["--partition", part]].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let (run, report) = way.thirds("hash", args)?;
    Ok((run, report, None))
}

fn nextest_runner(way: &Way<'_>) -> Found {
    plain_nextest(way, "", "")
}

/// The script instead of the runner.
fn nextest_script(way: &Way<'_>) -> Found {
    let config = way.desk.file("nextest.toml");
    let tool = way.workshop.tool()?;
    let text = format!(
        "experimental = ['wrapper-scripts']\n[scripts.wrapper.leakcheck]\ncommand = '{tool} exec --runner --'\n\
         [[profile.default.scripts]]\nfilter = 'all()'\nrun-wrapper = 'leakcheck'\n"
    );
    fs_err::write(&config, text).map_err(|problem| problem.to_string())?;
    let before = "unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER && ";
    plain_nextest(way, before, &format!("--config-file {config}"))
}

fn plain_nextest(way: &Way<'_>, before: &str, options: &str) -> Found {
    let quoted: Vec<_> = way.nextest_run().iter().map(|word| format!("'{word}'")).collect();
    let (run, report) = way.shell(&format!("{before}exec cargo nextest {} {options}", quoted.join(" ")))?;
    run.expect(100, &[])?;
    let said = failed(&run);
    Ok((run, report, Some(said)))
}
