//! What readers of the JSON document rely on.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::model::{
    Accepted, By, Covered, Descriptor, Heap, Held, HeldBy, IpcName, IpcObject, Item, KernelTotal,
    KernelTotals, LeftMapping, Limited, Origin, OwnerKind, Peak, Step, Target, Through,
};
use crate::model::{Allocated, AtPeak};
use crate::options::Recorder;
use crate::report::testing;
use crate::snapshot::{Before, Loss};

fn document(tests: Vec<CheckedTest>) -> Value {
    serde_json::from_slice(&Json.bytes(&testing::run(tests), &testing::view())).unwrap()
}

fn valid(document: &Value) -> Result<(), String> {
    let schema: Value = serde_json::from_str(include_str!("../../../report.schema.json")).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.validate(document).map_err(|error| format!("{}: {error}", error.instance_path()))
}

/// A test of whose leak all is known.
fn explained() -> CheckedTest {
    let mut test = testing::leaking("explained");
    let finding = &mut test.memory.findings[0];
    let frame = finding.stack.as_ref().unwrap()[1].clone();
    let block =
        |stack| Step::Block(Through { stack, bytes: 8, type_name: Some("u8".into()), offset: Some(16) });
    let held = Held { by: HeldBy::Static, symbol: Some("a::CACHE".into()), offset: 8, ..Held::default() };
    let chain = vec![Step::Root(held), block(Some(vec![frame])), Step::More(3), block(None)];
    let owner = Owner { kind: OwnerKind::Dependency, name: Some("d".into()), version: Some("1.0.0".into()) };
    finding.origin = Origin { type_name: Some("Box<u8>".into()), owner, chain };
    let limited = Limited { by: "outer".into(), bytes: Some(8), ..Limited::default() };
    finding.in_code.scope = Some(Arc::new(Scope { name: "inner".into(), limited: Some(limited) }));
    let ignored = Accepted { measure: finding.measure, by: By::Code("src/lib.rs:7".into()) };
    test.memory.acceptance.items.insert(Item::Finding(0), ignored);
    test
}

fn all() -> Vec<CheckedTest> {
    let mut lost = testing::leaking("lost");
    lost.memory.findings[0].stack = None;
    let mut twice = testing::leaking("twice");
    let finding = testing::finding(FindingKind::DoubleFree, 0);
    let before = Before { allocated: finding.stack.clone(), freed: finding.stack.clone() };
    twice.memory.findings = vec![Finding { before, ..finding }];
    let mut unknown = testing::leaking("unknown");
    let frames = unknown.memory.findings[0].stack.as_mut().unwrap();
    *frames = vec![Frame { address: 7, ..Frame::default() }];
    let mut open = testing::leaking("open");
    let stack = open.memory.findings[0].stack.clone();
    let descriptor = |stack| Descriptor {
        numbers: vec![3, 4],
        kind: "epoll".into(),
        description: String::new(),
        call: Some("epoll_create1".into()),
        held_by: Some("worker".into()),
        once: true,
        bytes: Some(192),
        stack,
    };
    open.memory.left.descriptors = vec![descriptor(stack.clone()), descriptor(None)];
    let object = |name, call: Option<&'static str>, stack| {
        let call = call.map(Into::into);
        IpcObject { kind: "shared memory".into(), name, bytes: Some(4), call, stack }
    };
    let total = KernelTotal {
        call: Some("openat".into()),
        place: "alloc_empty_file".into(),
        bytes: 192,
        objects: 1,
        allocated_bytes: 384,
        allocated_objects: 2,
    };
    open.memory.left.growth = Some(testing::growth(&[24, 48, 72]));
    lost.memory.left.at_peak = Some(AtPeak::unknown("why".into()));
    open.memory.left.at_peak = Some(AtPeak {
        stacks: vec![Allocated { measure: Measure { bytes: 300, blocks: 2 }, stack: stack.clone() }],
        rest: Measure { bytes: 7, blocks: 1 },
        unknown: None,
    });
    open.memory.left.mappings = vec![LeftMapping {
        kind: "anonymous".into(),
        description: String::new(),
        call: "mmap".into(),
        count: 2,
        bytes: 8192,
        address: 0x7000_0000_0000,
        once: false,
        stack: stack.clone(),
    }];
    open.memory.left.totals = Some(KernelTotals { totals: vec![total], lost: 1 });
    open.memory.files = Some(LeftFiles { count: 2, bytes: 10, paths: vec!["a".into(), "b/c".into()] });
    open.memory.left.ipc = vec![
        object(IpcName::Id { id: 3, key: 7 }, Some("shmget"), stack),
        object(IpcName::Name("/x".into()), None, None),
    ];
    vec![
        testing::leaking("leaks"),
        testing::failing("fails"),
        lost,
        unknown,
        twice,
        testing::test("segv", Outcome::Signalled { signal: 11 }, Verdict::Incomplete(vec![Loss::Exec])),
        testing::test("slow", Outcome::TimedOut, Verdict::NotChecked("cache".into())),
        testing::test("gone", Outcome::NotStarted { reason: "x".into() }, Verdict::NotChecked("x".into())),
        open,
        explained(),
    ]
}

#[test]
fn findings_and_losses_of_children_name_them() {
    let mut test = testing::leaking("leaks");
    test.memory.findings[0].process = Some("target/server --port 0".into());
    test.memory.losses = vec![Loss::Child { process: "target/other".into(), loss: Box::new(Loss::Exec) }];
    let document = document(vec![test]);
    assert_eq!(valid(&document), Ok(()));
    let test = &document["tests"][0];
    assert_eq!(test["findings"][0]["process"], "target/server --port 0");
    assert_eq!(test["losses"][0]["kind"], "exec");
    assert!(test["losses"][0]["message"].as_str().unwrap().starts_with("in child process target/other: "));
}

#[test]
fn the_document_has_the_public_shape() {
    let document = document(vec![testing::leaking("leaks")]);
    let test = json!({
        "package": "a", "binary": "a", "name": "leaks", "outcome": "passed", "exit_code": 0, "verdict": "leaks",
        "reasons": ["4096 B definitely lost in 1 block (budget 0 B)"], "counts": true, "duration_ns": 12_000_000,
        "recorder": "uprobe",
        "spawn": "exec",
        "allocators": ["glibc"],
        "budget": {"bytes": 0},
        "definitely_lost": {"bytes": 4096, "blocks": 1}, "indirectly_lost": {"bytes": 0, "blocks": 0},
        "possibly_lost": {"bytes": 0, "blocks": 0}, "still_reachable": {"bytes": 0, "blocks": 0}, "bad_frees": 0,
        "findings": [{
            "kind": "definitely_lost", "bytes": 4096, "blocks": 1, "below": {"bytes": 0, "blocks": 0},
            "held_by": null, "type": null, "owner": {"kind": "unknown", "name": null, "version": null}, "chain": [], "site": {"file": "src/lib.rs", "line": 12, "column": 9},
            "stack": [
                {"function": "alloc::alloc::exchange_malloc", "file": "/rustc/1/library/alloc/src/alloc.rs",
                 "line": 400, "column": null, "module": "/w/target/a-1", "address": 0x1000, "inlined": true,
                 "own": false},
                {"function": "a::tests::leaks", "file": "src/lib.rs", "line": 12, "column": 9,
                 "module": "/w/target/a-1", "address": 0x1000, "inlined": false, "own": true},
            ],
        }],
        "kernel": {"bytes": 0, "descriptors": [], "ipc": [], "children": [], "threads": [], "timers": [], "mappings": []}, "temporary_files": null, "heap": null, "losses": [], "output": {"stdout": "", "stderr": "", "dropped_bytes": 0},
    });
    assert_eq!(
        document,
        json!({
            "format": "leakcheck-report/1", "recorder": "uprobe", "recorder_reason": "asked for by --recorder",
            "steering": {"by": "ebpf", "reason": null, "checks_off": []}, "exit_code": 3, "interrupted": false,
            "duration_ns": 1_234_000_000,
            "summary": {"tests": 1, "clean": 0, "leaking": 1, "leaking_not_counted": 0, "failed": 0,
                        "incomplete": 0, "not_checked": 1},
            "targets": [{
            "package": "a", "name": "a", "kind": "lib", "binary": "a", "status": "checked",
            "tests": 3, "ignored": 1, "checked": 1, "reason": null,
        }],
        "tests": [test],
            "not_checked": [{"what": "a: doc tests", "reason": "cannot be run one by one"}],
        })
    );
}

#[test]
fn the_schema_accepts_every_kind_of_test() {
    assert_eq!(valid(&document(all())), Ok(()));
    assert_eq!(valid(&document(vec![])), Ok(()));
}

#[test]
fn the_schema_refuses_what_is_not_promised() {
    let changes: [(&str, Value); 8] = [
        ("/format", json!("leakcheck-report/2")),
        ("/exit_code", json!(5)),
        ("/tests/0/outcome", json!("exploded")),
        ("/tests/0/definitely_lost/bytes", json!(-1)),
        ("/tests/0/findings/0/kind", json!("lost")),
        ("/tests/0/findings/0/site/line", json!(0)),
        ("/tests/0/budget", json!({"byte": 0})),
        ("/not_checked", json!(null)),
    ];
    for (pointer, value) in changes {
        let mut document = document(all());
        *document.pointer_mut(pointer).unwrap() = value;
        assert!(valid(&document).is_err(), "{pointer}");
    }
}

/// Where nothing is off, nothing is listed; where something is, a reader learns of it.
#[test]
fn what_is_off_without_ebpf_is_listed() {
    let mut run = testing::run(all());
    run.steered.without_ebpf = Some("make table LOG: Operation not permitted".into());
    let document: Value = serde_json::from_slice(&Json.bytes(&run, &testing::view())).unwrap();
    assert_eq!(valid(&document), Ok(()));
    let steering = &document["steering"];
    assert_eq!(steering["by"], "ptrace");
    assert_eq!(steering["reason"], "make table LOG: Operation not permitted");
    assert!(!steering["checks_off"].as_array().unwrap().is_empty());
}

/// What a run has recorded by two recorders says so at each test.
#[test]
fn each_test_names_its_recorder() {
    let document = |by: &[Option<RecordedBy>]| -> Value {
        let tests = by.iter().map(|by| CheckedTest { recorded_by: by.clone(), ..testing::leaking("leaks") });
        let run = Run { recorder: Recorder::Auto, ..testing::run(tests.collect()) };
        serde_json::from_slice(&Json.bytes(&run, &testing::view())).unwrap()
    };
    let uprobe = Some(RecordedBy::Uprobe { because: Some("it calls __libc_malloc".into()) });
    let mixed = document(&[Some(RecordedBy::Ledger), uprobe.clone(), None]);
    assert_eq!(valid(&mixed), Ok(()));
    assert_eq!(mixed["recorder"], "ledger");
    assert_eq!(mixed["tests"][0]["recorder"], "ledger");
    assert_eq!(mixed["tests"][0].get("recorder_reason"), None);
    assert_eq!(mixed["tests"][1]["recorder"], "uprobe");
    assert_eq!(mixed["tests"][1]["recorder_reason"], "it calls __libc_malloc");
    assert_eq!(mixed["tests"][2]["recorder"], Value::Null);
    let plain = document(&[Some(RecordedBy::Ledger)]);
    assert_eq!(plain["recorder"], "ledger");
    assert_ne!(plain["recorder_reason"], mixed["recorder_reason"]);
    assert_eq!(document(&[uprobe])["recorder"], "uprobe");
}

/// How a test's process was made, and why not otherwise, comes back as it was written.
#[test]
fn each_test_says_how_its_process_was_made() {
    let because = Some("it has started a thread".to_owned());
    let made = [Some(Spawned::Forked), Some(Spawned::Started { because }), None];
    let tests = made.iter().map(|it| CheckedTest { spawned: it.clone(), ..testing::leaking("leaks") });
    let bytes = Json.bytes(&testing::run(tests.collect()), &testing::view());
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(valid(&document), Ok(()));
    let of = |test: usize, key: &str| document["tests"][test].get(key).cloned();
    assert_eq!([0, 1].map(|test| of(test, "spawn")), ["fork", "exec"].map(|way| Some(way.into())));
    assert_eq!((of(0, "spawn_reason"), of(2, "spawn")), (None, Some(Value::Null)));
    assert_eq!(of(1, "spawn_reason"), Some("it has started a thread".into()));
    let read = read(&bytes, "/w".into()).unwrap();
    assert!(read.tests.iter().map(|test| &test.spawned).eq(&made));
}

#[test]
fn unknown_places_are_null() {
    let document = document(all());
    assert_eq!(document["tests"][2]["findings"][0]["stack"], Value::Null);
    assert_eq!(document["tests"][2]["findings"][0]["site"], Value::Null);
    assert_eq!(document["tests"][3]["findings"][0]["site"], Value::Null);
    assert_eq!(document["tests"][1]["output"]["stderr"], "\u{1b}]0;title\u{7}done");
}

/// A document that has been read and is written again is the same document.
#[test]
fn what_is_written_can_be_read() {
    let mut tests = all();
    tests[0].memory.attempts = Some(Attempts { total: 3, leaking: 1, failed: 2 });
    tests[1].test.attempt = 2;
    let total = Measure { bytes: 30, blocks: 3 };
    tests[0].memory.heap = Some(Heap { total, peak: Peak::exactly(20) });
    tests[1].memory.heap = Some(Heap { total, peak: Peak { at_least: 10, at_most: 20 } });
    // What a test has written is kept as far as it is text.
    tests.iter_mut().for_each(|test| test.output.stdout.retain(|byte| byte.is_ascii()));
    let mut run = testing::run(tests);
    run.interrupted = true;
    let no = |id: &str, kind| Target {
        id: id.to_owned(),
        kind,
        tests: Some(3),
        selected: 0,
        covered: Covered::No { reason: "why".to_owned() },
        ..run.targets[0].clone()
    };
    let targets = [no("doctests of a", Target::DOCTEST), no("a::api", "test")];
    run.targets.extend(targets);
    let written = Json.bytes(&run, &testing::view());
    let read = read(&written, "/w".into()).unwrap();
    let again = Json.bytes(&read, &testing::view());
    let value = |bytes| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(value(&again), value(&written));
    assert_eq!(valid(&value(&again)), Ok(()));
}

/// All but JUnit, which has the time at which it was written.
#[test]
fn every_format_can_be_made_of_the_document() {
    use crate::report::{Bytes, FlameGraph, Folded, Html, Pprof, Sarif};
    let mut tests = all();
    tests.iter_mut().for_each(|test| test.output.stdout.retain(|byte| byte.is_ascii()));
    let (run, view) = (testing::run(tests), testing::view());
    let again = read(&Json.bytes(&run, &view), "/w".into()).unwrap();
    let (leaked, at_peak) = (Bytes::Leaked, Bytes::AtPeak);
    let pictures: [&dyn Format; 4] =
        [&FlameGraph(leaked), &Folded(leaked), &FlameGraph(at_peak), &Folded(at_peak)];
    let formats: [&dyn Format; 4] = [&Json, &Html, &Sarif, &Pprof];
    let formats = formats.into_iter().chain(pictures);
    for (index, format) in formats.into_iter().enumerate() {
        assert!(format.bytes(&again, &view) == format.bytes(&run, &view), "{index}");
    }
}

/// The file that a document names as a finding's site is one of the packages', whether it is there or not.
#[test]
fn sites_are_known_without_sources() {
    let mut test = testing::leaking("leaks");
    let stack = test.memory.findings[0].stack.as_mut().unwrap();
    // Of a dependency, inside the user's own line.
    let dependency = Frame { file: Some("/registry/dep/src/lib.rs".into()), ..stack[1].clone() };
    stack.insert(1, dependency);
    let written = Json.bytes(&testing::run(vec![test]), &testing::view());
    let read = read(&written, "/elsewhere".into()).unwrap();
    let mut view = testing::view();
    view.own = crate::model::OwnCode { root: "/elsewhere".into(), packages: vec!["/elsewhere".into()] };
    assert_eq!(String::from_utf8(Json.bytes(&read, &view)), String::from_utf8(written));
}

#[test]
fn nothing_that_is_not_known_is_passed_over() {
    for (pointer, key) in [("", "more"), ("/tests/0", "more"), ("/tests/0/kernel", "sockets")] {
        let mut document = document(all());
        document.pointer_mut(pointer).unwrap()[key] = json!([]);
        let problem = read(document.to_string().as_bytes(), "/w".into()).unwrap_err();
        assert!(problem.contains(key), "{problem}");
    }
    let mut document = document(all());
    document["format"] = json!("leakcheck-report/2");
    assert!(read(document.to_string().as_bytes(), "/w".into()).unwrap_err().contains("leakcheck-report/2"));
}
