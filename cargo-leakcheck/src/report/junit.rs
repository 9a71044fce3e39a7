//! The JUnit document, by the `junit-report` crate: a suite a binary, a case a test. The format has
//! one result a case; a test that failed and leaks says both in it.

use junit_report::{Duration, ReportBuilder, TestCase, TestCaseBuilder, TestSuiteBuilder};

use super::excerpt::Sources;
use super::{Format, Run, View, findings, text};
use crate::model::{CheckedTest, Outcome, Verdict};

/// Name of the suite that holds what was not run, and the counts.
const OWN_SUITE: &str = "cargo-leakcheck";

/// JUnit XML.
pub struct Junit;

impl Format for Junit {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let sources = Sources::default();
        let mut suites: Vec<TestSuiteBuilder> = Vec::new();
        for test in &run.tests {
            let binary = attribute(&test.test.binary.id());
            let position =
                suites.iter().position(|suite| suite.testsuite.name == binary).unwrap_or_else(|| {
                    suites.push(TestSuiteBuilder::new(&binary));
                    suites.len() - 1
                });
            suites[position].add_testcase(case(test, view, &sources));
        }
        suites.push(own_suite(run));
        let report = ReportBuilder::new().add_testsuites(suites.iter().map(TestSuiteBuilder::build)).build();
        let mut bytes = Vec::new();
        report.write_xml(&mut bytes).expect("writing to memory cannot fail");
        bytes.push(b'\n');
        bytes
    }
}

fn case(test: &CheckedTest, view: &View, sources: &Sources) -> TestCase {
    let name = attribute(test.test.name.as_str());
    let duration = Duration::try_from(test.duration).unwrap_or(Duration::MAX);
    let findings = findings::render(test, view, sources, false);
    let memory = &test.memory;
    let failure = |type_: &str, message: &[String]| {
        let mut case = TestCaseBuilder::failure(&name, duration, type_, &attribute(&message.join("; ")));
        case.set_trace(&content(&findings));
        case
    };
    let error = |type_: &str, message: &str| {
        let mut case = TestCaseBuilder::error(&name, duration, type_, &attribute(message));
        case.set_trace(&content(&findings));
        case
    };
    let outcome = text::outcome(&test.outcome);
    let failed = match &test.outcome {
        Outcome::Passed => "",
        Outcome::Failed { .. } => "failure",
        Outcome::Signalled { .. } => "signal",
        Outcome::TimedOut => "timeout",
        Outcome::NotStarted { .. } => "not_started",
    };
    // What the case's result cannot say is said before the test's output.
    let mut aside = String::new();
    let mut case = match (&memory.verdict, outcome) {
        (Verdict::Leaks(reasons), None) if memory.counts => failure("leak", reasons),
        (Verdict::Leaks(reasons), Some(outcome)) if memory.counts => {
            let messages: Vec<_> = [outcome].into_iter().chain(reasons.iter().cloned()).collect();
            failure(&format!("{failed}+leak"), &messages)
        }
        (Verdict::Leaks(reasons), Some(outcome)) => {
            let leaked = format!("also leaked {}, not counted", reasons.join(", "));
            failure(failed, &[outcome, leaked])
        }
        (Verdict::Incomplete(losses), None) => error("incomplete", &join(losses)),
        (Verdict::Incomplete(losses), Some(outcome)) => {
            failure(failed, &[outcome, format!("incomplete: {}", join(losses))])
        }
        (_, Some(outcome)) if failed == "not_started" => error(failed, &outcome),
        (_, Some(outcome)) => failure(failed, &[outcome]),
        (Verdict::NotChecked(reason), None) => {
            let mut case = TestCaseBuilder::skipped_with_cause(&name, "not_checked", &attribute(reason));
            case.testcase.time = duration;
            case
        }
        (Verdict::Clean, None) | (Verdict::Leaks(_), None) => {
            aside = findings;
            TestCaseBuilder::success(&name, duration)
        }
    };
    case.set_classname(&attribute(&test.test.binary.id()));
    let stdout = aside + &String::from_utf8_lossy(&test.output.stdout);
    let stderr = String::from_utf8_lossy(&test.output.stderr);
    if !stdout.is_empty() {
        case.set_system_out(&content(&stdout));
    }
    if !stderr.is_empty() {
        case.set_system_err(&content(&stderr));
    }
    case.build()
}

fn own_suite(run: &Run) -> TestSuiteBuilder {
    let mut suite = TestSuiteBuilder::new(OWN_SUITE);
    for entry in &run.not_checked {
        let case =
            TestCase::skipped_with_cause(&attribute(&entry.what), "not_checked", &attribute(&entry.reason));
        suite.add_testcase(case);
    }
    let summary = run.summary();
    let interrupted = if run.interrupted { "interrupted before all tests had run\n" } else { "" };
    suite.set_system_out(&format!(
        "{interrupted}exit code {}: {} tests, {} clean, {} leaking, {} leaking but not counted, {} failed, \
         {} incomplete, {} not checked; recorder {}",
        run.exit as u8,
        summary.tests,
        summary.clean,
        summary.leaking,
        summary.leaking_not_counted,
        summary.failed,
        summary.incomplete,
        summary.not_checked,
        run.recorder,
    ));
    suite
}

fn join(losses: &[crate::snapshot::Loss]) -> String {
    losses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Text for an attribute; the writer escapes the markup.
fn attribute(text: &str) -> String {
    text::line(text).chars().map(legal).collect()
}

/// Text for a CDATA section, which the writer takes as it is: its end is split over two sections.
fn content(text: &str) -> String {
    let text: String = anstream::adapter::strip_str(text).to_string().chars().map(legal).collect();
    text.replace("]]>", "]]]]><![CDATA[>")
}

/// The characters that XML 1.0 has.
fn legal(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'.. => c,
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;
    use crate::report::testing;
    use crate::snapshot::Loss;

    /// `path/element{attribute=value}text` of all that a parser finds, and every attribute.
    fn parse(bytes: &[u8]) -> Vec<(String, Vec<(String, String)>, String)> {
        let mut reader = quick_xml::Reader::from_reader(bytes);
        reader.config_mut().check_end_names = true;
        let mut elements: Vec<(String, Vec<(String, String)>, String)> = Vec::new();
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
                    elements.push((name, attributes.collect(), String::new()));
                    if matches!(event, Event::Start(_)) {
                        open.push(elements.len() - 1);
                    }
                }
                Event::End(_) => {
                    open.pop().unwrap();
                }
                Event::CData(data) => elements[*open.last().unwrap()].2 += &data.decode().unwrap(),
                Event::Decl(_) => {}
                Event::Text(text) => assert_eq!(text.decode().unwrap().trim(), ""),
                Event::Eof => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(open.is_empty());
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(
            text.chars()
                .all(|c| matches!(c, '\t' | '\n' | '\r') || c >= ' ' && c < '\u{fffe}' || c > '\u{ffff}')
        );
        elements
    }

    fn result(test: CheckedTest) -> (String, String, String, String) {
        let parsed = parse(&Junit.bytes(&testing::run(vec![test]), &testing::view()));
        let index = parsed.iter().position(|element| element.0 == "testcase").unwrap() + 1;
        let (name, attributes, text) = parsed[index].clone();
        let get = |key| {
            attributes.iter().find(|(name, _)| name == key).map_or(String::new(), |(_, value)| value.clone())
        };
        (name, get("type"), get("message"), text)
    }

    #[test]
    fn a_leak_is_a_failure_with_the_annotated_stack() {
        let (element, type_, message, text) = result(testing::leaking("leaks"));
        assert_eq!((element.as_str(), type_.as_str()), ("failure", "leak"));
        assert_eq!(message, "4096 B definitely lost in 1 block (budget 0 B)");
        assert_eq!(
            text,
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
            (
                Outcome::Passed,
                incomplete(),
                true,
                "error",
                "incomplete",
                "no test body was entered".to_owned(),
            ),
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
            assert_eq!((seen.0.as_str(), seen.1.as_str(), seen.2), (element, type_, message));
        }
    }

    #[test]
    fn any_name_and_any_output_are_valid_xml() {
        let names = ["<a href=\"&amp;\">", "it's ]]> \u{0}\u{1b}[0m\u{fffe}", "größe\n\t✓", ""];
        let tests: Vec<_> = names.iter().map(|name| testing::failing(name)).collect();
        let parsed = parse(&Junit.bytes(&testing::run(tests), &testing::view()));
        let cases: Vec<_> = parsed.iter().filter(|element| element.0 == "testcase").collect();
        let name = |index: usize| cases[index].1.iter().find(|(key, _)| key == "name").unwrap().1.clone();
        assert_eq!(name(0), names[0]);
        assert_eq!(name(1), "it's ]]> \\u{0}\\u{1b}[0m\u{fffd}");
        assert_eq!(name(2), "größe\\n\\t✓");
        let stdout = &parsed.iter().find(|element| element.0 == "system-out").unwrap().2;
        assert_eq!(stdout, "assertion <left> & ]]> red \u{fffd}");
    }

    #[test]
    fn what_was_not_checked_and_the_exit_code_are_said() {
        let parsed = parse(&Junit.bytes(&testing::run(vec![testing::leaking("leaks")]), &testing::view()));
        let skipped = parsed.iter().position(|element| element.0 == "skipped").unwrap();
        assert_eq!(parsed[skipped - 1].1[0].1, "a: doc tests");
        let out = &parsed.last().unwrap().2;
        assert!(out.starts_with("exit code 3: 1 tests, 0 clean, 1 leaking"), "{out}");
    }
}
