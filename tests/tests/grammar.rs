//! The comments of all fixtures can be read, and say what they are known to say.

use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::marker::Kind;
use leakcheck_tests::tool::{fixture_folders, repository};

#[test]
fn every_fixture_can_be_read() {
    let folders = fixture_folders();
    assert!(folders.len() >= 25, "{folders:?}");
    for folder in folders {
        let fixture = Fixture::read(&folder).unwrap();
        assert!(!fixture.tests.is_empty(), "{folder} has no tests");
    }
    let programs = repository().join("fixtures/programs");
    assert_eq!(Fixture::read_program(&programs.join("leak.c")).unwrap().findings.len(), 3);
    assert_eq!(Fixture::read_program(&programs.join("clean.c")).unwrap().findings.len(), 0);
}

#[test]
fn every_fixture_is_a_member() {
    let manifest = std::fs::read_to_string(repository().join("fixtures/Cargo.toml")).unwrap();
    for folder in fixture_folders() {
        let name = folder.file_name().unwrap();
        assert!(
            manifest.contains(&format!("\"{name}\"")),
            "{name} is no member of the workspace of fixtures"
        );
    }
}

#[test]
fn markers_reach_their_tests() {
    let read = |name: &str| Fixture::read(&repository().join("fixtures").join(name)).unwrap();
    let test =
        |fixture: &Fixture, binary: &str, name: &str| fixture.tests[&(binary.into(), name.into())].clone();

    let forget = read("forget");
    assert_eq!(forget.exit, 2);
    assert_eq!(test(&forget, "forget", "nested::in_generic_code").findings.len(), 2);
    assert_eq!(test(&forget, "forget", "leaks_nothing").findings, []);
    assert_eq!(test(&forget, "forget", "zero_size").verdict(), "clean");
    assert_eq!(test(&forget, "forget", "box_leak").verdict(), "leaks");

    let custom = read("custom-harness");
    assert_eq!(custom.tests.len(), 6, "{:?}", custom.tests.keys());
    assert_eq!(test(&custom, "custom-harness::custom", "custom").findings.len(), 3);
    assert_eq!(test(&custom, "custom-harness::mimic", "leaks").findings.len(), 4);

    let endings = read("endings");
    assert_eq!(test(&endings, "endings", "aborts").outcome.as_deref(), Some("signalled"));
    assert_eq!(endings.reruns.len(), 3);

    assert_eq!(read("ignored").tests.len(), 1);
    assert_eq!(read("million").tests.len(), 3);
    let cycles = read("cycles");
    let pair = test(&cycles, "cycles", "rc_pair");
    let kinds: Vec<_> = pair.findings.iter().map(|finding| finding.what.kind).collect();
    assert_eq!(kinds, [Kind::DefinitelyLost, Kind::IndirectlyLost]);
    assert!(pair.findings.iter().all(|finding| finding.line == pair.findings[0].line));
}
