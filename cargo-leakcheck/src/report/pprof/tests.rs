//! That pprof itself reads it is an end-to-end test.

use std::io::Read as _;

use super::*;
use crate::model::{FindingKind, Outcome, Verdict};
use crate::report::testing;

fn profile(tests: Vec<crate::model::CheckedTest>) -> Profile {
    let bytes = Pprof.bytes(&testing::run(tests), &testing::view());
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
    Profile::decode(&plain[..]).unwrap()
}

fn text(profile: &Profile, number: i64) -> &str {
    &profile.string_table[usize::try_from(number).unwrap()]
}

/// Names, files and lines of a sample's frames.
fn frames<'a>(profile: &'a Profile, sample: &Sample) -> Vec<(&'a str, &'a str, i64)> {
    let locations = sample.location_id.iter().map(|id| &profile.location[*id as usize - 1]);
    let lines = locations.flat_map(|location| &location.line);
    let function = |line: &Line| profile.function[line.function_id as usize - 1];
    lines
        .map(|line| (text(profile, function(line).name), text(profile, function(line).filename), line.line))
        .collect()
}

#[test]
fn a_sample_has_blocks_bytes_frames_and_labels() {
    let profile = profile(vec![testing::leaking("leaks")]);
    let types: Vec<_> =
        profile.sample_type.iter().map(|it| (text(&profile, it.r#type), text(&profile, it.unit))).collect();
    assert_eq!(types, [("blocks", "count"), ("bytes", "bytes")]);
    assert_eq!((text(&profile, 0), text(&profile, profile.default_sample_type)), ("", "bytes"));
    let [sample] = &profile.sample[..] else { panic!("{:?}", profile.sample) };
    assert_eq!(sample.value, [1, 4096]);
    let labels: Vec<_> =
        sample.label.iter().map(|it| (text(&profile, it.key), text(&profile, it.str))).collect();
    assert_eq!(labels, [("kind", "definitely lost"), ("package", "a"), ("binary", "a"), ("test", "leaks")]);
    // The one is inlined into the other: one location.
    let std = ("alloc::alloc::exchange_malloc", "/rustc/1/library/alloc/src/alloc.rs", 400);
    assert_eq!(frames(&profile, sample), [std, ("a::tests::leaks", "src/lib.rs", 12)]);
    assert_eq!((profile.location.len(), profile.location[0].address), (1, 0x1000));
    assert_eq!(text(&profile, profile.mapping[0].filename), "/w/target/a-1");
}

#[test]
fn what_is_the_same_is_there_once() {
    let twice = profile(vec![testing::leaking("one"), testing::leaking("two")]);
    assert_eq!(
        (twice.sample.len(), twice.location.len(), twice.function.len(), twice.mapping.len()),
        (2, 1, 2, 1)
    );
    assert_eq!(twice.sample[0].location_id, twice.sample[1].location_id);
    assert_eq!(twice.sample[0].label.last().map(|label| text(&twice, label.str)), Some("one"));
}

#[test]
fn only_what_is_lost_is_in_it_with_stack_or_without() {
    let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
    let mut lost = testing::finding(FindingKind::PossiblyLost, 5);
    lost.stack = None;
    let kinds = [FindingKind::StillReachable, FindingKind::DoubleFree, FindingKind::UnknownFree];
    test.memory.findings = kinds.map(|kind| testing::finding(kind, 3)).into();
    test.memory.findings.push(lost);
    let profile = profile(vec![test]);
    let [sample] = &profile.sample[..] else { panic!("{:?}", profile.sample) };
    assert_eq!(sample.value, [1, 5]);
    assert_eq!(frames(&profile, sample), [("[call stack not recorded]", "", 0)]);
}
