//! Everything that can go wrong with the tool itself, and the exit codes.
//!
//! An error says what happened, to what, and what to do. Test failures and leaks are no errors:
//! they are verdicts.

use std::io;

use camino::Utf8PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A reason why the tool could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// cargo reported that the build failed; its own words have been shown.
    #[error("the build failed: `{command}` ended with {status}")]
    Build {
        /// The command as it can be pasted into a shell.
        command: String,
        /// How it ended.
        status: String,
    },
    /// A program could not be started, or did something unexpected.
    #[error("cannot run `{command}`: {reason}")]
    Command {
        /// The command as it can be pasted into a shell.
        command: String,
        /// What happened.
        reason: String,
    },
    /// An option that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A configuration that makes no sense; an excerpt shows where.
    #[error("{0}")]
    Config(String),
    /// No privileges for eBPF, where the recorder needs it.
    #[error(
        "not allowed to load eBPF programs ({reason}); run as root, for example `sudo -E env \"PATH=$PATH\" cargo leakcheck`, \
         as a user for whom `cargo leakcheck setup` was called, or with CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_SYSLOG; a container must allow bpf and ptrace as well \
         (`--privileged`); `cargo leakcheck doctor` says what is missing; only `--recorder uprobe` and `--require-ebpf` need \
         this, `--recorder ledger` does not"
    )]
    Privileges {
        /// What the kernel said.
        reason: String,
    },
    /// Processes may not be traced, not even the tool's own.
    #[error(
        "not allowed to trace test processes ({reason}); ptrace of own children needs no privileges, but the seccomp filter of \
         a container can forbid it (allow it by `--cap-add=SYS_PTRACE`), and so can Yama (`sysctl kernel.yama.ptrace_scope` \
         must be 0 or 1, or 2 for root)"
    )]
    Ptrace {
        /// What the kernel said.
        reason: io::Error,
    },
    /// The kernel lacks something.
    #[error("the kernel cannot trace: {what}: {reason}; `cargo leakcheck doctor` says more")]
    Kernel {
        /// What was tried.
        what: String,
        /// What it said.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// `read`, `write`, `create` …
        action: &'static str,
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {reason}")]
    Format {
        /// The file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The user ended the run before the first test.
    #[error("interrupted before any test had run")]
    Interrupted,
    /// A system call failed that should not.
    #[error("{call} failed: {source}")]
    System {
        /// The call and what it was for.
        call: String,
        /// Why.
        source: io::Error,
    },
}

/// How the whole run ended. The numbers are the process's exit codes; the table in the README is
/// tested against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Every test passed and is clean.
    Clean = 0,
    /// Tests failed, none leaks.
    Failed = 1,
    /// Tests leak, none failed.
    Leaks = 2,
    /// Tests failed and tests leak.
    FailedAndLeaks = 3,
    /// No test was run.
    NothingRan = 4,
    /// Something could not be seen, so that no verdict is possible.
    Incomplete = 10,
    /// The tool could not do its work.
    Tool = 11,
    /// The build failed.
    Build = 12,
}

impl Exit {
    /// The one with this code.
    pub fn of_code(code: u8) -> Option<Self> {
        use Exit::{Build, Clean, Failed, FailedAndLeaks, Incomplete, Leaks, NothingRan, Tool};
        let all = [Clean, Failed, Leaks, FailedAndLeaks, NothingRan, Incomplete, Tool, Build];
        all.into_iter().find(|exit| *exit as u8 == code)
    }
}

impl Error {
    /// The exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Build { .. } => Exit::Build,
            Self::Interrupted => Exit::Incomplete,
            _ => Exit::Tool,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
