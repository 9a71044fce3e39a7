//! The JSON document. Its shape is public and described by `report.schema.json`.

mod accepted;
mod at_peak;
mod chain;
mod growth;
mod heap;
mod kernel;
mod limits;
mod lost;
mod read;

use serde::Serialize;

use super::{Format, Run, Summary, View, targets};
use crate::model::{
    Attempts, CheckedTest, Compared, Finding, FindingKind, Frame, Hit, LeftFiles, Measure, NotChecked,
    Outcome, Owner, RecordedBy, Scope, Spawned, Verdict,
};
use crate::symbolize::site;
use kernel::Kernel;
pub(super) use limits::Limits;
use lost::Lost;

pub use lost::kind;
pub use read::read;

/// Name and version of the format.
const FORMAT: &str = "leakcheck-report/1";

/// One JSON document.
pub struct Json;

impl Format for Json {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let tests = run.tests.iter().map(|checked| test(checked, view)).collect();
        let document = document(run, Some(tests));
        let mut bytes = serde_json::to_vec(&document).expect("plain data has a JSON form");
        bytes.push(b'\n');
        bytes
    }
}

/// The document of a run, with tests or without.
pub(super) fn document<'a>(run: &'a Run, tests: Option<Vec<Test<'a>>>) -> Document<'a> {
    Document {
        format: FORMAT,
        recorder: run.recorder().0,
        recorder_reason: run.recorder().1,
        steering: Steering {
            by: run.steered.by(),
            reason: run.steered.without_ebpf.as_deref(),
            checks_off: run.steered.checks_off(),
        },
        exit_code: run.exit as u8,
        interrupted: run.interrupted,
        duration_ns: nanoseconds(run.duration),
        summary: run.summary(),
        targets: targets::rows(run),
        tests,
        not_checked: &run.not_checked,
    }
}

#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    recorder: &'static str,
    recorder_reason: &'static str,
    steering: Steering<'a>,
    exit_code: u8,
    interrupted: bool,
    duration_ns: u64,
    summary: Summary,
    targets: Vec<targets::Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<Vec<Test<'a>>>,
    not_checked: &'a [NotChecked],
}

#[derive(Serialize)]
struct Steering<'a> {
    by: &'static str,
    reason: Option<&'a str>,
    checks_off: Vec<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Test<'a> {
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
    #[serde(skip_serializing_if = "is_first")]
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Attempts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<Compared>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<accepted::Row>,
    #[serde(skip_serializing_if = "<[Hit]>::is_empty")]
    rules: &'a [Hit],
    duration_ns: u64,
    recorder: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder_reason: Option<&'a str>,
    spawn: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawn_reason: Option<&'a str>,
    allocators: &'a [String],
    budget: Limits<'a>,
    definitely_lost: Measure,
    indirectly_lost: Measure,
    possibly_lost: Measure,
    still_reachable: Measure,
    bad_frees: u64,
    heap: Option<heap::Row>,
    findings: Vec<Found<'a>>,
    kernel: Kernel<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<growth::Row<'a, StackFrame<'a>, Site<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_peak: Option<at_peak::Row<'a, StackFrame<'a>, Site<'a>>>,
    temporary_files: Option<&'a LeftFiles>,
    losses: Vec<Lost<'a>>,
    output: Written<'a>,
}

#[derive(Serialize)]
pub(super) struct Found<'a> {
    kind: FindingKind,
    bytes: u64,
    blocks: u64,
    below: Measure,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<Vec<StackFrame<'a>>>,
    held_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    owner: &'a Owner,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a Scope>,
    chain: Vec<chain::Row<'a, StackFrame<'a>>>,
    site: Option<Site<'a>>,
    stack: Option<Vec<StackFrame<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freed_first: Option<Vec<StackFrame<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<Vec<StackFrame<'a>>>,
}

#[derive(Serialize)]
struct Site<'a> {
    file: &'a str,
    line: Option<u32>,
    column: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct StackFrame<'a> {
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
struct Written<'a> {
    stdout: std::borrow::Cow<'a, str>,
    stderr: std::borrow::Cow<'a, str>,
    dropped_bytes: u64,
}

pub(super) fn test<'a>(checked: &'a CheckedTest, view: &'a View) -> Test<'a> {
    test_with(checked, view, checked.memory.findings.iter().map(|finding| found(finding, view)).collect())
}

/// The test with other findings than its own.
pub(super) fn test_with<'a>(checked: &'a CheckedTest, view: &'a View, findings: Vec<Found<'a>>) -> Test<'a> {
    let CheckedTest { test, outcome, duration, output, recorded_by, spawned, allocators, memory } = checked;
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
        attempt: test.attempt,
        attempts: memory.attempts,
        baseline: memory.acceptance.baseline,
        accepted: accepted::rows(&memory.acceptance),
        rules: &memory.acceptance.hits,
        duration_ns: nanoseconds(*duration),
        recorder: recorded_by.as_ref().map(RecordedBy::name),
        recorder_reason: recorded_by.as_ref().and_then(RecordedBy::because),
        spawn: spawned.as_ref().map(Spawned::name),
        spawn_reason: spawned.as_ref().and_then(Spawned::because),
        allocators,
        budget: Limits::of(&test.budget),
        definitely_lost: memory.totals.definitely_lost,
        indirectly_lost: memory.totals.indirectly_lost,
        possibly_lost: memory.totals.possibly_lost,
        still_reachable: memory.totals.still_reachable,
        bad_frees: memory.totals.bad_frees,
        heap: memory.heap.map(Into::into),
        findings,
        kernel: Kernel::of(memory, view),
        growth: memory.left.growth.as_ref().map(|growth| growth::Row::of(growth, view)),
        at_peak: memory.left.at_peak.as_ref().map(|at_peak| at_peak::Row::of(at_peak, view)),
        temporary_files: memory.files.as_ref(),
        losses: memory.losses.iter().map(Lost::of).collect(),
        output: Written {
            stdout: String::from_utf8_lossy(&output.stdout),
            stderr: String::from_utf8_lossy(&output.stderr),
            dropped_bytes: output.dropped_bytes,
        },
    }
}

fn found<'a>(finding: &'a Finding<Vec<Frame>>, view: &'a View) -> Found<'a> {
    let frames = |stack: &'a Vec<Frame>| frames(stack, view);
    Found {
        stack: finding.stack.as_ref().map(frames),
        root: finding.root.as_ref().map(frames),
        freed_first: finding.before.freed.as_ref().map(frames),
        allocated: finding.before.allocated.as_ref().map(frames),
        ..without_stacks(finding, view)
    }
}

/// The finding without its call stacks.
pub(super) fn without_stacks<'a>(finding: &'a Finding<Vec<Frame>>, view: &'a View) -> Found<'a> {
    Found {
        kind: finding.kind,
        bytes: finding.measure.bytes,
        blocks: finding.measure.blocks,
        below: finding.below,
        root: None,
        held_by: finding.held_by.as_deref(),
        process: finding.process.as_deref(),
        type_name: finding.origin.type_name.as_deref(),
        owner: &finding.origin.owner,
        scope: finding.in_code.scope.as_deref(),
        chain: chain::rows(&finding.origin.chain, view),
        site: finding.stack.as_deref().and_then(|frames| place(frames, view)),
        stack: None,
        freed_first: None,
        allocated: None,
    }
}

fn frames<'a>(stack: &'a [Frame], view: &'a View) -> Vec<StackFrame<'a>> {
    stack.iter().map(|it| frame(it, view)).collect()
}

pub(super) fn frame<'a>(frame: &'a Frame, view: &'a View) -> StackFrame<'a> {
    StackFrame {
        function: frame.function.as_deref(),
        file: frame.file.as_deref().map(|file| view.own.shown(file)),
        line: frame.line,
        column: frame.column,
        module: frame.module.as_deref(),
        address: frame.address,
        inlined: frame.inlined,
        own: frame.own,
    }
}

fn place<'a>(stack: &'a [Frame], view: &'a View) -> Option<Site<'a>> {
    let Frame { file, line, column, .. } = site(stack, &view.own)?;
    Some(Site { file: view.own.shown(file.as_deref()?), line: *line, column: *column })
}

fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
