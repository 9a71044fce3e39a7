//! What is accepted, in texts for people: not shown where all of it is, and said where a part of it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Run, text};
use crate::model::{Accepted, By, CheckedTest, Compared, Item, Measure};

/// A test without what is wholly accepted.
pub(super) fn counted(test: &CheckedTest) -> Cow<'_, CheckedTest> {
    let acceptance = &test.memory.acceptance;
    if acceptance.items.is_empty() {
        return Cow::Borrowed(test);
    }
    let mut counted = test.clone();
    let mut items = BTreeMap::new();
    let left = &mut counted.memory.left;
    let mut keep = |item: fn(usize) -> Item, from: usize, to: usize, measure: Measure| {
        let Some(accepted) = acceptance.items.get(&item(from)) else { return true };
        let stays = accepted.measure != measure;
        if stays {
            items.insert(item(to), accepted.clone());
        }
        stays
    };
    let number = |blocks: usize| Measure { bytes: 0, blocks: blocks as u64 };
    retain(&mut counted.memory.findings, |from, to, it| keep(Item::Finding, from, to, it.measure));
    retain(&mut left.descriptors, |from, to, it| keep(Item::Descriptor, from, to, number(it.numbers.len())));
    retain(&mut left.ipc, |from, to, _| keep(Item::Ipc, from, to, number(1)));
    retain(&mut left.children, |from, to, _| keep(Item::Child, from, to, number(1)));
    retain(&mut left.threads, |from, to, _| keep(Item::Thread, from, to, number(1)));
    retain(&mut left.mappings, |from, to, it| {
        keep(Item::Mapping, from, to, Measure { bytes: it.bytes, blocks: it.count })
    });
    counted.memory.acceptance.items = items;
    Cow::Owned(counted)
}

/// Keeps what `keeps` wants, which is told the place of each and the one that it would get.
fn retain<T>(all: &mut Vec<T>, mut keeps: impl FnMut(usize, usize, &T) -> bool) {
    let (mut from, mut to) = (0, 0);
    all.retain(|it| {
        let stays = keeps(from, to, it);
        from += 1;
        to += usize::from(stays);
        stays
    });
}

/// What is said of a finding that is not wholly accepted, behind how much it is: `, new`.
pub(super) fn mark(test: &CheckedTest, item: Item) -> String {
    match test.memory.acceptance.items.get(&item) {
        Some(Accepted { measure, by: By::Baseline }) => {
            format!(", of which {} known", text::measure(*measure))
        }
        Some(Accepted { measure, by: By::Rule(rule) }) => {
            format!(", of which {} by rule '{}'", text::measure(*measure), text::line(rule))
        }
        Some(Accepted { by: By::Code(place), .. }) => format!(", ignored at {}", text::line(place)),
        None if test.memory.acceptance.baseline.is_some() => ", new".to_owned(),
        None => String::new(),
    }
}

/// `3 known, 1 new, 1 fixed`; what there is none of is left out.
pub(super) fn compared(compared: Compared) -> String {
    let Compared { known, grown, new, fixed } = compared;
    let parts = [(known, "known"), (grown, "grown"), (new, "new"), (fixed, "fixed")];
    let parts =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { "nothing known".to_owned() } else { parts }
}

/// A line for each rule that is for something: `'init': 32 B in 1 block of 2 tests`.
pub(super) fn rules(run: &Run) -> Vec<String> {
    let mut rules: BTreeMap<&str, (Measure, u64, Option<&str>)> = BTreeMap::new();
    for hit in run.tests.iter().flat_map(|test| &test.memory.acceptance.hits) {
        let (measure, tests, exceeded) = rules.entry(&hit.rule).or_default();
        *measure = *measure + Measure { bytes: hit.bytes, blocks: hit.blocks };
        *tests += 1;
        *exceeded = exceeded.or(hit.exceeded.as_deref());
    }
    let line = |(rule, (measure, tests, exceeded)): (&str, (Measure, u64, Option<&str>))| {
        let exceeded = exceeded.map_or_else(String::new, |why| format!(", exceeded: {why}"));
        let of = text::count(tests, "test");
        format!("'{}': {} of {of}{exceeded}", text::line(rule), text::measure(measure))
    };
    rules.into_iter().map(line).collect()
}

/// A line for each place where code has leaks ignored: `src/lib.rs:10: 32 B in 1 block of 1 test`.
pub(super) fn ignored(run: &Run) -> Vec<String> {
    let mut places: BTreeMap<&str, (Measure, u64)> = BTreeMap::new();
    for test in &run.tests {
        for (place, measure) in of_code(test) {
            let (all, tests) = places.entry(place).or_default();
            *all = *all + measure;
            *tests += 1;
        }
    }
    let mut places: Vec<(&str, (Measure, u64))> = places.into_iter().collect();
    let parts = |place: &str| {
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        (file.to_owned(), line.parse::<u64>().ok())
    };
    places.sort_by_key(|(place, _)| parts(place));
    let line = |(place, (measure, tests)): (&str, (Measure, u64))| {
        format!("{}: {} of {}", text::line(place), text::measure(measure), text::count(tests, "test"))
    };
    places.into_iter().map(line).collect()
}

/// The same of one test: `32 B in 1 block ignored at src/lib.rs:10`.
pub(super) fn ignored_of(test: &CheckedTest) -> impl Iterator<Item = String> {
    let line = |(place, measure)| format!("{} ignored at {}", text::measure(measure), text::line(place));
    of_code(test).into_iter().map(line)
}

/// What is ignored in a test's code, by the place that says so.
fn of_code(test: &CheckedTest) -> BTreeMap<&str, Measure> {
    let mut places: BTreeMap<&str, Measure> = BTreeMap::new();
    for accepted in test.memory.acceptance.items.values() {
        if let By::Code(place) = &accepted.by {
            let measure = places.entry(place).or_default();
            *measure = *measure + accepted.measure;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Outcome, Verdict};
    use crate::report::findings::render;
    use crate::report::{excerpt::Sources, testing};

    /// A leaking test with two findings, the first of which is accepted so far.
    fn rendered(bytes: u64, blocks: u64) -> String {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Leaks(vec!["why".to_owned()]));
        test.memory.findings = vec![
            testing::finding(FindingKind::DefinitelyLost, 40),
            testing::finding(FindingKind::DefinitelyLost, 8),
        ];
        let accepted = Accepted { measure: Measure { bytes, blocks }, by: By::Baseline };
        test.memory.acceptance.items.insert(Item::Finding(0), accepted);
        test.memory.acceptance.baseline = Some(Compared::default());
        render(&test, &testing::view(), &Sources::default(), false)
    }

    #[test]
    fn what_is_wholly_accepted_is_not_shown_and_what_is_new_is_said_to_be() {
        let all = rendered(40, 1);
        assert!(all.contains("definitely lost: 8 B in 1 block, new\n") && !all.contains("40 B"), "{all}");
        let part = rendered(24, 0);
        assert!(
            part.contains("definitely lost: 40 B in 1 block, of which 24 B in 0 blocks known\n"),
            "{part}"
        );
        assert!(part.contains("definitely lost: 8 B in 1 block, new\n"), "{part}");
    }

    #[test]
    fn what_the_code_ignores_is_said_by_its_places() {
        let test = |name: &str, places: &[&str]| {
            let mut test = testing::test(name, Outcome::Passed, Verdict::Clean);
            for (number, place) in places.iter().enumerate() {
                let by = By::Code((*place).to_owned());
                let accepted = Accepted { measure: Measure { bytes: 8, blocks: 1 }, by };
                test.memory.acceptance.items.insert(Item::Finding(number), accepted);
            }
            test
        };
        let run =
            testing::run(vec![test("t", &["a.rs:10", "a.rs:9", "a.rs:10"]), test("u", &["a.rs:9", "\u{7}"])]);
        let lines = [
            "\\u{7}: 8 B in 1 block of 1 test",
            "a.rs:9: 16 B in 2 blocks of 2 tests",
            "a.rs:10: 16 B in 2 blocks of 1 test",
        ];
        assert_eq!(ignored(&run), lines);
        let of_one: Vec<_> = ignored_of(&run.tests[0]).collect();
        assert_eq!(of_one, ["16 B in 2 blocks ignored at a.rs:10", "8 B in 1 block ignored at a.rs:9"]);
    }

    #[test]
    fn what_there_is_none_of_is_left_out() {
        let said = |known, grown, new, fixed| compared(Compared { known, grown, new, fixed });
        assert_eq!(said(3, 0, 1, 1), "3 known, 1 new, 1 fixed");
        assert_eq!(said(0, 2, 0, 0), "2 grown");
        assert_eq!(said(0, 0, 0, 0), "nothing known");
    }
}
