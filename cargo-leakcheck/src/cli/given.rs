//! What the command line sets of what can be configured.

use std::num::NonZeroUsize;

use super::args::{CountArg, RecorderArg, RunArgs};
use crate::config::{Given, Key, Layer, Origin, Value};
use crate::options::{Count, Recorder};

/// The values of the options that were given; `jobs` with whatever name.
pub fn layer(run: &RunArgs, jobs: Option<NonZeroUsize>) -> Layer {
    let number = |number: Option<u64>| number.map(Value::Number);
    let entries = |entries: Option<u32>| entries.map(u64::from).map(Value::Number);
    // A switch that is not given says nothing.
    let on = |given: bool| given.then_some(Value::Switch(true));
    // A limit says that its objects are to be looked at.
    let off = |given: bool, limit: Option<u64>| on(given).or(limit.map(|_| Value::Switch(false)));
    let count = run.count.map(|count| match count {
        CountArg::Lost => Count::Lost,
        CountArg::Outstanding => Count::Outstanding,
    });
    let recorder = run.recorder.map(|recorder| match recorder {
        RecorderArg::Auto => Recorder::Auto,
        RecorderArg::Ledger => Recorder::Ledger,
        RecorderArg::Uprobe => Recorder::Uprobe,
    });
    let values = [
        (Key::Fds, "fds", number(run.fds)),
        (Key::Ipc, "ipc", number(run.ipc)),
        (Key::Children, "children", number(run.children)),
        (Key::Threads, "threads", number(run.threads)),
        (Key::Count, "count", count.map(Value::Count)),
        (Key::CountFailed, "count-failed", on(run.count_failed)),
        (Key::CountShouldPanic, "count-should-panic", on(run.count_should_panic)),
        (Key::DenyBadFrees, "deny-bad-frees", on(run.deny_bad_frees)),
        (Key::NoFds, if run.no_fds { "no-fds" } else { "fds" }, off(run.no_fds, run.fds)),
        (Key::NoIpc, if run.no_ipc { "no-ipc" } else { "ipc" }, off(run.no_ipc, run.ipc)),
        (
            Key::NoFiles,
            if run.no_files { "no-files" } else { "files" },
            on(run.no_files).or(run.files.then_some(Value::Switch(false))),
        ),
        (
            Key::NoChildren,
            if run.no_children { "no-children" } else { "children" },
            off(run.no_children, run.children.or(run.threads)),
        ),
        (Key::FollowChildren, "follow-children", on(run.follow_children)),
        (Key::FreeStacks, "free-stacks", on(run.free_stacks)),
        (Key::Timeout, "timeout", run.timeout.map(Value::Time)),
        (Key::Recorder, "recorder", recorder.map(Value::Recorder)),
        (Key::Jobs, "jobs", number(jobs.map(|jobs| jobs.get() as u64))),
        (Key::FullStacks, "full-stacks", on(run.full_stacks)),
        (Key::MaxBlocks, "max-blocks", entries(run.max_blocks)),
        (Key::MaxStacks, "max-stacks", entries(run.max_stacks)),
        (Key::MaxThreads, "max-threads", entries(run.max_threads)),
        (Key::MaxBadFrees, "max-bad-frees", entries(run.max_bad_frees)),
        (Key::MaxFiles, "max-files", entries(run.max_files)),
    ];
    let given = |(key, name, value): (_, _, Option<Value>)| {
        Some((key, Given { value: value?, origin: Origin::Option(name) }))
    };
    values.into_iter().filter_map(given).collect()
}
