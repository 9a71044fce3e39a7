use super::*;
use crate::model::FindingKind::{DefinitelyLost, IndirectlyLost, StillReachable};
use crate::model::{FindingKind, Frame};

const TEST: &str = "a tests::t";

fn own() -> OwnCode {
    OwnCode { root: "/w".into(), packages: vec!["/w".into()] }
}

/// A stack of the user's own functions.
fn stack(functions: &[&str], line: u32) -> Vec<Frame> {
    let frame = |name: &&str| Frame {
        function: Some((*name).to_owned()),
        file: Some("/w/src/lib.rs".to_owned()),
        line: Some(line),
        own: true,
        ..Frame::default()
    };
    functions.iter().map(frame).collect()
}

/// Findings, each with its kind, functions, bytes and blocks.
type Leaks<'a> = [(FindingKind, &'a [&'a str], u64, u64)];

fn with_things<T>(leaks: &Leaks<'_>, line: u32, then: impl FnOnce(&[Thing<'_>]) -> T) -> T {
    let stacks: Vec<_> = leaks.iter().map(|(_, functions, ..)| stack(functions, line)).collect();
    let thing =
        |(place, (kind, functions, bytes, blocks)): (usize, &(FindingKind, &[&str], u64, u64))| Thing {
            item: Item::Finding(place),
            leak: Leak::Memory(*kind),
            what: None,
            stack: (!functions.is_empty()).then(|| stacks[place].as_slice()),
            root: None,
            measure: Measure { bytes: *bytes, blocks: *blocks },
        };
    then(&leaks.iter().enumerate().map(thing).collect::<Vec<_>>())
}

fn baseline(leaks: &Leaks<'_>) -> Baseline {
    Baseline([(TEST.to_owned(), with_things(leaks, 1, |things| known(things, &own())))].into())
}

/// Known, grown, new, fixed; and what is accepted of each finding, in bytes and blocks.
fn compared(before: &Leaks<'_>, now: &Leaks<'_>) -> ([u64; 4], Vec<(u64, u64)>) {
    let comparison = with_things(now, 99, |things| baseline(before).compare(TEST, things, &own(), &|_| true));
    let Compared { known, grown, new, fixed } = comparison.counts;
    let accepted = |place| {
        let accepted = comparison.accepted.get(&Item::Finding(place));
        accepted.map_or((0, 0), |it| (it.measure.bytes, it.measure.blocks))
    };
    ([known, grown, new, fixed], (0..now.len()).map(accepted).collect())
}

#[test]
fn what_is_as_before_is_known_wherever_its_lines_are() {
    let before: &Leaks<'_> =
        &[(DefinitelyLost, &["a::make", "a::tests::t"], 40, 1), (IndirectlyLost, &["a::tests::t"], 0, 2)];
    assert_eq!(compared(before, before), ([2, 0, 0, 0], vec![(40, 1), (0, 2)]));
    // Another compiler's names of the same.
    let v0: &Leaks<'_> = &[
        (DefinitelyLost, &["a::make::<u8>", "a::tests::t::{closure#0}", "a::tests::t"], 40, 1),
        (IndirectlyLost, &["a::tests::t"], 0, 2),
    ];
    assert_eq!(compared(before, v0), ([2, 0, 0, 0], vec![(40, 1), (0, 2)]));
    // Two call sites of one function are one leak.
    let split: &Leaks<'_> = &[
        (DefinitelyLost, &["a::make", "a::tests::t"], 30, 1),
        (DefinitelyLost, &["a::make", "a::tests::t"], 10, 1),
    ];
    assert_eq!(compared(split, split), ([1, 0, 0, 0], vec![(30, 1), (10, 1)]));
    assert_eq!(compared(&[(DefinitelyLost, &["a::make", "a::tests::t"], 40, 2)], split).0, [1, 0, 0, 0]);
}

#[test]
fn what_was_not_there_is_new_and_what_is_gone_is_fixed() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1), (DefinitelyLost, &["a::gone"], 8, 1)];
    let now: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1), (DefinitelyLost, &["a::young"], 8, 1)];
    assert_eq!(compared(old, now), ([1, 0, 1, 1], vec![(40, 1), (0, 0)]));
    // Another kind is another leak, and so is another test.
    let kind: &Leaks<'_> = &[(StillReachable, &["a::old"], 40, 1)];
    assert_eq!(compared(&old[..1], kind), ([0, 0, 1, 1], vec![(0, 0)]));
    // Which block of a lost cycle is its root is chance.
    let cycle: &Leaks<'_> = &[(IndirectlyLost, &["a::old"], 40, 1)];
    assert_eq!(compared(&old[..1], cycle), ([1, 0, 0, 0], vec![(40, 1)]));
    let other =
        with_things(now, 1, |things| baseline(old).compare("a tests::other", things, &own(), &|_| true));
    assert_eq!((other.counts.new, other.counts.fixed), (2, 0));
}

#[test]
fn what_is_more_than_before_has_grown_by_the_rest() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1)];
    let twice: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 80, 2)];
    assert_eq!(compared(old, twice), ([0, 1, 0, 0], vec![(40, 1)]));
    // One block that is larger: it is one too many, not none.
    let larger: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 48, 1)];
    assert_eq!(compared(old, larger), ([0, 1, 0, 0], vec![(40, 0)]));
    // Less is known as well, and what is left of it is what counts from then on.
    let less: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 24, 1)];
    assert_eq!(compared(old, less), ([1, 0, 0, 0], vec![(24, 1)]));
    let still = with_things(less, 1, |things| baseline(old).compare(TEST, things, &own(), &|_| true).still);
    assert_eq!(still[0].measure, Measure { bytes: 24, blocks: 1 });
    // Blocks without bytes are compared by their number.
    let empty: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 0, 1)];
    let empties: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 0, 3)];
    assert_eq!(compared(empty, empties), ([0, 1, 0, 0], vec![(0, 1)]));
}

#[test]
fn another_way_to_a_function_is_another_leak() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::make", "a::helper", "a::tests::t"], 40, 1)];
    for other in [
        &["a::make", "a::tests::t"][..],
        &["a::helper", "a::tests::t"],
        &["a::make", "a::other", "a::tests::t"],
    ] {
        assert_eq!(compared(old, &[(DefinitelyLost, other, 40, 1)]).0, [0, 0, 1, 1], "{other:?}");
    }
}

#[test]
fn more_blocks_are_more_though_their_bytes_are_not() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 30, 3)];
    // 27 of the 30 blocks are new, and as many of their bytes.
    assert_eq!(compared(old, &[(DefinitelyLost, &["a::old"], 30, 30)]), ([0, 1, 0, 0], vec![(3, 3)]));
    // One more of 5 bytes that were 100 before.
    let one: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 100, 1)];
    assert_eq!(compared(one, &[(DefinitelyLost, &["a::old"], 12, 2)]), ([0, 1, 0, 0], vec![(6, 1)]));
}

#[test]
fn what_was_not_looked_at_is_not_fixed() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1)];
    let comparison = baseline(old).compare(TEST, &[], &own(), &|_| false);
    assert_eq!((comparison.counts.fixed, comparison.still.len()), (0, 1));
    assert_eq!(baseline(old).compare(TEST, &[], &own(), &|_| true).counts.fixed, 1);
}

#[test]
fn a_lost_stack_is_known_by_its_kind() {
    let old: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1)];
    assert_eq!(compared(old, &[(DefinitelyLost, &[], 40, 1)]).0, [1, 0, 0, 0]);
    // Not the other way: what has a stack is no lost one.
    assert_eq!(compared(&[(DefinitelyLost, &[], 40, 1)], old).0, [0, 0, 1, 1]);
    // And not twice.
    let twice: &Leaks<'_> = &[(DefinitelyLost, &["a::old"], 40, 1), (DefinitelyLost, &[], 40, 1)];
    assert_eq!(compared(old, twice).0, [1, 0, 1, 0]);
}

#[test]
fn a_file_is_what_was_written_and_says_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("new/baseline.json");
    assert_eq!(Baseline::read(&path).unwrap(), None);
    let written = baseline(&[(DefinitelyLost, &["b"], 1, 1), (DefinitelyLost, &["a", "c"], 2, 1)]);
    written.write(&path).unwrap();
    let read = Baseline::read(&path).unwrap().unwrap();
    assert_eq!(read, written);
    // Sorted, a value a line, so that versions can be compared by people.
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.find("\"c\"").unwrap() < text.find("\"b\"").unwrap() && text.ends_with("}\n"), "{text}");
    for (text, reason) in [
        ("{", "no baseline: EOF"),
        (r#"{"format": "leakcheck-baseline/2", "known": []}"#, "its format is `leakcheck-baseline/2`"),
        (
            r#"{"format": "leakcheck-baseline/1", "known": [{"test": "a t", "kind": "lost", "frames": [], "bytes": 1, "blocks": 1}]}"#,
            "the kind `lost` of a t is none of ours",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Baseline::read(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: {reason}")), "{error}");
    }
}
