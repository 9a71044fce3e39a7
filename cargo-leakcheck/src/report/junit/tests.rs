//! What readers of the JUnit document rely on.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::*;
use crate::report::testing;
use crate::snapshot::Loss;

/// An element as a parser sees it.
#[derive(Clone, Default)]
struct Element {
    name: String,
    attributes: HashMap<String, String>,
    text: String,
}

impl Element {
    fn get(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

/// All elements in the order they start.
fn parse(bytes: &[u8]) -> Vec<Element> {
    let mut reader = quick_xml::Reader::from_reader(bytes);
    reader.config_mut().check_end_names = true;
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let event = reader.read_event().expect("well-formed");
        match &event {
            Event::Start(start) | Event::Empty(start) => {
                let attributes = start.attributes().map(|attribute| {
                    let attribute = attribute.expect("well-formed attribute");
                    let value =
                        attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0).expect("escaped");
                    (String::from_utf8(attribute.key.0.to_vec()).unwrap(), value.into_owned())
                });
                let name = String::from_utf8(start.name().0.to_vec()).unwrap();
                elements.push(Element { name, attributes: attributes.collect(), text: String::new() });
                if matches!(event, Event::Start(_)) {
                    open.push(elements.len() - 1);
                }
            }
            Event::End(_) => {
                open.pop().unwrap();
            }
            Event::CData(data) => elements[*open.last().unwrap()].text += &data.decode().unwrap(),
            Event::Decl(_) => {}
            Event::Text(text) => assert_eq!(text.decode().unwrap().trim(), ""),
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let legal = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(legal));
    elements
}

/// The element below the only test case.
fn result(test: CheckedTest) -> Element {
    let parsed = parse(&Junit.bytes(&testing::run(vec![test]), &testing::view()));
    let case = parsed.iter().position(|element| element.name == "testcase").unwrap();
    parsed[case + 1].clone()
}

#[test]
fn a_leak_is_a_failure_with_the_annotated_stack() {
    let failure = result(testing::leaking("leaks"));
    assert_eq!((failure.name.as_str(), failure.get("type")), ("failure", "leak"));
    assert_eq!(failure.get("message"), "4096 B definitely lost in 1 block (budget 0 B)");
    assert_eq!(
        failure.text,
        "definitely lost: 4096 B in 1 block\n    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n"
    );
}

#[test]
fn every_pair_of_outcome_and_verdict_has_its_element() {
    let leaks = || Verdict::Leaks(vec!["4 B".to_owned()]);
    let incomplete = || Verdict::Incomplete(vec![Loss::NoBody]);
    let code = || Outcome::Failed { code: 101 };
    let failed = "failed with exit code 101";
    let cases = [
        (code(), leaks(), true, "failure", "failure+leak", format!("{failed}; 4 B")),
        (code(), leaks(), false, "failure", "failure", format!("{failed}; also leaked 4 B, not counted")),
        (code(), Verdict::Clean, false, "failure", "failure", failed.to_owned()),
        (
            code(),
            incomplete(),
            true,
            "failure",
            "failure",
            format!("{failed}; incomplete: no test body was entered"),
        ),
        (Outcome::Passed, incomplete(), true, "error", "incomplete", "no test body was entered".to_owned()),
        (
            Outcome::Passed,
            Verdict::NotChecked("cache".into()),
            true,
            "skipped",
            "not_checked",
            "cache".to_owned(),
        ),
        (Outcome::TimedOut, Verdict::Clean, true, "failure", "timeout", "timed out".to_owned()),
        (
            Outcome::NotStarted { reason: "gone".into() },
            Verdict::NotChecked("gone".into()),
            true,
            "error",
            "not_started",
            "could not be started: gone".to_owned(),
        ),
    ];
    for (outcome, verdict, counts, element, type_, message) in cases {
        let mut test = testing::test("t", outcome, verdict);
        test.memory.counts = counts;
        let seen = result(test);
        assert_eq!(
            (seen.name.as_str(), seen.get("type"), seen.get("message")),
            (element, type_, message.as_str())
        );
    }
}

#[test]
fn any_name_and_any_output_are_valid_xml() {
    let names = ["<a href=\"&amp;\">", "it's ]]> \u{0}\u{1b}[0m\u{fffe}", "größe\n\t✓", ""];
    let tests: Vec<_> = names.iter().map(|name| testing::failing(name)).collect();
    let parsed = parse(&Junit.bytes(&testing::run(tests), &testing::view()));
    let cases: Vec<_> = parsed.iter().filter(|element| element.name == "testcase").collect();
    let name = |index: usize| cases[index].get("name");
    assert_eq!(name(0), names[0]);
    assert_eq!(name(1), "it's ]]> \\u{0}\\u{1b}[0m\u{fffd}");
    assert_eq!(name(2), "größe\\n\\t✓");
    let stdout = &parsed.iter().find(|element| element.name == "system-out").unwrap().text;
    assert_eq!(stdout, "assertion <left> & ]]> red \u{fffd}");
}

#[test]
fn what_was_not_checked_and_the_exit_code_are_said() {
    let parsed = parse(&Junit.bytes(&testing::run(vec![testing::leaking("leaks")]), &testing::view()));
    let skipped = parsed.iter().position(|element| element.name == "skipped").unwrap();
    assert_eq!(parsed[skipped - 1].get("name"), "a: doc tests");
    let out = &parsed.last().unwrap().text;
    assert!(out.starts_with("exit code 3: 1 tests, 0 clean, 1 leaking"), "{out}");
    assert!(out.ends_with("steered by ebpf"), "{out}");
}

/// What never ran is an error for whoever looks at the document alone.
#[test]
fn a_build_that_failed_is_an_error() {
    let mut run = testing::run(Vec::new());
    let errors = |run: &_| {
        let parsed = parse(&Junit.bytes(run, &testing::view()));
        parsed.iter().filter(|element| element.name == "error").count()
    };
    for (exit, expected) in [(Exit::NothingRan, 0), (Exit::Incomplete, 0), (Exit::Tool, 1), (Exit::Build, 1)]
    {
        run.exit = exit;
        assert_eq!(errors(&run), expected, "{exit:?}");
    }
}

#[test]
fn a_run_without_ebpf_says_so() {
    let mut run = testing::run(vec![testing::leaking("leaks")]);
    run.steered.without_ebpf = Some("<no & way>".into());
    let parsed = parse(&Junit.bytes(&run, &testing::view()));
    let out = &parsed.last().unwrap().text;
    assert!(out.contains("steered by ptrace: eBPF is not available (<no & way>)"), "{out}");
}
