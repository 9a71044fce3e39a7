//! From what the tracer has seen of each test to a verdict, as tests end.

use std::cmp::Reverse;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::accept::Accepting;
use crate::judge::weigh;
use crate::model::{CheckedTest, Finding, Judged, Leak, OwnCode, PlannedTest, Ran, Seen, TestName};
use crate::options::{Options, TraceOptions};
use crate::progress::Progress;
use crate::snapshot::{Loss, Snapshot};
use crate::symbolize::Symbolizer;
use crate::trace::{Child, Event, Traced};
use crate::{classify, judge, sys};

/// Analyses tests as they end; `finished` is told of each.
pub fn analyse(
    receiver: mpsc::Receiver<Event>,
    mut symbolizer: Symbolizer,
    (own, accepting): (&OwnCode, &Accepting),
    options: &Options,
    finished: &dyn Fn(&CheckedTest),
    weighing: &dyn Fn(usize),
    progress: &Progress,
) -> Vec<CheckedTest> {
    let mut checked: Vec<(usize, CheckedTest)> = Vec::new();
    for event in receiver {
        match event {
            // A test that was cut short by the user's interrupt has no result.
            Event::Finished(traced) | Event::Weighed(traced) if traced.interrupted => {}
            Event::Finished(traced) => {
                let number = traced.number;
                let test = examine(*traced, &mut symbolizer, (own, accepting), options, progress);
                finished(&test);
                progress.advance();
                checked.push((number, test));
            }
            Event::Weigh { numbers, wanted } => {
                let is_wanted = |number: &usize| {
                    checked.iter().any(|(of, test)| of == number && weigh::is_wanted(&test.memory))
                };
                let numbers: Vec<usize> = numbers.into_iter().filter(is_wanted).collect();
                weighing(numbers.len());
                // If nobody receives, the tracer has panicked, and that is what shows.
                drop(wanted.send(numbers));
            }
            Event::Weighed(traced) => {
                let first = checked.iter_mut().find(|(number, _)| *number == traced.number);
                if let Some((_, first)) = first.filter(|(_, first)| first.outcome == traced.ran.outcome) {
                    let second = symbolizer.explain_left(&traced.ran.memory);
                    weigh::take_over(&mut first.memory.left.descriptors, second.descriptors);
                    let how = first.test.judging();
                    judge::judge_again(first, &how);
                }
            }
            // Those were the tracer's own.
            Event::Ready(_)
            | Event::ByUprobe { .. }
            | Event::NotForked { .. }
            | Event::Started { .. }
            | Event::Followed(_) => {}
        }
    }
    checked.sort_by_key(|(number, _)| *number);
    checked.into_iter().map(|(_, test)| test).collect()
}

/// From snapshots to a verdict: the pure stages.
fn examine(
    traced: Traced,
    symbolizer: &mut Symbolizer,
    (own, accepting): (&OwnCode, &Accepting),
    options: &Options,
    progress: &Progress,
) -> CheckedTest {
    let second = traced.second;
    let Ran { mut test, outcome, duration, output, recorded_by, spawned, allocators, mut memory } =
        traced.ran;
    test.should_panic |= is_should_panic(&test, &output.stdout);
    let files = memory.files.take();
    let Seen { mut findings, mut left, mut heap, mut losses } =
        explain(memory, symbolizer, options, progress);
    let second = second.map(|second| (second.ran.memory, second.children));
    let mut frees = Vec::new();
    let children = second.map(|(memory, children)| {
        let seen = symbolizer.explain_left(&memory);
        frees = symbolizer.explain(&memory, classify::classify(&memory));
        judge::explain::take_over(&mut left, seen, memory.of_others);
        children
    });
    for Child { process, snapshot } in children.into_iter().flatten() {
        let process: Arc<str> = own.shown(&process).into();
        let seen = symbolizer.explain(&snapshot, classify::classify(&snapshot));
        frees.extend(seen.into_iter().map(|it| Finding { process: Some(process.clone()), ..it }));
    }
    for Child { process, snapshot } in traced.children {
        let process: Arc<str> = own.shown(&process).into();
        // Its descriptors and threads have ended with it, and IPC objects are in the test's namespace.
        let child = explain(snapshot, symbolizer, options, progress);
        findings
            .extend(child.findings.into_iter().map(|it| Finding { process: Some(process.clone()), ..it }));
        heap = heap.zip(child.heap).map(|(own, childs)| own + childs);
        let loss = |loss| Loss::Child { process: process.clone(), loss: Box::new(loss) };
        losses.extend(child.losses.into_iter().map(loss));
    }
    judge::explain::frees(&mut findings, frees);
    findings.sort_by_key(|finding| (finding.kind, Reverse(finding.measure)));
    let how = test.judging();
    let panics = test.should_panic;
    let looked = looked_at(test.trace(&options.trace));
    let accepted = |seen: &Seen| {
        let can_fail = |item, leak| match item {
            Some(item) => judge::can_fail(&test, seen, item, leak),
            None => judge::counts(&test.budget, &how, leak) && looked(leak),
        };
        accepting.of(&test, seen, &can_fail, &|by_rules| judge::failing(&test, &outcome, seen, by_rules))
    };
    let seen = Seen { findings, left, heap, losses };
    let memory = judge::judge(&test.budget, &outcome, panics, seen, &how, &accepted);
    let memory = Judged { files, ..memory };
    Ran { test, outcome, duration, output, recorded_by, spawned, allocators, memory }
}

/// What is known of one process.
fn explain(
    mut snapshot: Snapshot,
    symbolizer: &mut Symbolizer,
    options: &Options,
    progress: &Progress,
) -> Seen {
    let start = Instant::now();
    let findings = classify::classify(&snapshot);
    snapshot.left.growth = classify::growth(&snapshot);
    // The large part of it, which nobody needs any more.
    drop((std::mem::take(&mut snapshot.blocks), std::mem::take(&mut snapshot.references)));
    if options.report.timings {
        progress.print(&timings(snapshot.taken_in, start.elapsed()));
    }
    let left = symbolizer.explain_left(&snapshot);
    let findings = symbolizer.explain(&snapshot, findings);
    Seen { findings, left, heap: snapshot.heap, losses: snapshot.losses }
}

/// What is looked at, by how a test is traced.
pub fn looked_at(trace: &TraceOptions) -> impl Fn(Leak) -> bool + use<> {
    let TraceOptions { descriptors, ipc, children, mappings, .. } = *trace;
    move |leak| match leak {
        Leak::Memory(_) => true,
        Leak::Descriptor => descriptors,
        Leak::Ipc => ipc,
        Leak::Child | Leak::Thread => children,
        Leak::Mapping => mappings,
    }
}

/// How long a leak check took, in microseconds, and the most memory that the tool has had so far.
fn timings(harvest: Duration, classify: Duration) -> String {
    let peak = sys::status("self", "VmHWM").unwrap_or_else(|| "unknown".to_owned());
    let (harvest, classify) = (harvest.as_micros(), classify.as_micros());
    format!("leak check: {harvest} us to harvest, {classify} us to classify, peak memory {peak}\n")
}

/// libtest lists `#[should_panic]` tests like all others, but says so when it runs one.
fn is_should_panic(test: &PlannedTest, stdout: &[u8]) -> bool {
    let TestName::Listed(name) = &test.name else { return false };
    let start = format!("test {name} - should panic");
    stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(start.as_bytes()))
}
