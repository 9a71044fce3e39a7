//! Which tests run, and what counts.

use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("selection::names", names),
    ("selection::ignored", ignored),
    ("selection::targets", targets),
    ("selection::list", list),
    ("selection::json_to_stdout", json_to_stdout),
    ("counts::outstanding", outstanding),
    ("counts::failed", failed),
    ("counts::should_panic", should_panic),
    ("counts::bad_frees", bad_frees),
];

/// Runs a crate and compares the names of the tests that ran, and the exit code.
fn ran(workshop: &Workshop, package: &str, args: &[&str], names: &[&str], code: i32) -> Outcome {
    let (run, report) = Desk::new(workshop, package)?.run(workshop, args, &[])?;
    let mut found: Vec<&str> = report.tests.iter().map(|test| test.name.as_str()).collect();
    found.sort_unstable();
    if found != names {
        return Err(format!("{args:?} ran {found:?} instead of {names:?}\n{}", run.describe()));
    }
    run.expect(code, &[])
}

fn names(workshop: &Workshop) -> Outcome {
    let nested = ["nested::in_a_closure", "nested::in_generic_code"];
    ran(workshop, "forget", &["nested::"], &nested, 2)?;
    ran(workshop, "forget", &["closure", "in_generic"], &nested, 2)?;
    ran(workshop, "forget", &["--", "nested::", "--skip", "generic"], &nested[..1], 2)?;
    ran(workshop, "forget", &["--", "leaks_nothing", "--exact"], &["leaks_nothing"], 0)?;
    ran(workshop, "forget", &["--", "leaks_noth", "--exact"], &[], 4)
}

fn ignored(workshop: &Workshop) -> Outcome {
    ran(workshop, "ignored", &[], &["clean"], 0)?;
    ran(workshop, "ignored", &["--run-ignored", "default"], &["clean"], 0)?;
    ran(workshop, "ignored", &["--run-ignored", "only"], &["leaks"], 2)?;
    ran(workshop, "ignored", &["--run-ignored", "all"], &["clean", "leaks"], 2)?;
    ran(workshop, "ignored", &["--", "--ignored"], &["leaks"], 2)?;
    ran(workshop, "ignored", &["--", "--include-ignored"], &["clean", "leaks"], 2)
}

fn targets(workshop: &Workshop) -> Outcome {
    ran(workshop, "custom-harness", &["--test", "custom"], &["custom"], 2)?;
    ran(workshop, "custom-harness", &["--test", "mimic"], &["clean", "leaks", "name with spaces"], 2)?;
    ran(workshop, "custom-harness", &["--lib"], &[], 4)
}

/// `list` names every test that would run, and runs none.
fn list(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let args =
        ["list", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "endings"];
    let run = workshop.run(&args, &[])?;
    run.expect(0, &[])?;
    let fixture = Fixture::read(&workshop.fixtures().join("endings"))?;
    match fixture.tests.keys().find(|(_, name)| !run.stdout.contains(name.as_str())) {
        Some((_, name)) => Err(format!("{name} is not listed\n{}", run.describe())),
        None => Ok(()),
    }
}

fn json_to_stdout(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    let args =
        ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "clean", "--json", "-"];
    let run = workshop.run(&args, &[])?;
    documents::json_text(&run.stdout).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    run.expect(0, &[])
}

fn outstanding(workshop: &Workshop) -> Outcome {
    ran(workshop, "statics", &["once_lock"], &["once_lock"], 0)?;
    ran(workshop, "statics", &["once_lock", "--count", "outstanding"], &["once_lock"], 2)?;
    // Also beside limits, which are for what counts.
    for (limit, code) in [("blocks = 0", 2), ("blocks = 1", 0), ("reachable-bytes = '1 MiB'", 0)] {
        let file = workshop.path().join("outstanding.toml");
        fs_err::write(&file, format!("[profile.default]\n{limit}\n"))
            .map_err(|problem| problem.to_string())?;
        let args = ["once_lock", "--count", "outstanding", "--config-file", file.as_str()];
        ran(workshop, "statics", &args, &["once_lock"], code)?;
    }
    Ok(())
}

fn failed(workshop: &Workshop) -> Outcome {
    let name = "panics_and_leaks";
    let only = ["--", name, "--exact"];
    ran(workshop, "endings", &only, &[name], 1)?;
    ran(workshop, "endings", &["--count-failed", only[0], only[1], only[2]], &[name], 3)
}

fn should_panic(workshop: &Workshop) -> Outcome {
    let name = "should_panic_and_leaks";
    ran(workshop, "endings", &[name], &[name], 0)?;
    ran(workshop, "endings", &["--count-should-panic", name], &[name], 2)
}

fn bad_frees(workshop: &Workshop) -> Outcome {
    let name = "unknown_free_that_passes";
    ran(workshop, "bad-free", &[name], &[name], 0)?;
    ran(workshop, "bad-free", &["--deny-bad-frees", name], &[name], 2)
}
