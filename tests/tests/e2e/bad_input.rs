//! Bad input ends in a message that says what to do, and in the exit code of the table.

use fs_err as fs;
use leakcheck_tests::tool::Workshop;
use serde_json::Value;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("bad_input::unknown_option", unknown_option),
    ("bad_input::unknown_package", unknown_package),
    ("bad_input::missing_manifest", missing_manifest),
    ("bad_input::unwritable_reports", unwritable_reports),
    ("bad_input::bad_values", bad_values),
    ("bad_input::nothing_matches", nothing_matches),
    ("bad_input::build_fails", build_fails),
    ("bad_input::table_too_small", table_too_small),
];

fn unknown_option(workshop: &Workshop) -> Outcome {
    workshop.run(&["--no-such-option"], &[])?.expect(11, &["--no-such-option"])
}

fn unknown_package(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let run = workshop.run(&["--manifest-path", manifest.as_str(), "-p", "no-such-package"], &[])?;
    run.expect(if run.code == 11 { 11 } else { 12 }, &["no-such-package"])
}

fn missing_manifest(workshop: &Workshop) -> Outcome {
    let run = workshop.run(&["--manifest-path", "/nonexistent/Cargo.toml"], &[])?;
    run.expect(if run.code == 11 { 11 } else { 12 }, &["/nonexistent/Cargo.toml"])
}

/// Reports are opened before the build: nothing may have been built.
fn unwritable_reports(workshop: &Workshop) -> Outcome {
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.path().join("never-built");
    for option in ["--json", "--junit"] {
        for path in ["/nonexistent/folder/report", workshop.path().as_str()] {
            let args = [
                "--manifest-path",
                manifest.as_str(),
                "-p",
                "clean",
                "--target-dir",
                target.as_str(),
                option,
                path,
            ];
            workshop.run(&args, &[])?.expect(11, &[path])?;
            if target.exists() {
                return Err(format!("{option} {path}: something was built"));
            }
        }
    }
    Ok(())
}

fn bad_values(workshop: &Workshop) -> Outcome {
    for (option, value) in [("-j", "0"), ("-j", "many"), ("--timeout", "soon"), ("--max-blocks", "-1")] {
        workshop
            .run(&[&format!("{option}{}{value}", if option == "-j" { "" } else { "=" })], &[])?
            .expect(11, &[value])?;
    }
    Ok(())
}

fn nothing_matches(workshop: &Workshop) -> Outcome {
    let (run, report) = Desk::new(workshop, "clean")?.run(workshop, &["no_such_test"], &[])?;
    run.expect(4, &[])?;
    if report.tests.is_empty() { Ok(()) } else { Err("the report has tests".into()) }
}

fn build_fails(workshop: &Workshop) -> Outcome {
    let folder = workshop.path().join("broken");
    let failed = |problem: std::io::Error| problem.to_string();
    fs::create_dir_all(folder.join("src")).map_err(failed)?;
    fs::write(folder.join("Cargo.toml"), "[package]\nname = \"broken\"\nedition = \"2024\"\n[workspace]\n")
        .map_err(failed)?;
    fs::write(folder.join("src/lib.rs"), "compile_error!(\"broken on purpose\");\n").map_err(failed)?;
    let (manifest, json, junit) =
        (folder.join("Cargo.toml"), folder.join("report.json"), folder.join("junit.xml"));
    let reports = ["--json", json.as_str(), "--junit", junit.as_str(), "--message-format", "json"];
    let run = workshop.run(&[&["--manifest-path", manifest.as_str()], &reports[..]].concat(), &[])?;
    run.expect(12, &["broken on purpose", "src/lib.rs:1"])?;
    // Reports say it, for whoever looks at them alone.
    let report = documents::json(&json)?;
    documents::junit(&junit, &report)?;
    let xml = fs::read_to_string(&junit).map_err(failed)?;
    let whole: Value = serde_json::from_str(&fs::read_to_string(&json).map_err(failed)?)
        .map_err(|problem| problem.to_string())?;
    let event: Value =
        serde_json::from_str(&run.stdout).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    let says = |document: &Value| {
        let reason = document["not_checked"][0]["reason"].as_str().unwrap_or_default();
        document["exit_code"] == 12
            && reason.starts_with("the build failed: `")
            && reason.contains(" cargo test ")
    };
    if !says(&whole) || !says(&event) || event["event"] != "run-finished" {
        return Err(format!("{whole}\n{event}"));
    }
    if !xml.contains("<error") || !xml.contains("the build failed") {
        return Err(xml);
    }
    // And so does what partitions come to, of which it is one.
    workshop.run(&["report", "merge", json.as_str()], &[])?.expect(12, &["the build failed"])
}

/// Blocks that find no room make the verdict incomplete, with the option that helps.
fn table_too_small(workshop: &Workshop) -> Outcome {
    let args = [
        "--recorder",
        "uprobe",
        "--max-blocks",
        "4096",
        "--",
        "alive_at_once_and_freed",
        "--exact",
        "--ignored",
    ];
    let (run, report) = Desk::new(workshop, "million")?.run(workshop, &args, &[])?;
    run.expect(10, &[])?;
    match &report.tests[..] {
        [test]
            if test.verdict == "incomplete"
                && test.bad_frees == 0
                && format!("{:?}", test.losses).contains("--max-blocks") =>
        {
            Ok(())
        }
        tests => Err(format!("one incomplete test without bad frees was expected\n{tests:?}")),
    }
}
