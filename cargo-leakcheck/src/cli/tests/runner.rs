//! Of `exec`, and what hands options to it.

use super::*;
use crate::options::{Asked, ExecOptions};
use crate::run::Begun;

fn exec_action(line: &[&str], variables: &[(&str, &str)]) -> (ExecOptions, Options) {
    let options = parse_in(line, variables).unwrap();
    match options.action.clone() {
        Action::Exec(exec) => (exec, options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_test_binary_is_asked_for() {
    let asked = |arguments: &[&str]| {
        let line = [&["exec", "--runner", "--", "/t/a"], arguments].concat();
        exec_action(&line, &[]).0.asked
    };
    // As nextest and cargo call it.
    match asked(&["--exact", "a::b", "--nocapture", "--ignored"]) {
        Asked::Tests(selection) => {
            assert_eq!(selection.filters, ["a::b"]);
            assert!(selection.no_capture && selection.exact && selection.ignored == Ignored::Only);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(asked(&[]), Asked::Tests(selection) if !selection.no_capture));
    assert!(matches!(asked(&["-q", "--color", "always", "x"]), Asked::Tests(_)));
    for arguments in [&["--list", "--format", "terse"][..], &["--help"], &["x", "--bench"]] {
        assert!(matches!(asked(arguments), Asked::Other), "{arguments:?}");
    }
    assert!(matches!(asked(&["--", "--list"]), Asked::Tests(_)), "a test of that name");
    for arguments in [&["--format", "json"][..], &["--port=0"]] {
        assert!(matches!(asked(arguments), Asked::Unknown { .. }), "{arguments:?}");
    }
}

#[test]
fn the_directory_of_results_is_not_the_tests_business() {
    let variables = [("LEAKCHECK_RESULTS", "/r"), ("PATH", "/bin")];
    let (exec, options) = exec_action(&["exec", "--runner", "--", "/t/a", "--test-threads=7"], &variables);
    assert_eq!(options.report.results.unwrap(), "/r");
    assert_eq!(exec.environment.len(), 1);
    assert_eq!(options.trace.jobs, 7);
    let (_, options) = exec_action(&["exec", "--", "/t/a", "--nocapture"], &variables);
    assert_eq!(options.trace.jobs, 1);
}

#[test]
fn without_capturing_tests_run_one_by_one() {
    for line in [&["--no-capture"][..], &["--", "--nocapture"]] {
        let options = options(line);
        assert_eq!(options.trace.jobs, 1);
        assert!(test_action(options).1.no_capture);
    }
    assert_eq!(options(&["--fail-fast"]).trace.max_fail, Some(1));
    assert_eq!(options(&["--max-fail", "3"]).trace.max_fail, Some(3));
}

#[test]
fn a_runner_gets_the_options_that_were_given() {
    let line =
        ["nextest", "--fds=3", "--json", "x.json", "--count-failed", "--color", "never", "run", "-p", "a"];
    match options(&[&line[..], &["--manifest-path=m/Cargo.toml", "--target", "t", "--", "--target"]].concat())
        .action
    {
        Action::Nextest { build, runner, command } => {
            assert_eq!(runner.join(" "), "--count-failed --fds 3 --color never");
            assert_eq!(command[..3], ["run", "-p", "a"]);
            assert_eq!(build.metadata_args, ["--manifest-path", "m/Cargo.toml"]);
            assert_eq!(build.targets, ["t"]);
        }
        other => panic!("{other:?}"),
    }
    match options(&["show-env", "--export-prefix", "--threads", "2"]).action {
        Action::ShowEnv { runner, export: true, .. } => assert_eq!(runner.join(" "), "--threads 2"),
        other => panic!("{other:?}"),
    }
}

/// The options with what is configured, which is nothing.
fn begun(line: &[&str], variables: &[(&str, &str)]) -> Options {
    Begun::new(parse_in(&[line, &["--", "/bin/sh"]].concat(), variables).unwrap()).unwrap().options
}

/// One of many processes has no summary to write.
#[test]
fn a_runner_tells_github_nothing_unless_it_is_asked_to() {
    // That it is one of nextest's makes it a test.
    let there = [("GITHUB_ACTIONS", "true"), ("NEXTEST_TEST_NAME", "a")];
    let told = |line: &[&str]| begun(line, &there).report.tells_github().is_some();
    assert!(told(&["exec"]));
    assert!(!told(&["exec", "--runner"]));
    assert!(told(&["exec", "--runner", "--github", "always"]));
    match options(&["nextest", "--github", "always", "--threads", "2", "run"]).action {
        Action::Nextest { runner, .. } => assert_eq!(runner.join(" "), "--threads 2"),
        other => panic!("{other:?}"),
    }
}

/// Tests may be, programs not.
#[test]
fn a_runners_tests_are_run_once_more_for_what_descriptors_hold() {
    let when = |line: &[&str]| begun(line, &[("NEXTEST_TEST_NAME", "a")]).trace.kernel_bytes;
    assert_eq!(when(&["exec", "--runner"]), KernelBytes::IfLeft);
    assert_eq!(when(&["exec"]), KernelBytes::Off);
    assert_eq!(when(&["exec", "--kernel-bytes", "0"]), KernelBytes::Always);
}

/// The runner has another working directory.
#[test]
fn a_runner_gets_the_whole_path_of_a_file() {
    let line = ["show-env", "--config-file", "a.toml", "--leakcheck-profile", "ci"];
    match parse_in(&line, &[]).unwrap().action {
        Action::ShowEnv { runner, .. } => {
            assert_eq!(runner, ["--config-file", "/work space/a.toml", "--leakcheck-profile", "ci"]);
        }
        other => panic!("{other:?}"),
    }
}

/// What only starts others, which see to it themselves, and what traces nothing.
#[test]
fn nobody_is_raised_who_does_not_trace() {
    assert!(options(&["exec", "--runner", "--", "/t/a"]).sudo);
    for line in [&["nextest", "run"][..], &["show-env"], &["report", "merge", "a.json"], &["list"]] {
        assert!(!options(line).sudo, "{line:?}");
    }
}
