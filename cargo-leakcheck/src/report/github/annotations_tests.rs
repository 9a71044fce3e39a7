use super::*;
use crate::model::{CheckedTest, Descriptor, FindingKind, Outcome};
use crate::report::testing;

fn shown(tests: Vec<CheckedTest>) -> Vec<String> {
    let run = testing::run(tests);
    annotations(&run, &testing::view(), "/w".into()).lines().map(str::to_owned).collect()
}

/// A test that has lost so many bytes in a line of `/w/src/lib.rs`.
fn lost(name: &str, bytes: u64, line: u32) -> CheckedTest {
    let mut test = testing::leaking(name);
    let finding = &mut test.memory.findings[0];
    finding.measure.bytes = bytes;
    finding.stack.as_mut().unwrap()[1].line = Some(line);
    test
}

#[test]
fn a_leak_is_shown_at_the_users_line() {
    let title = "title=4096 B definitely lost in 1 block";
    let expected = format!("::error file=src/lib.rs,line=12,col=9,{title}::in a tests::leaks");
    assert_eq!(shown(vec![testing::leaking("tests::leaks")]), [expected]);
}

#[test]
fn the_ten_largest_places_come_first() {
    let tests = (1..=40).map(|number| lost(&format!("t{number}"), u64::from(number) * 8, number)).collect();
    let lines = shown(tests);
    assert_eq!(lines.len(), 10);
    assert!(lines[0].contains("line=40,") && lines[0].contains("320 B"), "{lines:?}");
    assert!(lines[9].contains("line=31,"), "{lines:?}");
}

#[test]
fn tests_that_leak_from_one_place_are_one_annotation() {
    let tests = (1..=5).map(|number| lost(&format!("t{number}"), 100, 7)).collect();
    let lines = shown(tests);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("500 B definitely lost in 5 blocks"), "{lines:?}");
    assert!(lines[0].ends_with("::in a t1, a t2, a t3 and 2 more tests"), "{lines:?}");
}

#[test]
fn what_does_not_count_is_not_annotated() {
    let within = testing::test("t", Outcome::Passed, Verdict::Clean);
    assert!(shown(vec![testing::failing("tests::fails"), within]).is_empty());
}

#[test]
fn names_cannot_end_a_command() {
    let mut test = testing::leaking("a::b, c\n::warning::x 100%");
    test.memory.findings[0].stack.as_mut().unwrap()[1].file = Some("/w/src/a,b:c.rs".into());
    let lines = shown(vec![test]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("::error file=src/a%2Cb%3Ac.rs,line=12"), "{lines:?}");
    assert!(lines[0].ends_with("::in a a::b, c%0A::warning::x 100%25"), "{lines:?}");
}

#[test]
fn lines_that_are_not_of_the_repository_are_not_named() {
    let run = testing::run(vec![testing::leaking("t")]);
    let text = annotations(&run, &testing::view(), "/elsewhere".into());
    assert_eq!(text, "::error title=4096 B definitely lost in 1 block::in a t\n");
    // The workspace may be a part of it.
    let text = annotations(&run, &testing::view(), "/".into());
    assert!(text.starts_with("::error file=w/src/lib.rs,line=12"), "{text}");
}

#[test]
fn descriptors_come_after_blocks() {
    let mut test = testing::leaking("t");
    let mut stack = testing::finding(FindingKind::DefinitelyLost, 1).stack;
    stack.as_mut().unwrap()[1].line = Some(3);
    let descriptor = |once| Descriptor {
        numbers: vec![7],
        kind: "file".into(),
        description: "/x".into(),
        call: Some("openat".into()),
        held_by: None,
        bytes: None,
        once,
        stack: stack.clone(),
    };
    test.memory.left.descriptors = vec![descriptor(true), descriptor(false)];
    let lines = shown(vec![test]);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1], "::error file=src/lib.rs,line=3,col=9,title=descriptor left open (1 time)::in a t");
}
