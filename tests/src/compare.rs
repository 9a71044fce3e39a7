//! Holds what was found against what must be found, and says every difference.

mod findings;
mod kernel;

use std::collections::BTreeMap;
use std::fmt::Write;

use camino::Utf8Path;

use crate::fixture::{ExpectedTest, Fixture};
use crate::report::{Report, Site, Test};

/// Differences between a whole report and a fixture, one a line; empty when they agree.
pub fn report(expected: &Fixture, found: &Report) -> String {
    let mut text = String::new();
    let mut tests = BTreeMap::new();
    for test in &found.tests {
        if tests.insert(test.key(), test).is_some() {
            let _ = writeln!(text, "reported twice: {} {}", test.binary, test.name);
        }
    }
    for (key, expected) in &expected.tests {
        match tests.remove(key) {
            Some(found) => text += &test(expected, found),
            None => {
                let _ = writeln!(text, "missing test: {} {}", key.0, key.1);
            }
        }
    }
    for (binary, name) in tests.keys() {
        let _ = writeln!(text, "extra test: {binary} {name}");
    }
    let count = |fits: fn(&Test) -> bool| found.tests.iter().filter(|test| fits(test)).count();
    for (what, said, is) in [
        ("tests", found.summary.tests, found.tests.len()),
        ("failed tests", found.summary.failed, count(|test| test.outcome != "passed")),
        ("incomplete tests", found.summary.incomplete, count(|test| test.verdict == "incomplete")),
    ] {
        if said != is {
            let _ = writeln!(text, "the summary counts {said} {what}, there are {is}");
        }
    }
    for part in &expected.not_checked {
        if !found.not_checked.iter().any(|entry| entry.to_string().contains(part)) {
            let _ =
                writeln!(text, "nothing with `{part}` among what was not checked: {:?}", found.not_checked);
        }
    }
    text
}

/// Differences in one test, under its name; empty when they agree.
pub fn test(expected: &ExpectedTest, found: &Test) -> String {
    let mut lines = Vec::new();
    let outcome = expected.outcome.as_deref().unwrap_or("passed");
    if found.outcome != outcome {
        lines.push(format!("outcome: {} instead of {outcome}", found.outcome));
    }
    let verdict = expected.verdict();
    if verdict != "any" && found.verdict != verdict {
        lines.push(format!("verdict: {} instead of {verdict}", found.verdict));
    }
    if !matches!(verdict, "any" | "incomplete") && !found.losses.is_empty() {
        lines.push(format!("losses: {:?}", found.losses));
    }
    lines.extend(found.wrong_sums());
    if !expected.findings_any {
        let mut findings = found.findings.clone();
        for accepted in
            found.accepted.iter().filter(|it| it.list == "findings" && it.by.get("code").is_some())
        {
            findings[accepted.place].ignored = true;
        }
        findings::findings(&expected.findings, &findings, &mut lines);
    }
    kernel::descriptors(&expected.descriptors, &found.kernel.descriptors, &mut lines);
    kernel::ipc(&expected.ipc, &found.kernel.ipc, &mut lines);
    kernel::left(&expected.left, &found.kernel, &mut lines);
    kernel::mapped(&expected.mapped, &found.kernel.mappings, &mut lines);
    if found.kernel.timers.len() != expected.timers {
        lines.push(format!("timers: {:?} instead of {}", found.kernel.timers, expected.timers));
    }
    if expected.heap.is_some() && found.heap != expected.heap {
        lines.push(format!("heap: {:?} instead of {:?}", found.heap, expected.heap));
    }
    let files = found.temporary_files.as_ref().map(|files| files.count);
    // A program of `exec` has no directory of its own.
    let own = !found.package.is_empty();
    if files != own.then_some(expected.files) {
        lines.push(format!("temporary files: {:?} instead of {}", found.temporary_files, expected.files));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("{} {}\n  {}\n", found.binary, found.name, lines.join("\n  "))
}

/// Whether a site is at a line of a file.
fn is_at(expected: &Utf8Path, line: usize, site: Option<&Site>) -> bool {
    let Some(site) = site else { return false };
    // One of the two may begin further up than the other.
    let same_file = site.file.as_deref().is_some_and(|file| {
        let file = Utf8Path::new(file);
        file.ends_with(expected) || (file.is_relative() && expected.ends_with(file))
    });
    same_file && site.line == Some(line)
}
