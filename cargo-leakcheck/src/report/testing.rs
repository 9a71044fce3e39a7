//! Results made up for the tests of the formats.

use std::sync::Arc;
use std::time::Duration;

use super::{Run, View};
use crate::error::Exit;
use crate::model::{Acceptance, OwnCode};
use crate::model::{
    Budget, CheckedTest, Finding, FindingKind, Frame, Grown, Growth, Judged, Left, Measure, Outcome, Output,
    PlannedTest, RecordedBy, Spawned, Stdio, Steered, TargetKind, TestBinary, TestName, Totals, Verdict,
    Window,
};
use crate::model::{Covered, NotChecked, Target};
use crate::options::{Count, Recorder};

/// Paths relative to `/w`, whose one package is all of it.
pub fn view() -> View {
    let own = OwnCode { root: "/w".into(), packages: vec!["/w".into()] };
    View { own, full_stacks: false, files: false, count: Count::Lost, unicode: true, explain: false }
}

/// A test of the library of package `a` without findings.
pub fn test(name: &str, outcome: Outcome, verdict: Verdict) -> CheckedTest {
    let binary = TestBinary {
        package: "a".into(),
        target: "a".into(),
        kind: TargetKind::Lib,
        path: "/w/target/a-1".into(),
        directory: "/w".into(),
        environment: Vec::new(),
    };
    let losses = if let Verdict::Incomplete(losses) = &verdict { losses.clone() } else { Vec::new() };
    CheckedTest {
        test: PlannedTest {
            binary: Arc::new(binary),
            name: TestName::Listed(name.into()),
            arguments: Vec::new(),
            window: Window::TestBody,
            budget: Budget { bytes: Some(0), ..Budget::default() },
            should_panic: false,
            stdio: Stdio::Captured,
            attempt: 1,
            judge: crate::options::JudgeOptions::default(),
            policy: None,
        },
        outcome,
        duration: Duration::from_millis(12),
        output: Output::default(),
        recorded_by: Some(RecordedBy::Uprobe { because: None }),
        spawned: Some(Spawned::Started { because: None }),
        allocators: vec!["glibc".into()],
        memory: Judged {
            findings: Vec::new(),
            totals: Totals::default(),
            left: Left::default(),
            files: None,
            heap: None,
            acceptance: Acceptance::default(),
            losses,
            verdict,
            attempts: None,
            counts: true,
        },
    }
}

/// One block allocated in `a::tests::leaks`, below a frame of std.
pub fn finding(kind: FindingKind, bytes: u64) -> Finding<Vec<Frame>> {
    let std = Frame {
        function: Some("alloc::alloc::exchange_malloc".into()),
        file: Some("/rustc/1/library/alloc/src/alloc.rs".into()),
        line: Some(400),
        module: Some("/w/target/a-1".into()),
        address: 0x1000,
        inlined: true,
        ..Frame::default()
    };
    let own = Frame {
        function: Some("a::tests::leaks".into()),
        file: Some("/w/src/lib.rs".into()),
        line: Some(12),
        column: Some(9),
        module: Some("/w/target/a-1".into()),
        address: 0x1000,
        own: true,
        ..Frame::default()
    };
    let measure = Measure { bytes, blocks: 1 };
    Finding {
        kind,
        measure,
        stack: Some(vec![std, own]),
        below: Measure::default(),
        root: None,
        held_by: None,
        before: crate::snapshot::Before::default(),
        process: None,
        origin: crate::model::Origin::default(),
        in_code: crate::model::InCode::default(),
    }
}

/// One call stack, of which so many bytes are alive after each iteration; the first is not judged.
pub fn growth(bytes: &[u64]) -> Growth<Vec<Frame>> {
    Growth {
        iterations: bytes.len() as u64,
        warmup: 1,
        alive: bytes.iter().map(|bytes| Measure { bytes: *bytes, blocks: 1 }).collect(),
        descriptors: vec![3; bytes.len()],
        grown: vec![Grown { bytes: bytes.to_vec(), stack: finding(FindingKind::StillReachable, 1).stack }],
        ended: None,
    }
}

/// A leaking test.
pub fn leaking(name: &str) -> CheckedTest {
    let reason = "4096 B definitely lost in 1 block (budget 0 B)".to_owned();
    let mut test = test(name, Outcome::Passed, Verdict::Leaks(vec![reason]));
    test.memory.findings.push(finding(FindingKind::DefinitelyLost, 4096));
    test.memory.totals.definitely_lost = Measure { bytes: 4096, blocks: 1 };
    test
}

/// A failing test that wrote what no document may hold as it is.
pub fn failing(name: &str) -> CheckedTest {
    let mut test = leaking(name);
    test.outcome = Outcome::Failed { code: 101 };
    test.memory.counts = false;
    test.output = Output {
        stdout: b"assertion <left> & ]]> \x1b[31mred\x1b[0m \x07\x00\xff".to_vec(),
        stderr: b"\x1b]0;title\x07done".to_vec(),
        dropped_bytes: 3,
    };
    test
}

/// A run with one target that was not checked.
pub fn run(tests: Vec<CheckedTest>) -> Run {
    Run {
        tests,
        targets: vec![Target {
            package: "a".into(),
            name: "a".into(),
            kind: "lib",
            id: "a".into(),
            tests: Some(3),
            ignored: 1,
            selected: 2,
            covered: Covered::ByTest,
        }],
        not_checked: vec![NotChecked {
            what: "a: doc tests".into(),
            reason: "cannot be run one by one".into(),
        }],
        duration: Duration::from_millis(1234),
        recorder: Recorder::Uprobe,
        steered: Steered::default(),
        interrupted: false,
        exit: Exit::FailedAndLeaks,
    }
}
