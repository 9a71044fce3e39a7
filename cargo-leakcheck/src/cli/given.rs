//! What the command line sets of what can be configured.

use std::num::NonZeroUsize;

use camino::{Utf8Path, Utf8PathBuf};

use super::Surroundings;
use super::args::RunArgs;
use crate::config::{Given, Key, Layer, Origin, Value};
use crate::options::ConfigOptions;

/// The configuration that is asked for; the workspace is that of `start`, a manifest or a directory. `jobs` are those that
/// are asked for, by the option or the name of another one.
pub fn config(
    run: &RunArgs,
    jobs: Option<(NonZeroUsize, &'static str)>,
    start: Option<Utf8PathBuf>,
    surroundings: &Surroundings,
) -> ConfigOptions {
    let by_variable = surroundings.variable("LEAKCHECK_PROFILE").filter(|name| !name.is_empty());
    ConfigOptions {
        given: layer(run, jobs),
        file: run.config_file.as_ref().map(|file| directory(surroundings).join(file)),
        profile: run.leakcheck_profile.clone().or(by_variable.map(str::to_owned)),
        start,
    }
}

/// Where relative paths begin.
pub fn directory(surroundings: &Surroundings) -> &Utf8Path {
    Utf8Path::from_path(&surroundings.directory).unwrap_or("".into())
}

/// The values of the options that were given.
pub fn layer(run: &RunArgs, jobs: Option<(NonZeroUsize, &'static str)>) -> Layer {
    let number = |number: Option<u64>| number.map(Value::Number);
    let entries = |entries: Option<u32>| number(entries.map(u64::from));
    let size = |size: Option<NonZeroUsize>| number(size.map(|size| size.get() as u64));
    // A switch that is not given says nothing.
    let on = |given: bool| given.then_some(Value::Switch(true));
    // Whoever asks for something wants it to be looked for.
    let off = |given: bool, asked: bool| on(given).or(asked.then_some(Value::Switch(false)));
    let max_fail = run.max_fail.or(run.fail_fast.then_some(NonZeroUsize::MIN));
    let by_max_fail = if run.fail_fast { "fail-fast" } else { "max-fail" };
    let retries = run.retries.or(max_fail.map(|_| 0));
    let asks_kernel_bytes = run.kernel_bytes.is_some();
    let asks_children = run.children.or(run.threads).is_some();
    let values = [
        (Key::Fds, "fds", number(run.fds)),
        (Key::KernelBytes, "kernel-bytes", number(run.kernel_bytes)),
        (Key::Ipc, "ipc", number(run.ipc)),
        (Key::Children, "children", number(run.children)),
        (Key::Threads, "threads", number(run.threads)),
        (Key::MappedBytes, "mapped-bytes", number(run.mapped_bytes)),
        (Key::Growth, "growth", number(run.growth)),
        (Key::PeakBytes, "peak-bytes", number(run.peak_bytes)),
        (Key::TotalBlocks, "total-blocks", number(run.total_blocks)),
        (Key::Count, "count", run.count.map(|count| Value::Count(count.into()))),
        (Key::CountFailed, "count-failed", on(run.count_failed)),
        (Key::CountShouldPanic, "count-should-panic", on(run.count_should_panic)),
        (Key::DenyUnusedRules, "deny-unused-rules", on(run.deny_unused_rules)),
        (Key::DenyBadFrees, "deny-bad-frees", on(run.deny_bad_frees)),
        (Key::Dependencies, "dependencies", run.dependencies.map(|what| Value::Dependencies(what.into()))),
        (
            Key::NoFds,
            either(&[(run.no_fds, "no-fds"), (run.fds.is_some(), "fds"), (true, "kernel-bytes")]),
            off(run.no_fds, run.fds.is_some() || asks_kernel_bytes),
        ),
        (
            Key::NoKernelBytes,
            either(&[(run.no_kernel_bytes, "no-kernel-bytes"), (true, "kernel-bytes")]),
            off(run.no_kernel_bytes, asks_kernel_bytes),
        ),
        (Key::NoIpc, either(&[(run.no_ipc, "no-ipc"), (true, "ipc")]), off(run.no_ipc, run.ipc.is_some())),
        (Key::NoFiles, either(&[(run.no_files, "no-files"), (true, "files")]), off(run.no_files, run.files)),
        (
            Key::NoChildren,
            either(&[
                (run.no_children, "no-children"),
                (run.children.is_some(), "children"),
                (true, "threads"),
            ]),
            off(run.no_children, asks_children),
        ),
        (
            Key::NoMappings,
            either(&[(run.no_mappings, "no-mappings"), (true, "mapped-bytes")]),
            off(run.no_mappings, run.mapped_bytes.is_some()),
        ),
        (Key::FollowChildren, "follow-children", on(run.follow_children)),
        (Key::FreeStacks, "free-stacks", on(run.free_stacks)),
        (
            Key::PeakStacks,
            if run.peak_stacks { "peak-stacks" } else { run.written.of_peak().unwrap_or_default() },
            on(run.peak_stacks || run.written.of_peak().is_some()),
        ),
        (Key::Timeout, "timeout", run.timeout.map(Value::Time)),
        (Key::Retries, if run.retries.is_some() { "retries" } else { by_max_fail }, entries(retries)),
        (Key::MaxFail, by_max_fail, size(max_fail)),
        (Key::Jobs, jobs.map_or("jobs", |(_, name)| name), size(jobs.map(|(jobs, _)| jobs))),
        (Key::Recorder, "recorder", run.recorder.map(|recorder| Value::Recorder(recorder.into()))),
        (Key::Spawn, "spawn", run.spawn.map(|spawn| Value::Spawn(spawn.into()))),
        (Key::RequireEbpf, "require-ebpf", on(run.require_ebpf)),
        (Key::NoSudo, "no-sudo", on(run.no_sudo)),
        (Key::KernelReport, "kernel-report", on(run.kernel_report)),
        (Key::Files, "files", on(run.files)),
        (Key::FullStacks, "full-stacks", on(run.full_stacks)),
        (Key::Github, "github", run.github.map(|when| Value::When(when.into()))),
        (Key::MaxBlocks, "max-blocks", entries(run.tables.max_blocks)),
        (Key::MaxStacks, "max-stacks", entries(run.tables.max_stacks)),
        (Key::MaxThreads, "max-threads", entries(run.tables.max_threads)),
        (Key::MaxBadFrees, "max-bad-frees", entries(run.tables.max_bad_frees)),
        (Key::MaxFiles, "max-files", entries(run.tables.max_files)),
    ];
    let given = |(key, name, value): (_, _, Option<Value>)| {
        Some((key, Given { value: value?, origin: Origin::Option(name) }))
    };
    values.into_iter().filter_map(given).collect()
}

/// The name of the first option that was given.
fn either(options: &[(bool, &'static str)]) -> &'static str {
    options.iter().find(|(given, _)| *given).map_or("", |(_, name)| name)
}
