//! Whose code has leaked, and what comes of it where it is not the user's.

use fs_err as fs;
use leakcheck_tests::report::{Owner, Report};
use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("owners::of_each_kind", of_each_kind),
    ("owners::reported_only", reported_only),
    ("owners::by_a_file", by_a_file),
];

/// The tests, and whose code their blocks are of.
const OWNERS: [(&str, &str, &str, Option<&str>); 5] = [
    ("own", "workspace", "owners", Some("0.2.0")),
    ("through_a_dependency", "workspace", "owners", Some("0.2.0")),
    ("of_a_dependency", "dependency", "hoarder", Some("1.4.2")),
    ("of_a_dependencys_c_code", "dependency", "hoarder-sys", Some("0.3.0")),
    ("of_a_library", "library", "libfixture_closed.so", None),
];

fn checked(report: &Report) -> Outcome {
    for (name, kind, owner, version) in OWNERS {
        let test = report.tests.iter().find(|test| test.name == name).ok_or(format!("no {name}"))?;
        let expected =
            Owner { kind: kind.into(), name: Some(owner.into()), version: version.map(Into::into) };
        match test.findings.as_slice() {
            [finding] if finding.owner == expected => {}
            other => return Err(format!("{name}: not {expected:?}: {other:?}")),
        }
    }
    Ok(())
}

fn variables(locale: &str) -> Vec<(String, String)> {
    [("LC_ALL", locale), ("TERM", "xterm")].map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// With bars of their bytes: 909 in all, of which 512 are the longest.
fn of_each_kind(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "owners")?;
    for more in [&[][..], &["--release"], &["--recorder", "uprobe"]] {
        let (run, report) = desk.run(workshop, more, &variables("C"))?;
        checked(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
        // 32 columns are 512 bytes, so a column is 16.
        let lines = [
            format!("512 B {} hoarder 1.4.2", "#".repeat(32)),
            format!("200 B {:32} libfixture_closed.so", "#".repeat(13)),
            format!("100 B {:32} hoarder-sys 0.3.0", "#".repeat(7)),
            format!(" 97 B {:32} owners 0.2.0", "#".repeat(7)),
        ];
        run.expect(2, &lines.each_ref().map(String::as_str))?;
        let called =
            "allocated in hoarder 1.4.2 at vendored/hoarder/src/lib.rs:6:5, called from owners/src/lib.rs:";
        let c_code = "allocated in hoarder-sys 0.3.0 at vendored/hoarder-sys/c/hoard.c:4";
        run.expect(
            2,
            &[called, c_code, "allocated in libfixture_closed.so, called from owners/src/lib.rs:"],
        )?;
    }
    let (run, _) = desk.run(workshop, &[], &variables("C.UTF-8"))?;
    run.expect(2, &[&format!("512 B {} hoarder 1.4.2", "█".repeat(32))])?;
    let (run, _) = desk.run(workshop, &["own"], &variables("C"))?;
    match run.stderr.contains("Leaked by") {
        false => Ok(()),
        true => Err(format!("a bar for one owner\n{}", run.describe())),
    }
}

/// What is not the user's does not fail a test.
fn reported_only(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "owners")?;
    let (run, report) = desk.run(workshop, &["--dependencies", "report"], &[])?;
    checked(&report)?;
    run.expect(
        2,
        &["512 B in 1 block of Box<[u8; 512]>, not judged", "512 B lost by dependencies, not judged"],
    )?;
    judged(&report)?;
    let (run, _) = desk.run(workshop, &["--dependencies", "report", "of_a_"], &[])?;
    run.expect(0, &["3 clean"])?;
    let (run, _) = desk.run(workshop, &["--dependencies", "fail", "of_a_"], &[])?;
    run.expect(2, &["3 leaking"])
}

/// The verdicts where what is not the user's is only reported.
fn judged(report: &Report) -> Outcome {
    for (name, kind, ..) in OWNERS {
        let expected = if kind == "workspace" { "leaks" } else { "clean" };
        match report.tests.iter().find(|test| test.name == name) {
            Some(test) if test.verdict == expected => {}
            other => return Err(format!("{name} is not {expected}: {other:?}")),
        }
    }
    Ok(())
}

fn by_a_file(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "owners")?;
    let file = desk.file("leakcheck.toml");
    fs::write(&file, "[profile.default]\ndependencies = 'report'\n")
        .map_err(|problem| problem.to_string())?;
    let (run, report) = desk.run(workshop, &["--config-file", file.as_str()], &[])?;
    judged(&report).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    fs::write(&file, "[profile.default]\ndependencies = 'no'\n").map_err(|problem| problem.to_string())?;
    let run = workshop.run(&["show-config", "--config-file", file.as_str()], &[])?;
    run.expect(11, &["\"fail\" or \"report\""])
}
