//! The JSON document. Its shape is public and described by `report.schema.json`.

use serde::Serialize;

use super::{Format, NotChecked, Run, Summary, View};
use crate::model::{Budget, CheckedTest, Finding, FindingKind, Frame, Measure, Outcome, Verdict};
use crate::snapshot::Loss;
use crate::symbolize::site;

/// One JSON document.
pub struct Json;

impl Format for Json {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let document = Document {
            format: "leakcheck-report/1",
            recorder: run.recorder,
            exit_code: run.exit as u8,
            interrupted: run.interrupted,
            duration_ns: nanoseconds(run.duration),
            summary: run.summary(),
            tests: run.tests.iter().map(|checked| test(checked, view)).collect(),
            not_checked: &run.not_checked,
        };
        let mut bytes = serde_json::to_vec_pretty(&document).expect("plain data has a JSON form");
        bytes.push(b'\n');
        bytes
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    recorder: &'a str,
    exit_code: u8,
    interrupted: bool,
    duration_ns: u64,
    summary: Summary,
    tests: Vec<Test<'a>>,
    not_checked: &'a [NotChecked],
}

#[derive(Serialize)]
struct Test<'a> {
    package: &'a str,
    binary: String,
    name: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    verdict: &'static str,
    reasons: Vec<String>,
    counts: bool,
    duration_ns: u64,
    budget: Limits<'a>,
    definitely_lost: Measure,
    indirectly_lost: Measure,
    possibly_lost: Measure,
    still_reachable: Measure,
    bad_frees: u64,
    findings: Vec<Found<'a>>,
    losses: Vec<Lost>,
    output: Written<'a>,
}

#[derive(Serialize)]
struct Limits<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outstanding_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore: Option<&'a str>,
}

#[derive(Serialize)]
struct Found<'a> {
    kind: FindingKind,
    bytes: u64,
    blocks: u64,
    below: Measure,
    held_by: Option<&'a str>,
    site: Option<Site<'a>>,
    stack: Option<Vec<StackFrame<'a>>>,
}

#[derive(Serialize)]
struct Site<'a> {
    file: &'a str,
    line: Option<u32>,
    column: Option<u32>,
}

#[derive(Serialize)]
struct StackFrame<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    module: Option<&'a str>,
    address: u64,
    inlined: bool,
    own: bool,
}

#[derive(Serialize)]
struct Lost {
    kind: &'static str,
    message: String,
}

#[derive(Serialize)]
struct Written<'a> {
    stdout: std::borrow::Cow<'a, str>,
    stderr: std::borrow::Cow<'a, str>,
    dropped_bytes: u64,
}

fn test<'a>(checked: &'a CheckedTest, view: &'a View) -> Test<'a> {
    let CheckedTest { test, outcome, duration, output, memory } = checked;
    let (exit_code, signal) = match outcome {
        Outcome::Passed => (Some(0), None),
        Outcome::Failed { code } => (Some(*code), None),
        Outcome::Signalled { signal } => (None, Some(*signal)),
        Outcome::TimedOut | Outcome::NotStarted { .. } => (None, None),
    };
    let (verdict, reasons) = match &memory.verdict {
        Verdict::Clean => ("clean", Vec::new()),
        Verdict::Leaks(reasons) => ("leaks", reasons.clone()),
        Verdict::Incomplete(losses) => ("incomplete", losses.iter().map(ToString::to_string).collect()),
        Verdict::NotChecked(reason) => ("not_checked", vec![reason.clone()]),
    };
    let Budget { bytes, blocks, reachable_bytes, reachable_blocks, outstanding_bytes, ignore } = &test.budget;
    Test {
        package: &test.binary.package,
        binary: test.binary.id(),
        name: test.name.as_str(),
        outcome: match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed { .. } => "failed",
            Outcome::Signalled { .. } => "signalled",
            Outcome::TimedOut => "timed_out",
            Outcome::NotStarted { .. } => "not_started",
        },
        exit_code,
        signal,
        verdict,
        reasons,
        counts: memory.counts,
        duration_ns: nanoseconds(*duration),
        budget: Limits {
            bytes: *bytes,
            blocks: *blocks,
            reachable_bytes: *reachable_bytes,
            reachable_blocks: *reachable_blocks,
            outstanding_bytes: *outstanding_bytes,
            ignore: ignore.as_deref(),
        },
        definitely_lost: memory.totals.definitely_lost,
        indirectly_lost: memory.totals.indirectly_lost,
        possibly_lost: memory.totals.possibly_lost,
        still_reachable: memory.totals.still_reachable,
        bad_frees: memory.totals.bad_frees,
        findings: memory.findings.iter().map(|finding| found(finding, view)).collect(),
        losses: memory
            .losses
            .iter()
            .map(|loss| Lost { kind: kind(loss), message: loss.to_string() })
            .collect(),
        output: Written {
            stdout: String::from_utf8_lossy(&output.stdout),
            stderr: String::from_utf8_lossy(&output.stderr),
            dropped_bytes: output.dropped_bytes,
        },
    }
}

fn found<'a>(finding: &'a Finding<Vec<Frame>>, view: &'a View) -> Found<'a> {
    let shown = |file: &'a Option<String>| file.as_deref().map(|file| view.own.shown(file));
    let frame = |frame: &'a Frame| StackFrame {
        function: frame.function.as_deref(),
        file: shown(&frame.file),
        line: frame.line,
        column: frame.column,
        module: frame.module.as_deref(),
        address: frame.address,
        inlined: frame.inlined,
        own: frame.own,
    };
    let site = finding.stack.as_deref().and_then(|frames| site(frames, &view.own));
    Found {
        kind: finding.kind,
        bytes: finding.measure.bytes,
        blocks: finding.measure.blocks,
        below: finding.below,
        held_by: finding.held_by.as_deref(),
        site: site.and_then(|f| Some(Site { file: shown(&f.file)?, line: f.line, column: f.column })),
        stack: finding.stack.as_ref().map(|frames| frames.iter().map(frame).collect()),
    }
}

/// The public name of a kind of loss.
fn kind(loss: &Loss) -> &'static str {
    match loss {
        Loss::Blocks { .. } => "blocks",
        Loss::Stacks { .. } => "stacks",
        Loss::BadFrees { .. } => "bad_frees",
        Loss::Results { .. } => "results",
        Loss::Log { .. } => "log",
        Loss::NoCanary { .. } => "no_canary",
        Loss::NoBody => "no_body",
        Loss::Allocator { .. } => "allocator",
        Loss::Threads { .. } => "threads",
        Loss::Exec => "exec",
        Loss::Vanished { .. } => "vanished",
        Loss::Memory { .. } => "memory",
    }
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::testing;

    fn document(tests: Vec<CheckedTest>) -> Value {
        serde_json::from_slice(&Json.bytes(&testing::run(tests), &testing::view())).unwrap()
    }

    fn valid(document: &Value) -> Result<(), String> {
        let schema: Value = serde_json::from_str(include_str!("../../report.schema.json")).unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        validator.validate(document).map_err(|error| format!("{}: {error}", error.instance_path()))
    }

    fn all() -> Vec<CheckedTest> {
        let mut lost = testing::leaking("lost");
        lost.memory.findings[0].stack = None;
        let mut unknown = testing::leaking("unknown");
        let frames = unknown.memory.findings[0].stack.as_mut().unwrap();
        *frames = vec![Frame { address: 7, ..Frame::default() }];
        vec![
            testing::leaking("leaks"),
            testing::failing("fails"),
            lost,
            unknown,
            testing::test("segv", Outcome::Signalled { signal: 11 }, Verdict::Incomplete(vec![Loss::Exec])),
            testing::test("slow", Outcome::TimedOut, Verdict::NotChecked("cache".into())),
            testing::test("gone", Outcome::NotStarted { reason: "x".into() }, Verdict::Clean),
        ]
    }

    #[test]
    fn the_document_has_the_public_shape() {
        let document = document(vec![testing::leaking("leaks")]);
        let test = json!({
            "package": "a", "binary": "a", "name": "leaks", "outcome": "passed", "exit_code": 0, "verdict": "leaks",
            "reasons": ["4096 B definitely lost in 1 block (budget 0 B)"], "counts": true, "duration_ns": 12_000_000,
            "budget": {"bytes": 0},
            "definitely_lost": {"bytes": 4096, "blocks": 1}, "indirectly_lost": {"bytes": 0, "blocks": 0},
            "possibly_lost": {"bytes": 0, "blocks": 0}, "still_reachable": {"bytes": 0, "blocks": 0}, "bad_frees": 0,
            "findings": [{
                "kind": "definitely_lost", "bytes": 4096, "blocks": 1, "below": {"bytes": 0, "blocks": 0},
                "held_by": null, "site": {"file": "src/lib.rs", "line": 12, "column": 9},
                "stack": [
                    {"function": "alloc::alloc::exchange_malloc", "file": "/rustc/1/library/alloc/src/alloc.rs",
                     "line": 400, "column": null, "module": "/w/target/a-1", "address": 0x1000, "inlined": true,
                     "own": false},
                    {"function": "a::tests::leaks", "file": "src/lib.rs", "line": 12, "column": 9,
                     "module": "/w/target/a-1", "address": 0x1000, "inlined": false, "own": true},
                ],
            }],
            "losses": [], "output": {"stdout": "", "stderr": "", "dropped_bytes": 0},
        });
        assert_eq!(
            document,
            json!({
                "format": "leakcheck-report/1", "recorder": "uprobe", "exit_code": 3, "interrupted": false,
                "duration_ns": 1_234_000_000,
                "summary": {"tests": 1, "clean": 0, "leaking": 1, "leaking_not_counted": 0, "failed": 0,
                            "incomplete": 0, "not_checked": 1},
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

    #[test]
    fn unknown_places_are_null() {
        let document = document(all());
        assert_eq!(document["tests"][2]["findings"][0]["stack"], Value::Null);
        assert_eq!(document["tests"][2]["findings"][0]["site"], Value::Null);
        assert_eq!(document["tests"][3]["findings"][0]["site"], Value::Null);
        assert_eq!(document["tests"][1]["output"]["stderr"], "\u{1b}]0;title\u{7}done");
    }
}
