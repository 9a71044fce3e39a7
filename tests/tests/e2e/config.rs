//! Configuration files on real tests: what they set for all, and by filter for some.

use std::collections::BTreeMap;

use fs_err as fs;
use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("config::limits", limits),
    ("config::policies", policies),
    ("config::timeouts", timeouts),
    ("config::mistakes", mistakes),
    ("config::where_it_is_looked_for", where_it_is_looked_for),
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
    let config = "
[profile.default]
timeout = \"10m\"

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
    write("[[profile.default.overrides]]\nfilter = 'package(a) & tset(b)'\n")?;
    run(&[])?.expect(11, &[":2:24", "unknown predicate `tset`"])?;
    write("")?;
    run(&["--leakcheck-profile", "ci"])?.expect(11, &["profile `ci`", "there are: default"])?;
    run(&["-E", "test(a) &"])?.expect(11, &["--filterset: expected a predicate"])
}

/// In a workspace of its own: the file in its root, the manifest, and what `show-config` says of both.
fn where_it_is_looked_for(workshop: &Workshop) -> Outcome {
    let folder = workshop.path().join("configured");
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        let parent = path.parent().expect("it is in the folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|problem| problem.to_string())
    };
    write(
        "Cargo.toml",
        "[workspace]\nmembers = ['inner']\n[workspace.metadata.leakcheck.profile.default]\nfds = 2\nipc = 3\n",
    )?;
    write("inner/Cargo.toml", "[package]\nname = 'inner'\nversion = '0.0.0'\nedition = '2024'\n")?;
    write(
        "inner/src/lib.rs",
        "#[test]\nfn leaves_40_bytes() {\n    std::mem::forget(std::hint::black_box(vec![0_u8; 40]));\n}\n",
    )?;
    write(
        ".config/leakcheck.toml",
        "[profile.default]\nfds = 1\n[[profile.default.overrides]]\nfilter = 'test(40)'\nbytes = 40\n",
    )?;
    let target = workshop.target_dir();
    let inner = folder.join("inner/Cargo.toml");
    let fixed = ["--manifest-path", inner.as_str(), "--target-dir", target.as_str()];
    workshop.run(&fixed, &[])?.expect(0, &[])?;
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
