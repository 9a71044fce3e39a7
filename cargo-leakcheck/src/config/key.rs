//! What can be set, and to what.

use std::time::Duration;

use crate::model::MAX_ITERATIONS;
use crate::options::{Count, Dependencies, MAX_ENTRIES, MAX_TASKS, Recorder, Spawn, When};

/// Something that can be set: a limit that a test is judged by, or a rule for how it is run and judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are the budget's limits and the options of the same names")]
pub enum Key {
    Bytes,
    Blocks,
    ReachableBytes,
    ReachableBlocks,
    OutstandingBytes,
    Fds,
    KernelBytes,
    Ipc,
    Children,
    Threads,
    MappedBytes,
    Warmup,
    BytesPerIteration,
    PeakBytes,
    TotalBlocks,
    Ignore,
    Count,
    CountFailed,
    CountShouldPanic,
    DenyBadFrees,
    Dependencies,
    NoFds,
    NoKernelBytes,
    NoIpc,
    NoFiles,
    NoChildren,
    NoMappings,
    Growth,
    FollowChildren,
    FreeStacks,
    PeakStacks,
    Timeout,
    Retries,
    MaxFail,
    Jobs,
    Recorder,
    Spawn,
    RequireEbpf,
    NoSudo,
    DenyUnusedRules,
    KernelReport,
    Files,
    FullStacks,
    Github,
    MaxBlocks,
    MaxStacks,
    MaxThreads,
    MaxBadFrees,
    MaxFiles,
}

/// The values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of bytes, or a size such as `"4 KiB"`.
    Size,
    /// A whole number.
    Number,
    /// A whole number from 1 to this.
    Positive(u64),
    /// `true` or `false`.
    Switch,
    /// A line of text.
    Reason,
    /// A number of seconds, or a time such as `"2m"`.
    Time,
    /// `"lost"` or `"outstanding"`.
    Count,
    /// `fail` or `report`.
    Dependencies,
    /// `"auto"`, `"ledger"` or `"uprobe"`.
    Recorder,
    /// `"exec"`, `"fork"` or `"auto"`.
    Spawn,
    /// `"auto"`, `"always"` or `"never"`.
    When,
}

/// What is known of a key.
pub struct Known {
    /// Itself.
    pub key: Key,
    /// How it is written: as the option without its dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// It is the same for all tests of a run, so no override has it.
    pub of_run: bool,
    /// What applies where nobody sets it, for people.
    pub default: &'static str,
}

const TABLE: u64 = MAX_ENTRIES as u64;
const TASKS: u64 = MAX_TASKS as u64;

/// All keys, in the order in which they are explained.
pub const KEYS: [Known; 49] = [
    of_test(Key::Bytes, "bytes", Kind::Size, "0"),
    of_test(Key::Blocks, "blocks", Kind::Number, "no limit"),
    of_test(Key::ReachableBytes, "reachable-bytes", Kind::Size, "no limit"),
    of_test(Key::ReachableBlocks, "reachable-blocks", Kind::Number, "no limit"),
    of_test(Key::OutstandingBytes, "outstanding-bytes", Kind::Size, "no limit"),
    of_test(Key::Fds, "fds", Kind::Number, "0; no limit for whole programs"),
    of_test(Key::KernelBytes, "kernel-bytes", Kind::Size, "no limit"),
    of_test(Key::Ipc, "ipc", Kind::Number, "0"),
    of_test(Key::Children, "children", Kind::Number, "0; no limit for whole programs"),
    of_test(Key::Threads, "threads", Kind::Number, "no limit"),
    of_test(Key::MappedBytes, "mapped-bytes", Kind::Size, "no limit"),
    of_test(Key::Warmup, "warmup", Kind::Number, "3"),
    of_test(Key::BytesPerIteration, "bytes-per-iteration", Kind::Size, "0"),
    of_test(Key::PeakBytes, "peak-bytes", Kind::Size, "no limit"),
    of_test(Key::TotalBlocks, "total-blocks", Kind::Number, "no limit"),
    of_test(Key::Ignore, "ignore", Kind::Reason, "judged"),
    of_test(Key::Count, "count", Kind::Count, "\"lost\""),
    of_test(Key::CountFailed, "count-failed", Kind::Switch, "false"),
    of_test(Key::CountShouldPanic, "count-should-panic", Kind::Switch, "false"),
    of_test(Key::DenyBadFrees, "deny-bad-frees", Kind::Switch, "false"),
    of_test(Key::Dependencies, "dependencies", Kind::Dependencies, "\"fail\""),
    of_test(Key::NoFds, "no-fds", Kind::Switch, "false"),
    of_test(Key::NoKernelBytes, "no-kernel-bytes", Kind::Switch, "false"),
    of_test(Key::NoIpc, "no-ipc", Kind::Switch, "false"),
    of_test(Key::NoFiles, "no-files", Kind::Switch, "false"),
    of_test(Key::NoChildren, "no-children", Kind::Switch, "false"),
    of_test(Key::NoMappings, "no-mappings", Kind::Switch, "false"),
    of_test(Key::Growth, "growth", Kind::Positive(MAX_ITERATIONS), "once"),
    of_test(Key::FollowChildren, "follow-children", Kind::Switch, "false"),
    of_test(Key::FreeStacks, "free-stacks", Kind::Switch, "false"),
    of_test(Key::PeakStacks, "peak-stacks", Kind::Switch, "false"),
    of_test(Key::Timeout, "timeout", Kind::Time, "none"),
    of_test(Key::Retries, "retries", Kind::Number, "0"),
    of_run(Key::MaxFail, "max-fail", Kind::Positive(u32::MAX as u64), "no limit"),
    of_run(Key::Jobs, "jobs", Kind::Positive(TASKS), "number of CPUs"),
    of_run(Key::Recorder, "recorder", Kind::Recorder, "\"auto\""),
    of_run(Key::Spawn, "spawn", Kind::Spawn, "\"exec\""),
    of_run(Key::RequireEbpf, "require-ebpf", Kind::Switch, "false"),
    of_run(Key::NoSudo, "no-sudo", Kind::Switch, "false"),
    of_run(Key::DenyUnusedRules, "deny-unused-rules", Kind::Switch, "false"),
    of_run(Key::KernelReport, "kernel-report", Kind::Switch, "false"),
    of_run(Key::Files, "files", Kind::Switch, "false"),
    of_run(Key::FullStacks, "full-stacks", Kind::Switch, "false"),
    of_run(Key::Github, "github", Kind::When, "\"auto\""),
    of_run(Key::MaxBlocks, "max-blocks", Kind::Positive(TABLE), "2097152"),
    of_run(Key::MaxStacks, "max-stacks", Kind::Positive(TABLE), "65536"),
    of_run(Key::MaxThreads, "max-threads", Kind::Positive(TASKS), "16384"),
    of_run(Key::MaxBadFrees, "max-bad-frees", Kind::Positive(TABLE), "16384"),
    of_run(Key::MaxFiles, "max-files", Kind::Positive(TABLE), "16384"),
];

const fn of_test(key: Key, name: &'static str, kind: Kind, default: &'static str) -> Known {
    Known { key, name, kind, of_run: false, default }
}

const fn of_run(key: Key, name: &'static str, kind: Kind, default: &'static str) -> Known {
    Known { key, name, kind, of_run: true, default }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Size`], [`Kind::Number`], [`Kind::Positive`].
    Number(u64),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Reason`].
    Reason(String),
    /// Of [`Kind::Time`].
    Time(Duration),
    /// Of [`Kind::Count`].
    Count(Count),
    /// Of [`Kind::Dependencies`].
    Dependencies(Dependencies),
    /// Of [`Kind::Recorder`].
    Recorder(Recorder),
    /// Of [`Kind::Spawn`].
    Spawn(Spawn),
    /// Of [`Kind::When`].
    When(When),
}

/// As it is written in a file.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Reason(text) => {
                let escaped = |character: char| match character {
                    '"' | '\\' => format!("\\{character}"),
                    // What is not to be seen.
                    other if other.escape_debug().count() > 1 && other != '\'' => {
                        format!("\\U{:08X}", u32::from(other))
                    }
                    other => other.to_string(),
                };
                write!(f, "\"{}\"", text.chars().map(escaped).collect::<String>())
            }
            Self::Time(time) if time.subsec_nanos() == 0 => write!(f, "\"{}s\"", time.as_secs()),
            Self::Time(time) => {
                let digits = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
                write!(f, "\"{}s\"", digits.trim_end_matches('0'))
            }
            Self::Count(Count::Lost) => f.write_str("\"lost\""),
            Self::Count(Count::Outstanding) => f.write_str("\"outstanding\""),
            Self::Dependencies(Dependencies::Fail) => f.write_str("\"fail\""),
            Self::Dependencies(Dependencies::Report) => f.write_str("\"report\""),
            Self::Recorder(Recorder::Auto) => f.write_str("\"auto\""),
            Self::Recorder(Recorder::Ledger) => f.write_str("\"ledger\""),
            Self::Recorder(Recorder::Uprobe) => f.write_str("\"uprobe\""),
            Self::Spawn(Spawn::Exec) => f.write_str("\"exec\""),
            Self::Spawn(Spawn::Fork) => f.write_str("\"fork\""),
            Self::Spawn(Spawn::Auto) => f.write_str("\"auto\""),
            Self::When(When::Auto) => f.write_str("\"auto\""),
            Self::When(When::Always) => f.write_str("\"always\""),
            Self::When(When::Never) => f.write_str("\"never\""),
        }
    }
}
