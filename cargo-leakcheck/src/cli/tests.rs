use std::time::Duration;

use super::*;
use crate::options::{Color, Count, Ignored, KernelBytes};

mod configured;
mod own;
mod runner;

fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: "/work space".into(),
        executable: "/bin/cargo-leakcheck".into(),
        cpus: 3,
        today: (2026, 1, 31),
    }
}

fn parse_in(line: &[&str], variables: &[(&str, &str)]) -> Result<Options> {
    let arguments = std::iter::once("cargo-leakcheck").chain(line.iter().copied()).map(OsString::from);
    match parse(arguments, surroundings(variables))? {
        Request::Run(options) => Ok(*options),
        other => panic!("{other:?}"),
    }
}

fn options(line: &[&str]) -> Options {
    parse_in(line, &[]).unwrap()
}

fn test_action(options: Options) -> (BuildOptions, Selection) {
    match options.action {
        Action::Test(build, selection) => (build, selection),
        other => panic!("{other:?}"),
    }
}

fn usage(line: &[&str]) -> String {
    let error = parse_in(line, &[]).unwrap_err();
    assert_eq!(error.exit(), crate::error::Exit::Tool);
    error.to_string()
}

#[test]
fn cargos_own_first_argument_is_no_filter() {
    for line in [&["leakcheck", "-p", "a", "parse_"][..], &["-p", "a", "parse_"]] {
        let (build, selection) = test_action(options(line));
        assert_eq!(selection.filters, ["parse_"]);
        assert_eq!(build.cargo_args, ["--package", "a"]);
    }
}

#[test]
fn selection_of_targets_passes_through_and_only_the_shared_part_goes_to_metadata() {
    let (build, _) = test_action(options(&[
        "--manifest-path",
        "x y/Cargo.toml",
        "--config",
        "a.b=1",
        "--locked",
        "-F",
        "f g",
        "--release",
        "--lib",
        "--test",
        "api",
        "--all",
        "--exclude",
        "z",
        "--target",
        "t",
        "-vv",
        "--build-jobs",
        "2",
        "--target-dir",
        "out",
    ]));
    let shared = ["--manifest-path", "x y/Cargo.toml", "--config", "a.b=1", "--locked"];
    assert_eq!(build.metadata_args, shared);
    assert_eq!(build.cargo_args[..5], shared);
    let rest: Vec<_> = build.cargo_args[5..].iter().map(|argument| argument.to_str().unwrap()).collect();
    assert_eq!(
        rest.join(" "),
        "--workspace --lib --release --exclude z --test api --features f g --target t --jobs 2 --verbose --verbose"
    );
    assert_eq!(build.target_dir.unwrap(), "out");
    assert_eq!(build.targets, ["t"]);
}

#[test]
fn arguments_behind_the_dashes_select_as_libtest_does() {
    let (_, selection) = test_action(options(&[
        "one",
        "--",
        "a",
        "b",
        "--skip",
        "c",
        "--skip=d",
        "--exact",
        "--include-ignored",
    ]));
    assert_eq!(selection.filters, ["one", "a", "b"]);
    assert_eq!(selection.skip, ["c", "d"]);
    assert!(selection.exact);
    assert_eq!(selection.ignored, Ignored::Include);
    let (_, selection) = test_action(options(&["--", "--ignored"]));
    assert_eq!(selection.ignored, Ignored::Only);
}

#[test]
fn test_threads_are_jobs() {
    assert_eq!(options(&[]).trace.jobs, 3);
    assert_eq!(options(&["-j", "5"]).trace.jobs, 5);
    assert_eq!(options(&["--", "--test-threads", "7"]).trace.jobs, 7);
    assert!(usage(&["-j", "5", "--", "--test-threads=7"]).contains("contradicts"));
}

#[test]
fn list_and_exec() {
    match options(&["list", "-p", "a", "name", "--", "--skip", "b"]).action {
        Action::List(build, selection) => {
            assert_eq!(build.cargo_args, ["--package", "a"]);
            assert_eq!((selection.filters, selection.skip), (vec!["name".to_owned()], vec!["b".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
    for line in
        [&["exec", "--timeout", "1", "--", "./p", "-x", "--", "y"][..], &["exec", "./p", "-x", "--", "y"]]
    {
        match options(line).action {
            Action::Exec(exec) => assert_eq!(exec.command, ["./p", "-x", "--", "y"]),
            other => panic!("{other:?}"),
        }
    }
    // Behind the dashes the words are names of tests.
    let (_, selection) = test_action(options(&["--", "list"]));
    assert_eq!(selection.filters, ["list"]);
}

#[test]
fn colour_comes_from_the_option_then_cargo_then_no_color() {
    let colour = |line: &[&str], variables: &[(&str, &str)]| parse_in(line, variables).unwrap().report.color;
    let both = [("NO_COLOR", "1"), ("CARGO_TERM_COLOR", "always")];
    assert_eq!(colour(&["--color", "never"], &both), Color::Never);
    assert_eq!(colour(&["--color", "auto"], &both), Color::Auto);
    assert_eq!(colour(&[], &both), Color::Always);
    assert_eq!(colour(&[], &both[..1]), Color::Never);
    assert_eq!(colour(&[], &[("NO_COLOR", "")]), Color::Auto);
    assert_eq!(colour(&["list", "--color", "always"], &[]), Color::Always);
}

#[test]
fn cargo_is_the_one_that_called() {
    let (build, _) = test_action(parse_in(&[], &[("CARGO", "/tool chain/cargo")]).unwrap());
    assert_eq!(build.cargo, "/tool chain/cargo");
    assert_eq!(test_action(options(&[])).0.cargo, "cargo");
}

#[test]
fn what_is_not_understood_is_named() {
    for (line, words) in [
        (&["--no-such"][..], "--no-such"),
        (&["--timeout", "soon"], "--timeout"),
        (&["--max-blocks", "0"], "--max-blocks"),
        (&["-j", "0"], "--jobs"),
        (&["--count", "all"], "--count"),
        (&["--", "--format", "json"], "--format"),
        (&["--", "--show-output"], "--no-capture"),
        (&["--retries", "2", "--fail-fast"], "--fail-fast"),
        (&["--", "--show-output"], "--show-output"),
        (&["--", "--list"], "cargo leakcheck list"),
        (&["--", "--ignored", "--include-ignored"], "--ignored"),
        (&["--run-ignored", "all", "--", "--ignored"], "--run-ignored"),
        (&["--message-format", "json", "--no-capture"], "--no-capture"),
        (&["--message-format", "json", "--json", "-"], "--json -"),
        (&["--message-format", "json", "--html", "-"], "--html -"),
        (&["report"], "<REPORT>"),
        (&["show-config", "--message-format", "json"], "no form for machines"),
        (&["exec"], "PROGRAM"),
        (&["-p", "a", "list"], "comes first"),
    ] {
        let text = usage(line);
        assert!(text.contains(words), "{line:?}: {text}");
        assert!(!text.starts_with("error"), "{text}");
    }
}

#[test]
fn what_the_kernel_has_no_room_for_is_named_with_what_it_has() {
    let sizes = ["--max-blocks", "--max-stacks", "--max-bad-frees", "--max-files"];
    // 2^27 buckets of 16 bytes are half of what the kernel takes, and their number is a power of two.
    let sizes = sizes.map(|option| (option, 134_217_728_u64));
    // `PID_MAX_LIMIT`.
    let tasks = ["--jobs", "--max-threads"].map(|option| (option, 4_194_304));
    for (option, most) in sizes.into_iter().chain(tasks) {
        assert!(parse_in(&[option, &most.to_string()], &[]).is_ok(), "{option}");
        for wrong in [0, most + 1, (1 << 31) - 1, 1 << 31, 1 << 32, u64::MAX].map(|it| it.to_string()) {
            let text = usage(&[option, &wrong]);
            for words in [option, &format!("'{wrong}'"), &format!("from 1 to {most}")] {
                assert!(text.contains(words), "{text}");
            }
        }
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for flag in ["--help", "-h", "--version", "-V"] {
        let arguments = ["cargo-leakcheck", "leakcheck", flag].map(OsString::from);
        assert!(matches!(parse(arguments, surroundings(&[])), Ok(Request::Print(_))), "{flag}");
    }
}

#[test]
fn github_is_told_where_it_is_there_or_where_it_is_asked_for() {
    let github = |line: &[&str], variables| {
        let report = parse_in(line, variables).unwrap().report;
        report.tells_github().map(|it| (it.repository.to_string(), it.summary.clone()))
    };
    let summary = ("GITHUB_STEP_SUMMARY", "/tmp/summary");
    let all = [("GITHUB_ACTIONS", "true"), ("GITHUB_WORKSPACE", "/repository"), summary];
    let told = ("/repository".to_owned(), Some("/tmp/summary".into()));
    assert_eq!(github(&[], &all), Some(told));
    assert_eq!(github(&["--github", "never"], &all), None);
    assert_eq!(github(&[], &all[1..]), None);
    let here = ("/work space".to_owned(), None);
    assert_eq!(github(&["--github", "always"], &[]), Some(here));
}

#[test]
fn what_slows_the_machine_is_done_where_it_is_asked_for() {
    let when = |arguments: &[&str]| options(arguments).trace.kernel_bytes;
    assert_eq!(when(&[]), KernelBytes::IfLeft);
    assert_eq!(when(&["--kernel-bytes", "0"]), KernelBytes::Always);
    assert_eq!(when(&["--kernel-report"]), KernelBytes::Always);
    assert_eq!(when(&["--no-kernel-bytes", "--kernel-report"]), KernelBytes::Off);
    assert_eq!(when(&["--no-fds"]), KernelBytes::Off);
    assert!(usage(&["--kernel-bytes", "0", "--no-fds"]).contains("cannot be used with"));
}

#[test]
fn a_report_is_explained() {
    let options = options(&["explain", "a.json", "tests::one", "--full-stacks"]);
    assert!(!options.sudo && options.report.full_stacks);
    let Action::Explain { report, test } = options.action else { panic!() };
    assert_eq!((report.as_str(), test.as_str()), ("a.json", "tests::one"));
}

#[test]
fn pictures_have_characters_where_the_locale_has_them() {
    let unicode = |variables: &[(&str, &str)]| parse_in(&[], variables).unwrap().report.unicode;
    assert!(unicode(&[("LANG", "en_US.UTF-8")]) && unicode(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
    assert!(!unicode(&[]) && !unicode(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
    assert!(!unicode(&[("LANG", "en_US.UTF-8"), ("TERM", "linux")]));
}
