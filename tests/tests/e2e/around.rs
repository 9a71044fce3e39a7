//! What nextest does around tests: setup scripts, profiles and groups with attempts, archives. Where it has no trial under
//! `cargo leakcheck nextest` in `nextest.rs`, by both ways; otherwise with the tool as its runner.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use fs_err as fs;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop};

use crate::fixtures::Desk;
use crate::nextest::{flaky, in_fixtures, nextest};
use crate::runner::{bad, failed, nextest_run, variables};
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("nextest::setup_script", setup_script),
    ("runner::nextest_setup_script", runner_and_setup_script),
    ("runner::nextest_profile_and_group", profile_and_group),
    ("runner::nextest_archive", archive),
];

fn failure(problem: impl std::fmt::Display) -> String {
    problem.to_string()
}

/// `cargo nextest ARGS` with the tool as runner, and what the results of all its processes come to.
fn by_runner(workshop: &Workshop, desk: &Desk, args: &[&str]) -> Result<(Run, Report), String> {
    let (results, json) = (desk.file("results"), desk.file("merged.json"));
    fs::create_dir(&results).map_err(failure)?;
    let fixed = variables(workshop)?;
    let more = [("LEAKCHECK_RESULTS", results.as_str()), ("FLAKY", desk.file("tmp").as_str())].map(own);
    let all: Vec<_> = fixed.into_iter().chain(more).collect();
    let all: Vec<_> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let run = workshop.cargo(args, &all)?;
    let files: Vec<_> = results.read_dir_utf8().map_err(failure)?.flatten().collect();
    let merge = ["report", "merge", "--json", json.as_str()];
    let merge: Vec<&str> = merge.into_iter().chain(files.iter().map(|file| file.path().as_str())).collect();
    let merged = in_fixtures(workshop, desk, &merge, &[])?;
    let report = documents::json(&json)
        .map_err(|problem| format!("{problem}\n{}\n{}", run.describe(), merged.describe()))?;
    Ok((run, report))
}

fn own<'a>((name, value): (&'a str, &str)) -> (&'a str, String) {
    (name, value.to_owned())
}

/// A configuration whose setup script hands the tests a variable, without which none of them leaks or fails. It also runs
/// tests by cargo, which are its own business; what they have written is in `log`.
fn with_script(desk: &Desk) -> Result<(), String> {
    let (script, log, counts) = (desk.file("setup.sh"), desk.file("log"), desk.file("counts"));
    fs::create_dir(&counts).map_err(failure)?;
    let text = format!(
        "#!/bin/sh\nset -e\nunset FLAKY\ncargo test -p budgets --lib -- --exact zero_and_leaks > {log} 2>&1\n\
         echo FLAKY={counts} >> \"$NEXTEST_ENV\"\n"
    );
    fs::write(&script, text).map_err(failure)?;
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).map_err(failure)?;
    let text = format!(
        "experimental = ['setup-scripts']\n[scripts.setup.prepare]\ncommand = '{script}'\n\
         [[profile.default.scripts]]\nfilter = 'all()'\nsetup = 'prepare'\n"
    );
    fs::write(desk.file("nextest.toml"), text).map_err(failure)
}

/// The variable has reached the tests, and what the script has run is in no report and no failure of it.
fn with_script_checked(desk: &Desk, run: &Run, report: &Report) -> Outcome {
    let log = fs::read_to_string(desk.file("log")).unwrap_or_default();
    let problem = |problem: String| format!("{problem}\n{log}\n{}", run.describe());
    flaky(report).map_err(problem)?;
    match log.contains("test zero_and_leaks ... ok") && !log.contains("definitely lost") {
        true => Ok(()),
        false => Err(problem("the script's own tests have not run as without the tool".to_owned())),
    }
}

fn setup_script(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    with_script(&desk)?;
    let config = desk.file("nextest.toml");
    let args = ["run", "-p", "flaky", "--config-file", config.as_str(), "--no-fail-fast", "--retries", "2"];
    let (run, report) = nextest(workshop, &desk, &args)?;
    with_script_checked(&desk, &run, &report)?;
    run.expect(2, &["leaks in 1 of 3 attempts"])
}

fn runner_and_setup_script(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    with_script(&desk)?;
    let config = desk.file("nextest.toml");
    let more = ["--config-file", config.as_str(), "--retries", "2"];
    let (run, report) = by_runner(workshop, &desk, &nextest_run("flaky", &more))?;
    with_script_checked(&desk, &run, &report)
}

/// Each attempt is a process, which has left its result; nextest itself goes by the last one.
fn profile_and_group(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "flaky")?;
    let config = desk.file("nextest.toml");
    let text = "[test-groups]\nserial = { max-threads = 1 }\n[profile.ours]\nretries = 2\n\
                [[profile.ours.overrides]]\nfilter = 'all()'\ntest-group = 'serial'\n";
    fs::write(&config, text).map_err(failure)?;
    let more = ["--profile", "ours", "--config-file", config.as_str()];
    let (run, report) = by_runner(workshop, &desk, &nextest_run("flaky", &more))?;
    flaky(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    run.expect(0, &["4 passed (3 flaky)"])
}

fn archive(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "budgets")?;
    let file = desk.file("budgets.tar.zst");
    let made = ["nextest", "archive", "-p", "budgets", "--archive-file", file.as_str()];
    let flags = variables(workshop)?;
    workshop.cargo(&made, &[(flags[1].0, &flags[1].1)])?.expect(0, &[])?;
    let run = ["nextest", "run", "--archive-file", file.as_str(), "--no-fail-fast", "--color=never"];
    let shown = ["--status-level=none", "--final-status-level=fail", "--show-progress=none"];
    let (run, report) = by_runner(workshop, &desk, &[&run[..], &shown].concat())?;
    let (_, expected) = Desk::new(workshop, "budgets")?.run(workshop, &[], &[])?;
    let expected: BTreeSet<_> = bad(&expected);
    for found in [bad(&report), failed(&run)] {
        if found != expected || found.is_empty() {
            return Err(format!("{found:?} instead of {expected:?}\n{}", run.describe()));
        }
    }
    run.expect(100, &[])
}
