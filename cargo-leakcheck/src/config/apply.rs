//! What the values mean for a run and for a test.

use std::sync::Arc;

use super::key::{Key, Value};
use super::layer::{Layer, Origin};
use crate::model::{Budget, PlannedTest};
use crate::options::{
    AcceptOptions, JudgeOptions, KernelBytes, Options, Policy, ReportOptions, TraceOptions,
};

/// Sets what concerns the tracer.
pub fn trace(layer: &Layer, trace: &mut TraceOptions) {
    for (key, given) in layer {
        match (*key, &given.value) {
            (Key::Timeout, Value::Time(time)) => trace.timeout = Some(*time),
            (Key::Retries, Value::Number(retries)) => trace.retries = small(*retries),
            (Key::MaxFail, Value::Number(tests)) => trace.max_fail = Some(size(*tests)),
            (Key::Recorder, Value::Recorder(recorder)) => trace.recorder = *recorder,
            (Key::Spawn, Value::Spawn(spawn)) => trace.spawn = *spawn,
            (Key::RequireEbpf, Value::Switch(on)) => trace.require_ebpf = *on,
            (Key::FollowChildren, Value::Switch(on)) => trace.follow_children = *on,
            (Key::FreeStacks, Value::Switch(on)) => trace.free_stacks = *on,
            (Key::PeakStacks, Value::Switch(on)) => trace.peak_stacks = *on,
            (Key::KernelReport, Value::Switch(on)) => trace.kernel_report = *on,
            (Key::NoFds, Value::Switch(off)) => trace.descriptors = !off,
            (Key::NoIpc, Value::Switch(off)) => trace.ipc = !off,
            (Key::NoFiles, Value::Switch(off)) => trace.files = !off,
            (Key::NoChildren, Value::Switch(off)) => trace.children = !off,
            (Key::NoMappings, Value::Switch(off)) => trace.mappings = !off,
            (Key::Jobs, Value::Number(jobs)) => trace.jobs = size(*jobs),
            (Key::MaxBlocks, Value::Number(entries)) => trace.max_blocks = small(*entries),
            (Key::MaxStacks, Value::Number(entries)) => trace.max_stacks = small(*entries),
            (Key::MaxThreads, Value::Number(entries)) => trace.max_threads = small(*entries),
            (Key::MaxBadFrees, Value::Number(entries)) => trace.max_bad_frees = small(*entries),
            (Key::MaxFiles, Value::Number(entries)) => trace.max_files = small(*entries),
            _ => {}
        }
    }
    trace.kernel_bytes = if is_on(layer, Key::NoKernelBytes) || !trace.descriptors {
        KernelBytes::Off
    } else if layer.contains_key(&Key::KernelBytes) || trace.kernel_report {
        KernelBytes::Always
    } else {
        KernelBytes::IfLeft
    };
}

/// Sets what concerns the judge. Limits that files set are none of the judge's options: they are the tests' own (see
/// [`budget`]).
pub fn judge(layer: &Layer, judge: &mut JudgeOptions) {
    for (key, given) in layer {
        let by_option = matches!(given.origin, Origin::Option(_));
        match (*key, &given.value) {
            (Key::Count, Value::Count(count)) => judge.count = *count,
            (Key::CountFailed, Value::Switch(on)) => judge.count_failed = *on,
            (Key::CountShouldPanic, Value::Switch(on)) => judge.count_should_panic = *on,
            (Key::DenyBadFrees, Value::Switch(on)) => judge.count_bad_frees = *on,
            (Key::Dependencies, Value::Dependencies(what)) => judge.dependencies = *what,
            (Key::Fds, Value::Number(limit)) if by_option => judge.fds = Some(*limit),
            (Key::KernelBytes, Value::Number(limit)) if by_option => judge.kernel_bytes = Some(*limit),
            (Key::Ipc, Value::Number(limit)) if by_option => judge.ipc = *limit,
            (Key::Children, Value::Number(limit)) if by_option => judge.children = Some(*limit),
            (Key::Threads, Value::Number(limit)) if by_option => judge.threads = Some(*limit),
            (Key::MappedBytes, Value::Number(limit)) if by_option => judge.mapped_bytes = Some(*limit),
            (Key::Growth, Value::Number(times)) => judge.growth = Some(*times),
            (Key::PeakBytes, Value::Number(limit)) if by_option => judge.peak_bytes = Some(*limit),
            (Key::TotalBlocks, Value::Number(limit)) if by_option => judge.total_blocks = Some(*limit),
            _ => {}
        }
    }
}

/// Sets what concerns what is accepted.
pub fn accept(layer: &Layer, accept: &mut AcceptOptions) {
    accept.deny_unused_rules |= is_on(layer, Key::DenyUnusedRules);
}

/// Sets what concerns the report.
pub fn report(layer: &Layer, report: &mut ReportOptions) {
    for (key, given) in layer {
        match (*key, &given.value) {
            (Key::FullStacks, Value::Switch(on)) => report.full_stacks = *on,
            (Key::Files, Value::Switch(on)) => report.files = *on,
            (Key::Github, Value::When(when)) => report.github = *when,
            _ => {}
        }
    }
}

/// Whether a switch is set and on.
pub fn is_on(layer: &Layer, key: Key) -> bool {
    layer.get(&key).is_some_and(|given| given.value == Value::Switch(true))
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
        Key::KernelBytes => &mut budget.kernel_bytes,
        Key::Ipc => &mut budget.ipc,
        Key::Children => &mut budget.children,
        Key::Threads => &mut budget.threads,
        Key::MappedBytes => &mut budget.mapped_bytes,
        Key::Warmup => &mut budget.warmup,
        Key::BytesPerIteration => &mut budget.bytes_per_iteration,
        Key::PeakBytes => &mut budget.peak_bytes,
        Key::TotalBlocks => &mut budget.total_blocks,
        _ => return None,
    })
}

/// Gives a test what it has otherwise than the run, whose options these are.
pub fn policy(layer: &Layer, options: &Options, test: &mut PlannedTest) {
    let mut policy = Policy { trace: options.trace.clone() };
    trace(layer, &mut policy.trace);
    judge(layer, &mut test.judge);
    test.policy = Some(Arc::new(policy));
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
