//! What the values mean for a run and for a test.

use std::sync::Arc;

use super::key::{Key, Value};
use super::layer::{Layer, Origin};
use crate::model::{Budget, PlannedTest};
use crate::options::{JudgeOptions, Policy, ReportOptions, TraceOptions};

/// Sets what concerns the tracer and the judge. Limits that files set are none of the judge's options: they
/// are the tests' own (see [`budget`]).
pub fn options(layer: &Layer, trace: &mut TraceOptions, judge: &mut JudgeOptions) {
    for (key, given) in layer {
        match (*key, &given.value) {
            (Key::Timeout, Value::Time(time)) => trace.timeout = Some(*time),
            (Key::Recorder, Value::Recorder(recorder)) => trace.recorder = *recorder,
            (Key::FollowChildren, Value::Switch(on)) => trace.follow_children = *on,
            (Key::FreeStacks, Value::Switch(on)) => trace.free_stacks = *on,
            (Key::NoFds, Value::Switch(off)) => trace.descriptors = !off,
            (Key::NoIpc, Value::Switch(off)) => trace.ipc = !off,
            (Key::NoFiles, Value::Switch(off)) => trace.files = !off,
            (Key::NoChildren, Value::Switch(off)) => trace.children = !off,
            (Key::Count, Value::Count(count)) => judge.count = *count,
            (Key::CountFailed, Value::Switch(on)) => judge.count_failed = *on,
            (Key::CountShouldPanic, Value::Switch(on)) => judge.count_should_panic = *on,
            (Key::DenyBadFrees, Value::Switch(on)) => judge.count_bad_frees = *on,
            (Key::Jobs, Value::Number(jobs)) => trace.jobs = usize::try_from(*jobs).unwrap_or(usize::MAX),
            (Key::MaxBlocks, Value::Number(entries)) => trace.max_blocks = table(*entries),
            (Key::MaxStacks, Value::Number(entries)) => trace.max_stacks = table(*entries),
            (Key::MaxThreads, Value::Number(entries)) => trace.max_threads = table(*entries),
            (Key::MaxBadFrees, Value::Number(entries)) => trace.max_bad_frees = table(*entries),
            (Key::MaxFiles, Value::Number(entries)) => trace.max_files = table(*entries),
            _ => {}
        }
    }
}

/// Sets what concerns the report.
pub fn report(layer: &Layer, report: &mut ReportOptions) {
    if let Some(Value::Switch(on)) = layer.get(&Key::FullStacks).map(|given| &given.value) {
        report.full_stacks = *on;
    }
}

/// Adds the limits that files set, where the test has none of its own. (Those of the command line are the judge's
/// already.)
pub fn budget(layer: &Layer, budget: &mut Budget) {
    for (key, given) in layer {
        if matches!(given.origin, Origin::Option(_)) {
            continue;
        }
        let limit = match (*key, &given.value) {
            (Key::Ignore, Value::Reason(reason)) => {
                budget.ignore.get_or_insert_with(|| reason.clone());
                continue;
            }
            (key, Value::Number(limit)) => own(budget, key).map(|own| (own, *limit)),
            _ => None,
        };
        if let Some((own, limit)) = limit {
            own.get_or_insert(limit);
        }
    }
}

/// The limit of a budget that a key sets.
pub fn own(budget: &mut Budget, key: Key) -> Option<&mut Option<u64>> {
    Some(match key {
        Key::Bytes => &mut budget.bytes,
        Key::Blocks => &mut budget.blocks,
        Key::ReachableBytes => &mut budget.reachable_bytes,
        Key::ReachableBlocks => &mut budget.reachable_blocks,
        Key::OutstandingBytes => &mut budget.outstanding_bytes,
        Key::Fds => &mut budget.fds,
        Key::Ipc => &mut budget.ipc,
        Key::Children => &mut budget.children,
        Key::Threads => &mut budget.threads,
        _ => return None,
    })
}

/// What a test has otherwise than the run.
pub fn test(layer: &Layer, trace: &TraceOptions, judge: &JudgeOptions, test: &mut PlannedTest) {
    let mut policy = Policy { trace: trace.clone(), judge: *judge };
    options(layer, &mut policy.trace, &mut policy.judge);
    budget(layer, &mut test.budget);
    test.policy = Some(Arc::new(policy));
}

fn table(entries: u64) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}
