//! Holds what was found against what must be found, and says every difference.

use std::collections::BTreeMap;
use std::fmt::Write;

use camino::Utf8Path;

use crate::fixture::{
    Expected, ExpectedLeft, ExpectedMapped, ExpectedObject, ExpectedOpen, ExpectedTest, Fixture,
};
use crate::marker::{Amount, KINDS, Kind, Remains};
use crate::report::{Descriptor, Finding, IpcObject, Kernel, Mapping, Report, Site, Test};

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
        findings(&expected.findings, &found.findings, &mut lines);
    }
    descriptors(&expected.descriptors, &found.kernel.descriptors, &mut lines);
    ipc(&expected.ipc, &found.kernel.ipc, &mut lines);
    left(&expected.left, &found.kernel, &mut lines);
    mapped(&expected.mapped, &found.kernel.mappings, &mut lines);
    if found.kernel.timers.len() != expected.timers {
        lines.push(format!("timers: {:?} instead of {}", found.kernel.timers, expected.timers));
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

fn findings(expected: &[Expected], found: &[Finding], lines: &mut Vec<String>) {
    let mut found: Vec<&Finding> = found.iter().collect();
    let mut missing: Vec<(&Expected, usize)> = Vec::new();
    // Those with a sure site choose first.
    let mut exact: Vec<&Expected> =
        expected.iter().filter(|expected| expected.what.amount != Amount::Any).collect();
    exact.sort_by_key(|expected| expected.what.site_unknown);
    for expected in exact {
        let times = match expected.what.amount {
            Amount::Exactly { times, .. } => times,
            Amount::Frees(_) | Amount::Any => 1,
        };
        for left in (1..=times).rev() {
            match found.iter().position(|found| fits(expected, found)) {
                Some(index) => drop(found.swap_remove(index)),
                None => {
                    missing.push((expected, left));
                    break;
                }
            }
        }
    }
    let any = |found: &&Finding| {
        expected.iter().any(|expected| expected.what.amount == Amount::Any && fits(expected, found))
    };
    found.retain(|found| !any(found));
    for (expected, left) in missing {
        let near =
            found.iter().position(|found| found.kind == expected.what.kind && same_line(expected, found));
        let near = near.or_else(|| found.iter().position(|found| amount_fits(&expected.what.amount, found)));
        let times = if left > 1 { format!(" (and {} more)", left - 1) } else { String::new() };
        match near {
            Some(index) => {
                let found = show(found.swap_remove(index));
                lines.push(format!("different: {}{times}\n       found: {found}", show_expected(expected)));
            }
            None => lines.push(format!("missing: {}{times}", show_expected(expected))),
        }
    }
    const SHOWN: usize = 20;
    for found in found.iter().take(SHOWN) {
        lines.push(format!("extra: {}", show(found)));
    }
    if found.len() > SHOWN {
        lines.push(format!("extra: {} more", found.len() - SHOWN));
    }
}

/// Takes out as many as are expected of those that fit; how many there are not.
fn take_out<T>(found: &mut Vec<T>, times: usize, fits: impl Fn(&T) -> bool) -> usize {
    let missing = (0..times).filter(|_| {
        let place = found.iter().position(&fits);
        place.map(|place| found.swap_remove(place)).is_none()
    });
    missing.count()
}

fn descriptors(expected: &[ExpectedOpen], found: &[Descriptor], lines: &mut Vec<String>) {
    let mut found: Vec<&Descriptor> = found.iter().collect();
    for ExpectedOpen { what, file, line } in expected {
        let fits = |found: &&Descriptor| {
            found.kind == what.kind
                && found.numbers.len() == what.numbers
                && (&found.held_by, found.once) == (&what.held_by, what.once)
                && if what.has_line { is_at(file, *line, found.site.as_ref()) } else { found.stack.is_none() }
        };
        match take_out(&mut found, what.times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {file}:{line}")),
        }
    }
    lines.extend(found.iter().take(5).map(|found| {
        let Descriptor { numbers, kind, description, call, held_by, site, .. } = found;
        let site = site.as_ref().map(|site| (&site.file, site.line));
        format!("extra descriptor: {numbers:?} {kind} {description} by {call:?} held by {held_by:?} at {site:?}: {:?}", found.stack)
    }));
}

fn ipc(expected: &[ExpectedObject], found: &[IpcObject], lines: &mut Vec<String>) {
    let mut found: Vec<&IpcObject> = found.iter().collect();
    for ExpectedObject { what, file, line } in expected {
        let fits = |found: &&IpcObject| {
            let at = if what.has_line {
                is_at(file, *line, found.site.as_ref())
            } else {
                found.call.is_none() && found.site.is_none() && found.stack.is_none()
            };
            found.kind == what.kind && at
        };
        match take_out(&mut found, what.times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {file}:{line}")),
        }
    }
    lines.extend(found.iter().take(5).map(|found| format!("extra IPC object: {found:?}")));
}

fn mapped(expected: &[ExpectedMapped], found: &[Mapping], lines: &mut Vec<String>) {
    let mut found: Vec<&Mapping> = found.iter().collect();
    for ExpectedMapped { what, file, line } in expected {
        let fits = |found: &&Mapping| {
            (&found.kind, found.bytes, found.count, found.once)
                == (&what.kind, what.bytes, what.count, what.once)
                && is_at(file, *line, found.site.as_ref())
        };
        if take_out(&mut found, 1, fits) > 0 {
            lines.push(format!("missing: {what:?} at {file}:{line}"));
        }
    }
    lines.extend(found.iter().take(5).map(|found| format!("extra mapping: {found:?}")));
}

/// A process or thread: what it is, its words, where it was started, and all that is known of it.
type Leftover<'a> = (Remains, &'a str, Option<&'a Site>, String);

fn left(expected: &[ExpectedLeft], kernel: &Kernel, lines: &mut Vec<String>) {
    let children = kernel.children.iter().map(|child| {
        let what = if child.state == "zombie" { Remains::Zombie } else { Remains::Running };
        (what, child.command.as_str(), child.site.as_ref(), format!("{child:?}"))
    });
    let threads = kernel
        .threads
        .iter()
        .map(|thread| (Remains::Thread, thread.name.as_str(), thread.site.as_ref(), format!("{thread:?}")));
    let mut found: Vec<Leftover> = children.chain(threads).collect();
    for ExpectedLeft { what, at } in expected {
        let fits = |(is, words, site, _): &Leftover| {
            *is == what.what
                && what.word.as_ref().is_none_or(|word| words.contains(word.as_str()))
                && at.as_ref().map_or(site.is_none(), |(file, line)| is_at(file, *line, *site))
        };
        let Some(times) = what.times else {
            found.retain(|found| !fits(found));
            continue;
        };
        match take_out(&mut found, times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {at:?}")),
        }
    }
    lines.extend(found.into_iter().take(5).map(|(_, _, _, found)| format!("extra: {found}")));
}

fn fits(expected: &Expected, found: &Finding) -> bool {
    let what = &expected.what;
    let no_site = found.site.as_ref().is_none_or(|site| site.file.is_none());
    let site_fits = match what.amount {
        Amount::Any => no_site || same_line(expected, found),
        _ if what.site_unknown => no_site || same_crate(expected, found),
        _ => same_line(expected, found),
    };
    let held_fits = what.held_by.is_none() || what.held_by == found.held_by;
    let child_fits = match (&what.child, &found.process) {
        (None, None) => true,
        (Some(word), Some(process)) => process.split(' ').any(|part| part.rsplit('/').next() == Some(word)),
        _ => false,
    };
    what.kind == found.kind && amount_fits(&what.amount, found) && site_fits && held_fits && child_fits
}

fn amount_fits(amount: &Amount, found: &Finding) -> bool {
    match *amount {
        Amount::Exactly { bytes, blocks, .. } => found.bytes == bytes && found.blocks == blocks,
        Amount::Frees(count) => found.blocks == count,
        Amount::Any => true,
    }
}

fn same_line(expected: &Expected, found: &Finding) -> bool {
    is_at(&expected.file, expected.line, found.site.as_ref())
}

fn is_at(expected: &Utf8Path, line: usize, site: Option<&Site>) -> bool {
    let Some(site) = site else { return false };
    // One of the two may begin further up than the other.
    let same_file = site.file.as_deref().is_some_and(|file| {
        let file = Utf8Path::new(file);
        file.ends_with(expected) || (file.is_relative() && expected.ends_with(file))
    });
    same_file && site.line == Some(line)
}

/// A site in the fixture, on whatever line: the caller of the function whose frame is missing.
fn same_crate(expected: &Expected, found: &Finding) -> bool {
    let file = found.site.as_ref().and_then(|site| site.file.as_deref()).map(Utf8Path::new);
    let folder = expected.file.iter().next().unwrap_or_default();
    file.is_some_and(|file| file.iter().any(|part| part == folder))
}

fn name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("?", |(name, _)| name)
}

fn show_expected(expected: &Expected) -> String {
    let what = &expected.what;
    let amount = match what.amount {
        Amount::Exactly { bytes, blocks, .. } => format!("{bytes} bytes {blocks} blocks"),
        Amount::Frees(count) => count.to_string(),
        Amount::Any => "any".into(),
    };
    let held = what.held_by.as_ref().map_or(String::new(), |name| format!(" held by {name}"));
    let child = what.child.as_ref().map_or(String::new(), |word| format!(" in child {word}"));
    let unknown = if what.site_unknown { " or without a site" } else { "" };
    format!("{} {amount}{held}{child} at {}:{}{unknown}", name(what.kind), expected.file, expected.line)
}

fn show(found: &Finding) -> String {
    let site = match &found.site {
        Some(site) => format!(
            "{}:{}",
            site.file.as_deref().unwrap_or("?"),
            site.line.map_or("?".into(), |line| line.to_string())
        ),
        None => {
            let frames = found.stack.iter().flatten().take(8);
            let names: Vec<_> = frames
                .map(|frame| frame.function.as_deref().or(frame.module.as_deref()).unwrap_or("?"))
                .collect();
            format!("no site, stack: {}", names.join(" < "))
        }
    };
    let held = found.held_by.as_ref().map_or(String::new(), |name| format!(" held by {name}"));
    let child = found.process.as_ref().map_or(String::new(), |process| format!(" in child {process}"));
    format!("{} {} bytes {} blocks{held}{child} at {site}", name(found.kind), found.bytes, found.blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::Announced;

    fn expected(kind: Kind, amount: Amount) -> Expected {
        let what = Announced { kind, amount, site_unknown: false, held_by: None, child: None };
        Expected { what, file: "forget/src/lib.rs".into(), line: 7 }
    }

    fn found(kind: &str, bytes: u64, blocks: u64, site: Option<(&str, u64)>) -> Finding {
        let site = site.map(|(file, line)| serde_json::json!({"file": file, "line": line, "column": 1}));
        let json =
            serde_json::json!({"kind": kind, "bytes": bytes, "blocks": blocks, "site": site, "stack": []});
        serde_json::from_value(json).unwrap()
    }

    fn differences(expected: &[Expected], found: &[Finding]) -> Vec<String> {
        let mut lines = Vec::new();
        findings(expected, found, &mut lines);
        lines
    }

    const ONE: Amount = Amount::Exactly { bytes: 40, blocks: 1, times: 1 };
    const HERE: Option<(&str, u64)> = Some(("/tmp/x/forget/src/lib.rs", 7));

    #[test]
    fn equal_lists_agree() {
        let lost = expected(Kind::DefinitelyLost, ONE);
        let frees = expected(Kind::DoubleFree, Amount::Frees(2));
        let list = [found("definitely_lost", 40, 1, HERE), found("double_free", 0, 2, HERE)];
        assert_eq!(differences(&[lost.clone(), frees], &list), [""; 0]);
        assert_eq!(
            differences(&[lost], &[found("definitely_lost", 40, 1, Some(("src/lib.rs", 7)))]),
            [""; 0]
        );
    }

    #[test]
    fn every_part_of_a_finding_counts() {
        let lost = [expected(Kind::DefinitelyLost, ONE)];
        for other in [
            found("possibly_lost", 40, 1, HERE),
            found("definitely_lost", 41, 1, HERE),
            found("definitely_lost", 40, 2, HERE),
            found("definitely_lost", 40, 1, Some(("/tmp/x/forget/src/lib.rs", 8))),
            found("definitely_lost", 40, 1, Some(("/tmp/x/other/src/lib.rs", 7))),
            found("definitely_lost", 40, 1, None),
        ] {
            assert!(!differences(&lost, std::slice::from_ref(&other)).is_empty(), "{other:?}");
        }
        assert_eq!(differences(&lost, &[]).len(), 1);
        assert_eq!(differences(&[], &[found("still_reachable", 1, 1, None)]).len(), 1);
    }

    #[test]
    fn repeated_findings_are_counted() {
        let repeated = [expected(Kind::DefinitelyLost, Amount::Exactly { bytes: 8, blocks: 1, times: 3 })];
        let one = found("definitely_lost", 8, 1, HERE);
        assert_eq!(differences(&repeated, &vec![one.clone(); 3]), [""; 0]);
        assert!(differences(&repeated, &vec![one.clone(); 2])[0].starts_with("missing"));
        assert!(differences(&repeated, &vec![one; 4])[0].starts_with("extra"));
    }

    #[test]
    fn any_covers_its_line_and_what_has_no_site() {
        let any = [expected(Kind::StillReachable, Amount::Any)];
        let list = [found("still_reachable", 1, 1, HERE), found("still_reachable", 2, 1, None)];
        assert_eq!(differences(&any, &list), [""; 0]);
        assert_eq!(differences(&any, &[]), [""; 0]);
        assert_eq!(differences(&any, &[found("definitely_lost", 1, 1, None)]).len(), 1);
        let elsewhere = found("still_reachable", 1, 1, Some(("/tmp/x/forget/src/lib.rs", 9)));
        assert_eq!(differences(&any, &[elsewhere]).len(), 1);
    }

    #[test]
    fn an_unknown_site_may_be_missing_but_not_elsewhere() {
        let mut lost = expected(Kind::DefinitelyLost, ONE);
        lost.what.site_unknown = true;
        assert_eq!(differences(&[lost.clone()], &[found("definitely_lost", 40, 1, None)]), [""; 0]);
        let caller = found("definitely_lost", 40, 1, Some(("/tmp/x/forget/src/other.rs", 1)));
        assert_eq!(differences(&[lost.clone()], &[caller]), [""; 0]);
        let foreign = found("definitely_lost", 40, 1, Some(("/usr/src/libstdc++/new.cc", 1)));
        assert_eq!(differences(&[lost], &[foreign]).len(), 1);
    }

    #[test]
    fn the_holder_counts_where_it_is_given() {
        let mut kept = expected(Kind::StillReachable, ONE);
        kept.what.held_by = Some("pool".into());
        let mut finding = found("still_reachable", 40, 1, HERE);
        assert_eq!(differences(&[kept.clone()], &[finding.clone()]).len(), 1);
        finding.held_by = Some("pool".into());
        assert_eq!(differences(&[kept], &[finding]), [""; 0]);
    }

    #[test]
    fn the_child_counts_whether_given_or_not() {
        let own = expected(Kind::DefinitelyLost, ONE);
        let mut childs = own.clone();
        childs.what.child = Some("serve".into());
        let mut finding = found("definitely_lost", 40, 1, HERE);
        assert_eq!(differences(&[childs.clone()], &[finding.clone()]).len(), 1);
        finding.process = Some("target/program serve".into());
        assert_eq!(differences(&[childs], &[finding.clone()]), [""; 0]);
        assert_eq!(differences(&[own], &[finding]).len(), 1);
    }
}
