//! The JUnit document, by the `junit-report` crate: a suite a binary, a case a test. The format has
//! one result a case; a test that failed and leaks says both in it.

use junit_report::{Duration, ReportBuilder, TestCase, TestCaseBuilder, TestSuiteBuilder};

use super::excerpt::Sources;
use super::{Format, Run, View, accepted, findings, heap, mapped, text};
use crate::error::Exit;
use crate::model::{CheckedTest, Outcome, RecordedBy, Verdict};

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
    let because = test.recorded_by.as_ref().and_then(RecordedBy::because);
    let mut aside = because.map_or_else(String::new, |because| format!("recorder uprobe: {because}\n"));
    if test.allocators.iter().any(|allocator| allocator != "glibc") {
        aside += &format!("allocators: {}\n", test.allocators.join(", "));
    }
    aside.extend(accepted::ignored_of(test).map(|line| line + "\n"));
    aside.extend(heap::line(test).map(|line| line + "\n"));
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
            aside += &findings;
            aside.extend(mapped::aside(test, view).map(|line| line + "\n"));
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
    let failed = match run.exit {
        Exit::Build => Some("the build failed"),
        Exit::Tool => Some("the tool could not do its work"),
        _ => None,
    };
    // Whoever counts errors must not take what never ran for success. Some tests may have run before the tool failed.
    if let Some(failed) = failed {
        suite.add_testcase(TestCase::error("the run", Duration::ZERO, "tool", failed));
    }
    let summary = run.summary();
    let interrupted = if run.interrupted { "interrupted before all tests had run\n" } else { "" };
    suite.set_system_out(&format!(
        "{interrupted}exit code {}: {} tests, {} clean, {} leaking, {} leaking but not counted, {} failed, \
         {} incomplete, {} not checked; recorder {} ({}), steered by {}{}",
        run.exit as u8,
        summary.tests,
        summary.clean,
        summary.leaking,
        summary.leaking_not_counted,
        summary.failed,
        summary.incomplete,
        summary.not_checked,
        run.recorder().0,
        run.recorder().1,
        run.steered.by(),
        run.steered.note().map_or_else(String::new, |note| format!(": {note}")),
    ));
    suite
}

fn join(losses: &[crate::snapshot::Loss]) -> String {
    losses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Text for an attribute; the writer escapes the markup.
fn attribute(text: &str) -> String {
    text::line(text).chars().map(text::legal).collect()
}

/// Text for a CDATA section, which the writer takes as it is: its end is split over two sections.
fn content(text: &str) -> String {
    let text: String = anstream::adapter::strip_str(text).to_string().chars().map(text::legal).collect();
    text.replace("]]>", "]]]]><![CDATA[>")
}

#[cfg(test)]
mod tests;
