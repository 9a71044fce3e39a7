use std::sync::Arc;

use super::*;
use crate::model::TargetKind;
use crate::options::{Asked, ExecOptions};

fn found(target: &str, kind: TargetKind, tests: Tests) -> Discovered {
    let binary = TestBinary {
        package: "pack".to_owned(),
        target: target.to_owned(),
        kind,
        path: format!("/t/{target}").into(),
        directory: "/".into(),
        environment: Vec::new(),
    };
    Discovered { binary: Arc::new(binary), tests }
}

fn cases(names: &[(&str, bool)]) -> Vec<TestCase> {
    names.iter().map(|&(name, ignored)| TestCase { name: name.to_owned(), ignored }).collect()
}

fn sample() -> Vec<Discovered> {
    vec![
        found("custom", TargetKind::Test, Tests::Unit { reason: "it lists no tests".to_owned() }),
        found("mimic", TargetKind::Test, Tests::Protocol(cases(&[("with space", false)]))),
        found(
            "pack",
            TargetKind::Lib,
            Tests::Libtest(cases(&[
                ("parse_b", false),
                ("parse_a", true),
                ("m::parse", false),
                ("other", false),
            ])),
        ),
    ]
}

fn select(selection: &Selection) -> Vec<String> {
    let plan = plan(sample(), selection, &|_, _| true, |_| Ok(HashMap::new())).unwrap();
    plan.tests.iter().map(|test| format!("{} {}", test.binary.id(), test.name.as_str())).collect()
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_by_binary_and_name() {
    assert_eq!(
        select(&Selection::default()),
        ["pack m::parse", "pack other", "pack parse_b", "pack::custom custom", "pack::mimic with space"]
    );
}

/// What is not selected is still a target with all its tests.
#[test]
fn targets_are_counted_before_anything_is_selected() {
    let selection = Selection { filters: strings(&["parse"]), ..Selection::default() };
    let accepts = |_: &TestBinary, name: &str| name != "m::parse";
    let plan = plan(sample(), &selection, &accepts, |_| Ok(HashMap::new())).unwrap();
    let names: Vec<_> = plan.tests.iter().map(|test| test.name.as_str()).collect();
    assert_eq!(names, ["parse_b"]);
    let targets: Vec<_> =
        plan.targets.iter().map(|it| (&*it.id, it.tests, it.ignored, it.selected)).collect();
    let expected = [("pack", Some(4), 1, 1), ("pack::custom", None, 0, 0), ("pack::mimic", Some(1), 0, 0)];
    assert_eq!(targets, expected);
}

#[test]
fn filters_are_substrings_of_which_any_selects() {
    let selection = Selection { filters: strings(&["parse", "space"]), ..Selection::default() };
    assert_eq!(select(&selection), ["pack m::parse", "pack parse_b", "pack::mimic with space"]);
    assert!(select(&Selection { filters: strings(&["nothing"]), ..selection }).is_empty());
}

#[test]
fn exact_holds_for_filters_and_skips() {
    let selection =
        Selection { filters: strings(&["parse", "parse_b"]), exact: true, ..Selection::default() };
    assert_eq!(select(&selection), ["pack parse_b"]);
    let selection =
        Selection { skip: strings(&["parse", "custom", "with space"]), exact: true, ..Selection::default() };
    assert_eq!(select(&selection), ["pack m::parse", "pack other", "pack parse_b"]);
    assert_eq!(select(&Selection { exact: false, ..selection }), ["pack other"]);
}

#[test]
fn ignored_tests() {
    let filters = strings(&["parse"]);
    let select = |ignored| select(&Selection { filters: filters.clone(), ignored, ..Selection::default() });
    assert_eq!(select(Ignored::Include), ["pack m::parse", "pack parse_a", "pack parse_b"]);
    assert_eq!(select(Ignored::Only), ["pack parse_a"]);
}

#[test]
fn arguments_windows_and_notes() {
    let selection = Selection { ignored: Ignored::Include, ..Selection::default() };
    let plan = plan(sample(), &selection, &|_, _| true, |_| Ok(HashMap::new())).unwrap();
    let seen: Vec<_> = plan
        .tests
        .iter()
        .map(|test| {
            let arguments: Vec<_> =
                test.arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
            (test.window, arguments.join("|"))
        })
        .collect();
    assert_eq!(seen[2], (Window::TestBody, "--exact|--nocapture|--ignored|parse_a".to_owned()));
    assert_eq!(seen[3], (Window::TestBody, "--exact|--nocapture|parse_b".to_owned()));
    assert_eq!(seen[4], (Window::Process, String::new()));
    assert_eq!(seen[5], (Window::Process, "--exact|--nocapture|with space".to_owned()));
    assert_eq!(plan.notes, ["pack::custom runs as one test: it lists no tests"]);
}

#[test]
fn a_harness_that_calls_everything_ignored_is_mentioned() {
    let tests = Tests::Protocol(cases(&[("a", true), ("b", true)]));
    let plan_with = |ignored| {
        let selection = Selection { ignored, ..Selection::default() };
        plan(vec![found("odd", TargetKind::Test, tests.clone())], &selection, &|_, _| true, |_| {
            Ok(HashMap::new())
        })
        .unwrap()
    };
    assert_eq!(plan_with(Ignored::Skip).notes, ["pack::odd lists all its 2 tests as ignored"]);
    assert_eq!(plan_with(Ignored::Include).notes, [""; 0]);
}

#[test]
fn a_name_like_an_option_is_no_option() {
    let case = TestCase { name: "--list".to_owned(), ignored: false };
    assert_eq!(arguments(&case), ["--exact", "--nocapture", "--", "--list"]);
}

#[test]
fn budgets_go_to_their_tests_and_are_read_only_where_needed() {
    let selection = Selection { filters: strings(&["parse_b", "m::"]), ..Selection::default() };
    let limit =
        Budget { bytes: Some(7), ignore: Some("a \"quoted\" reason".to_owned()), ..Budget::default() };
    let mut read = Vec::new();
    let plan = plan(sample(), &selection, &|_, _| true, |binary| {
        read.push(binary.id());
        Ok([("parse_b".to_owned(), limit.clone()), ("gone".to_owned(), Budget::default())].into())
    })
    .unwrap();
    assert_eq!(read, ["pack"]);
    assert_eq!(plan.tests[0].budget, Budget::default());
    assert_eq!(plan.tests[1].budget, limit);
    let mut text = Vec::new();
    print(&plan.tests, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "pack  m::parse  default\npack  parse_b   bytes=7 ignore=\"a \\\"quoted\\\" reason\"\n"
    );
}

fn exec(command: &[&str], runner: bool) -> Result<Called> {
    exec_with(command, runner, &[])
}

fn exec_with(command: &[&str], runner: bool, variables: &[&str]) -> Result<Called> {
    let variables = variables.iter().map(|name| (name.into(), "/x".into()));
    let options = ExecOptions {
        command: command.iter().map(OsString::from).collect(),
        directory: "/bin".into(),
        environment: variables.chain([("PATH".into(), "/nowhere:/bin".into())]).collect(),
        metadata: None,
        runner,
        asked: Asked::Tests(Selection::default()),
    };
    called(&options, Stdio::Passed)
}

#[test]
fn a_runner_leaves_programs_alone() {
    match exec(&["sh", "-c", "exit 3"], true).unwrap() {
        Called::Other(path) => assert!(path.ends_with("sh"), "{path}"),
        other => panic!("{other:?}"),
    }
    let own = std::env::current_exe().unwrap();
    match exec(&[own.to_str().unwrap()], true).unwrap() {
        Called::Tests(binary, _) => assert_eq!(binary.path, *own),
        other => panic!("{other:?}"),
    }
    let in_setup_script = |runner| exec_with(&[own.to_str().unwrap()], runner, &["NEXTEST_ENV"]).unwrap();
    assert!(matches!(in_setup_script(true), Called::Other(_)));
    // Who calls the tool by name wants it.
    assert!(matches!(in_setup_script(false), Called::Tests(..)));
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    for name in ["sh", "./sh", "/bin/sh"] {
        let Called::One(test) = exec(&[name, "-c", "exit 3"], false).unwrap() else { panic!("{name}") };
        assert_eq!(test.name, TestName::Unit("sh".to_owned()));
        assert!(test.binary.path.ends_with("sh") && test.binary.path.is_absolute(), "{}", test.binary.path);
        assert_eq!(test.arguments, ["-c", "exit 3"]);
        assert_eq!(test.window, Window::Process);
    }
    for name in ["no-such-program", "./no-such-program", "/etc/passwd", "/etc"] {
        let text = exec(&[name], false).unwrap_err().to_string();
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn parts_are_those_of_nextest() {
    use crate::options::{Partition, PartitionBy};
    let found = || {
        vec![
            found("two", TargetKind::Test, Tests::Libtest(cases(&[("d", false), ("e", false)]))),
            found("bin", TargetKind::Bin, Tests::Libtest(cases(&[("f", false)]))),
            found("pack", TargetKind::Lib, Tests::Libtest(cases(&[("c", false), ("b", true), ("a", false)]))),
        ]
    };
    let part = |by, part, of| -> Vec<String> {
        let selection = Selection { partition: Some(Partition { by, part, of }), ..Selection::default() };
        let plan = plan(found(), &selection, &|_, _| true, |_| Ok(HashMap::new())).unwrap();
        plan.tests.iter().map(|test| test.name.as_str().to_owned()).collect()
    };
    // The library first, then tests, then the rest; ignored tests are not counted.
    assert_eq!(part(PartitionBy::Slice, 1, 2), ["a", "d", "f"]);
    assert_eq!(part(PartitionBy::Slice, 2, 2), ["c", "e"]);
    assert_eq!(part(PartitionBy::Count, 1, 2), ["a", "d", "f"]);
    assert_eq!(part(PartitionBy::Count, 2, 2), ["c", "e"]);
    // By the published values of XXH64 with seed 0: "a" 0xd24ec4f1a98c6e5b.
    assert!(part(PartitionBy::Hash, 2, 2).contains(&"a".to_owned()));
    let mut all = [part(PartitionBy::Hash, 1, 2), part(PartitionBy::Hash, 2, 2)].concat();
    all.sort();
    assert_eq!(all, ["a", "c", "d", "e", "f"]);
}
