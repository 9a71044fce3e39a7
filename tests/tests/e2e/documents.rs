//! The reports as documents: JSON against its schema, JUnit as XML.

use camino::Utf8Path;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::repository;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::Outcome;

/// More than this no report of a fixture may be, whatever its tests write.
const LARGEST: u64 = 256 << 20;

/// Reads and validates a JSON report.
pub fn json(path: &Utf8Path) -> Result<Report, String> {
    let text = read(path)?;
    json_text(&text)
}

/// Validates the text of a JSON report.
pub fn json_text(text: &str) -> Result<Report, String> {
    let schema = read(&repository().join("cargo-leakcheck/report.schema.json"))?;
    let schema = serde_json::from_str(&schema).map_err(|problem| format!("the schema: {problem}"))?;
    let validator = jsonschema::validator_for(&schema).map_err(|problem| format!("the schema: {problem}"))?;
    let document = serde_json::from_str(text).map_err(|problem| format!("the JSON report: {problem}"))?;
    let problems: Vec<_> = validator
        .iter_errors(&document)
        .take(5)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect();
    match problems.is_empty() {
        true => Report::parse(text),
        false => Err(format!("the JSON report does not follow its schema:\n{}", problems.join("\n"))),
    }
}

/// Reads a JUnit report: well-formed, of allowed characters, one case a test (or what is not
/// checked), one leak a leaking test that
/// passed.
pub fn junit(path: &Utf8Path, report: &Report) -> Outcome {
    let text = read(path)?;
    if let Some(bad) = text.chars().find(|&char| !allowed(char)) {
        return Err(format!("the JUnit report has the character {bad:?}, which XML does not allow"));
    }
    let failed = |problem: &dyn std::fmt::Display| format!("the JUnit report is no XML: {problem}");
    let mut reader = Reader::from_str(&text);
    let (mut cases, mut leaks, mut depth) = (0, 0, 0);
    loop {
        match reader.read_event().map_err(|problem| failed(&problem))? {
            Event::Start(tag) => {
                depth += 1;
                count(&tag, &mut cases, &mut leaks)?;
            }
            Event::Empty(tag) => count(&tag, &mut cases, &mut leaks)?,
            Event::End(_) => depth -= 1,
            Event::GeneralRef(reference) => {
                let char = reference.resolve_char_ref().map_err(|problem| failed(&problem))?;
                if let Some(bad) = char.filter(|&char| !allowed(char)) {
                    return Err(format!("the JUnit report refers to {bad:?}, which XML does not allow"));
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if depth != 0 {
        return Err("the JUnit report ends in the middle".into());
    }
    // One says that the build or the tool has failed.
    let failed = report.exit_code >= 11;
    let expected = report.tests.len() + report.not_checked.len() + usize::from(failed);
    if cases != expected {
        return Err(format!(
            "the JUnit report has {cases} cases for {expected} tests and what is not checked"
        ));
    }
    let leaking = report.tests.iter().filter(|test| test.outcome == "passed" && test.verdict == "leaks");
    match leaks <= leaking.count() {
        true => Ok(()),
        false => Err(format!("the JUnit report has {leaks} leaks, more than the JSON report")),
    }
}

fn count(tag: &BytesStart<'_>, cases: &mut usize, leaks: &mut usize) -> Outcome {
    for attribute in tag.attributes() {
        let attribute =
            attribute.map_err(|problem| format!("the JUnit report has a bad attribute: {problem}"))?;
        let is_leak = attribute.key.as_ref() == b"type" && attribute.value.as_ref() == b"leak";
        *leaks += usize::from(is_leak && tag.name().as_ref() == b"failure");
    }
    *cases += usize::from(tag.name().as_ref() == b"testcase");
    Ok(())
}

/// Characters of XML 1.0, section 2.2.
fn allowed(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn read(path: &Utf8Path) -> Result<String, String> {
    let size = fs_err::metadata(path).map_err(|problem| problem.to_string())?.len();
    if size > LARGEST {
        return Err(format!("{path} has {size} bytes"));
    }
    fs_err::read_to_string(path).map_err(|problem| problem.to_string())
}
