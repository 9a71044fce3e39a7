//! Findings.

use camino::Utf8Path;

use super::is_at;
use crate::fixture::Expected;
use crate::marker::{Amount, KINDS, Kind};
use crate::report::Finding;

/// Adds the differences to `lines`.
pub(super) fn findings(expected: &[Expected], found: &[Finding], lines: &mut Vec<String>) {
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
    let type_fits = match what.type_name.as_deref() {
        None => true,
        Some("unknown") => found.type_name.is_none(),
        name => name == found.type_name.as_deref(),
    };
    let scope = found.scope.as_ref().map(|scope| &scope.name);
    let is_said = what.scope.as_ref() == scope && what.ignored == found.ignored;
    let is_who = held_fits && child_fits && type_fits && is_said;
    what.kind == found.kind && amount_fits(&what.amount, found) && site_fits && is_who
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
    let of = what.type_name.as_ref().map_or(String::new(), |name| format!(" of {name}"));
    let said = said(what.scope.as_deref(), what.ignored);
    let name = name(what.kind);
    format!("{name} {amount}{held}{child}{said}{of} at {}:{}{unknown}", expected.file, expected.line)
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
    let of = found.type_name.as_ref().map_or(String::new(), |name| format!(" of {name}"));
    let said = said(found.scope.as_ref().map(|scope| scope.name.as_str()), found.ignored);
    let (name, bytes, blocks) = (name(found.kind), found.bytes, found.blocks);
    format!("{name} {bytes} bytes {blocks} blocks{held}{child}{said}{of} at {site}")
}

/// What the test's code says of blocks.
fn said(scope: Option<&str>, ignored: bool) -> String {
    let scope = scope.map_or(String::new(), |name| format!(" in scope {name}"));
    scope + if ignored { " ignored" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::Announced;

    fn expected(kind: Kind, amount: Amount) -> Expected {
        let what = Announced::new(kind, amount);
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
    fn what_the_code_says_counts_whether_given_or_not() {
        let plain = expected(Kind::DefinitelyLost, ONE);
        let mut said = plain.clone();
        (said.what.scope, said.what.ignored) = (Some("load".into()), true);
        let mut finding = found("definitely_lost", 40, 1, HERE);
        finding.scope = serde_json::from_str(r#"{"name": "load"}"#).unwrap();
        assert_eq!(
            [&plain, &said].map(|it| differences(std::slice::from_ref(it), &[finding.clone()]).len()),
            [1, 1]
        );
        finding.ignored = true;
        assert_eq!(differences(&[said], &[finding.clone()]), [""; 0]);
        assert_eq!(differences(&[plain], &[finding]).len(), 1);
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
