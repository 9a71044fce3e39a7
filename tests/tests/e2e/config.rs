//! Configuration files on real tests: what they set for all, and by filter for some.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use fs_err as fs;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop, open_to_all};

use crate::fixtures::Desk;
use crate::runner::{self, bad, failed};
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("config::limits", limits),
    ("config::policies", policies),
    ("config::timeouts", timeouts),
    ("config::mistakes", mistakes),
    ("config::where_it_is_looked_for", where_it_is_looked_for),
    ("config::shown_only", shown_only),
    ("config::whoever_starts_the_tests", whoever_starts_the_tests),
];

/// Runs tests of a crate with a configuration, and compares their verdicts (or outcomes, where a test has not passed)
/// and the exit code.
fn verdicts(
    workshop: &Workshop,
    package: &str,
    config: &str,
    args: &[&str],
    expected: &[(&str, &str)],
    code: i32,
) -> Outcome {
    let desk = Desk::new(workshop, package)?;
    let file = desk.file("leakcheck.toml");
    fs::write(&file, config).map_err(|problem| problem.to_string())?;
    let names: Vec<_> = expected.iter().map(|(name, _)| format!("test(={name})")).collect();
    let expression = names.join(" | ");
    let all = [&["--config-file", file.as_str(), "-E", &expression], args].concat();
    let (run, report) = desk.run(workshop, &all, &[])?;
    let seen: BTreeMap<&str, &str> = report
        .tests
        .iter()
        .map(|test| (&*test.name, if test.outcome == "passed" { &*test.verdict } else { &*test.outcome }))
        .collect();
    if seen != expected.iter().copied().collect() {
        return Err(format!("{args:?}: {seen:?} instead of {expected:?}\n{}", run.describe()));
    }
    run.expect(code, &[])
}

/// Each of these tests leaves one descriptor, but for the one whose attribute allows one, and that leaves two.
fn limits(workshop: &Workshop) -> Outcome {
    let config = "
[profile.default]
fds = 1

[[profile.default.overrides]]
filter = 'package(descriptors) & test(/^mem/)'
fds = 0

[profile.none]
fds = 0

[[profile.none.overrides]]
filter = 'test(udp) - kind(bench)'
ignore = 'it is known'
";
    let check = |args: &[&str], [memfd, eventfd, udp, over]: [&str; 4], code| {
        let expected = [("memfd", memfd), ("eventfd", eventfd), ("udp", udp), ("over_the_budget", over)];
        verdicts(workshop, "descriptors", config, args, &expected, code)
    };
    check(&[], ["leaks", "clean", "clean", "leaks"], 2)?;
    check(&["--leakcheck-profile", "none"], ["leaks", "leaks", "not_checked", "leaks"], 2)?;
    // The command line comes before files, and after the attribute.
    check(&["--fds", "9"], ["clean", "clean", "clean", "leaks"], 2)?;
    check(&["--no-fds"], ["clean", "clean", "clean", "clean"], 0)
}

/// What only shows something leaves the reports of other runs as they are.
fn shown_only(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let file = desk.file("kept.json");
    fs::write(&file, "{}").map_err(|problem| problem.to_string())?;
    let manifest = workshop.fixtures().join("Cargo.toml");
    let target = workshop.target_dir();
    for command in ["show-config", "list"] {
        let place = ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "-p", "clean"];
        let run = workshop.run(&[&[command, "--json", file.as_str()], &place[..]].concat(), &[])?;
        run.expect(0, &[])?;
        if fs::read_to_string(&file).ok().as_deref() != Some("{}") {
            return Err(run.describe());
        }
    }
    Ok(())
}

fn policies(workshop: &Workshop) -> Outcome {
    let config = "
[[profile.default.overrides]]
filter = 'test(memfd)'
no-fds = true

[profile.off]
no-fds = true

[[profile.off.overrides]]
filter = 'test(eventfd)'
no-fds = false
";
    let check = |args: &[&str], memfd, eventfd| {
        let expected = [("memfd", memfd), ("eventfd", eventfd)];
        verdicts(workshop, "descriptors", config, args, &expected, 2)
    };
    check(&[], "clean", "leaks")?;
    check(&["--leakcheck-profile", "off"], "clean", "leaks")?;
    let config = "
[[profile.default.overrides]]
filter = 'test(=panics_and_leaks)'
count-failed = true

[[profile.default.overrides]]
filter = 'test(should_panic)'
count-should-panic = true
";
    let expected = [("panics_and_leaks", "failed"), ("should_panic_and_leaks", "leaks")];
    verdicts(workshop, "endings", config, &[], &expected, 3)?;
    let expected = [("panics_and_leaks", "failed"), ("should_panic_and_leaks", "leaks")];
    verdicts(workshop, "endings", "", &[], &expected, 1)?;
    // A child is recorded for one test and not for the other.
    let config = "
[[profile.default.overrides]]
filter = 'test(=child_leaks)'
follow-children = true

[[profile.default.overrides]]
filter = 'test(left_behind)'
no-children = true
";
    let expected = [("child_leaks", "leaks"), ("child_of_a_fork", "clean"), ("left_behind", "clean")];
    verdicts(workshop, "children", config, &[], &expected, 2)
}

fn timeouts(workshop: &Workshop) -> Outcome {
    // The profile's is longer than any clock can count.
    let config = "
[profile.default]
timeout = 9223372036854775807

[[profile.default.overrides]]
filter = 'test(sleeps)'
timeout = \"300ms\"
";
    verdicts(workshop, "hang", config, &[], &[("sleeps", "timed_out"), ("quick", "clean")], 1)
}

fn mistakes(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let file = desk.file("leakcheck.toml");
    let manifest = workshop.fixtures().join("Cargo.toml");
    let run = |args: &[&str]| {
        let fixed = ["--manifest-path", manifest.as_str(), "--config-file", file.as_str()];
        workshop.run(&[&fixed, args].concat(), &[])
    };
    run(&[])?.expect(11, &["leakcheck.toml", "no such file"])?;
    let write = |text: &str| fs::write(&file, text).map_err(|problem| problem.to_string());
    write("[profile.default]\ntimeout = \"60s\"\nreachable_bytes = 3\n")?;
    let excerpt = [":3:1", "3 | reachable_bytes = 3", "  | ^^^^^^^^^^^^^^^ did you mean `reachable-bytes`?"];
    run(&[])?.expect(11, &excerpt)?;
    write("[[profile.default.overrides]]\nfilter = 'test(a) & package(=b)'\n")?;
    run(&[])?.expect(11, &[":2:29", "^^ no packages matched this"])?;
    write("")?;
    run(&["--leakcheck-profile", "ci"])?.expect(11, &["profile `ci`", "there are: default"])?;
    run(&["-E", "test(a) &"])?.expect(11, &["-E", "missing expression"])
}

/// A workspace of its own, with two tests that leak; its folder.
fn configured(workshop: &Workshop, name: &str, config: &str) -> Result<Utf8PathBuf, String> {
    let folder = workshop.path().join(name);
    for (path, text) in [
        (
            "Cargo.toml",
            "[workspace]\nmembers = ['inner']\n[workspace.metadata.leakcheck.profile.default]\nfds = 2\nipc = 3\n",
        ),
        ("inner/Cargo.toml", "[package]\nname = 'inner'\nversion = '0.0.0'\nedition = '2024'\n"),
        (
            "inner/src/lib.rs",
            "#[test]\nfn leaves_40_bytes() {\n    std::mem::forget(std::hint::black_box(vec![0_u8; 40]));\n}\n\n\
             #[test]\nfn leaves_41_bytes() {\n    std::mem::forget(std::hint::black_box(vec![0_u8; 41]));\n}\n",
        ),
        (".config/leakcheck.toml", config),
    ] {
        let path = folder.join(path);
        let parent = path.parent().expect("it is in the folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|problem| problem.to_string())?;
    }
    open_to_all(&folder)?;
    Ok(folder)
}

/// The file in the root, the manifest, and what `show-config` says of both.
fn where_it_is_looked_for(workshop: &Workshop) -> Outcome {
    let config =
        "[profile.default]\nfds = 1\n[[profile.default.overrides]]\nfilter = 'test(40)'\nbytes = 40\n";
    let folder = configured(workshop, "configured", config)?;
    let target = workshop.target_dir();
    let inner = folder.join("inner/Cargo.toml");
    let fixed = ["--manifest-path", inner.as_str(), "--target-dir", target.as_str()];
    workshop.run(&[&fixed[..], &["40"]].concat(), &[])?.expect(0, &[])?;
    workshop.run(&fixed, &[])?.expect(2, &["41 B definitely lost"])?;
    let show = |args: &[&str]| workshop.run(&[&["show-config"], &fixed[..], args].concat(), &[]);
    let says = |args: &[&str], lines: &[[&str; 2]]| {
        let run = show(args)?;
        run.expect(0, &[])?;
        let has = |[setting, origin]: &[&str; 2]| {
            run.stdout.lines().any(|line| {
                line.split_once('#')
                    .is_some_and(|(one, other)| one.trim() == *setting && other.trim() == *origin)
            })
        };
        match lines.iter().find(|line| !has(line)) {
            Some(line) => Err(format!("{line:?} was expected\n{}", run.describe())),
            None => Ok(()),
        }
    };
    let (file, manifest) = (".config/leakcheck.toml", "Cargo.toml");
    let ipc = ["ipc = 3", &*format!("{manifest}:5, profile default")];
    says(
        &["--count-failed"],
        &[
            ["fds = 1", &format!("{file}:2, profile default")],
            ipc,
            ["count-failed = true", "--count-failed"],
            ["bytes = 0", "default"],
        ],
    )?;
    says(&["leaves_40"], &[["bytes = 40", &format!("{file}:5, override of profile default")], ipc])
}

/// The same tests fail, by the tool itself, under nextest and by the runner of cargo and nextest, whichever file and profile
/// says what applies.
fn whoever_starts_the_tests(workshop: &Workshop) -> Outcome {
    let config = "[[profile.default.overrides]]\nfilter = 'package(inner) & test(40)'\nbytes = 40\n\
                  [profile.more]\n[[profile.more.overrides]]\nfilter = 'binary_id(inner) & test(/41_bytes$/)'\nbytes = 41\n";
    let folder = configured(workshop, "started", config)?;
    let other = "[[profile.default.overrides]]\nfilter = 'kind(lib) & test(41)'\nignore = 'it is known'\n";
    fs::write(folder.join("other.toml"), other).map_err(|problem| problem.to_string())?;
    let more = ("LEAKCHECK_PROFILE", "more");
    // The file, the variables, and who fails by them.
    for (file, profile, failing) in [
        (None, None, &["inner leaves_41_bytes"][..]),
        (None, Some(more), &[]),
        (Some("other.toml"), None, &["inner leaves_40_bytes"]),
    ] {
        let expected: BTreeSet<String> = failing.iter().map(|name| (*name).to_owned()).collect();
        let code = if failing.is_empty() { 0 } else { 2 };
        let asked: Vec<&str> = file.iter().flat_map(|file| ["--config-file", file]).collect();
        let json = folder.join("report.json");
        // A relative path is one from here, also where the runner has another working directory.
        let tool = |args: &[&str]| -> Result<(Run, Report), String> {
            let mut command = workshop.command(args)?;
            command.current_dir(&folder).env("CARGO_TARGET_DIR", workshop.target_dir()).envs(profile);
            let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
            let run = Run::new(format!("{command:?}"), output);
            let report =
                documents::json(&json).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
            Ok((run, report))
        };
        let reports = ["--json", json.as_str()];
        for args in [
            [&asked[..], &reports].concat(),
            [&["nextest"], &asked[..], &reports, &["run", "--no-fail-fast"]].concat(),
        ] {
            let (run, report) = tool(&args)?;
            if bad(&report) != expected || report.tests.len() != 2 {
                return Err(format!("{:?} instead of {expected:?}\n{}", bad(&report), run.describe()));
            }
            run.expect(code, &[])?;
        }
        let [(name, runner), flags] = runner::variables(workshop)?;
        let asked = file.map(|file| format!(" --config-file {} --", folder.join(file)));
        let runner = asked.map_or(runner.clone(), |asked| runner.trim_end_matches(" --").to_owned() + &asked);
        let mut variables = vec![(name, &*runner), (flags.0, &*flags.1)];
        variables.extend(profile);
        let manifest = folder.join("Cargo.toml");
        let start = |args: &[&str]| {
            workshop.cargo(&[args, &["--manifest-path", manifest.as_str()]].concat(), &variables)
        };
        let run = start(&["nextest", "run", "--no-fail-fast", "--color=never", "--final-status-level=fail"])?;
        if failed(&run) != expected {
            return Err(format!("{:?} instead of {expected:?}\n{}", failed(&run), run.describe()));
        }
        let leaking: Vec<_> = failing.iter().map(|name| format!("leak {name}")).collect();
        let says: Vec<&str> = leaking.iter().map(String::as_str).chain(["2 tests run"]).collect();
        start(&["test", "--lib"])?.expect(code, &says)?;
    }
    Ok(())
}
