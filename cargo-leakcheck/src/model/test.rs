use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use super::{Budget, Iterations, MAX_ITERATIONS, RecordedBy, Spawned, TestBinary, WARMUP};
use crate::options::{JudgeOptions, Policy, TraceOptions};

/// How much time a second run has at least.
const SECOND_RUN: Duration = Duration::from_secs(30);

/// Which part of a binary a test is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestName {
    /// A test that libtest (or a harness that speaks its protocol) listed.
    Listed(String),
    /// The whole executable, because it could not be listed or is a program; named after its target.
    Unit(String),
}

impl TestName {
    /// The name as reports show it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Listed(name) | Self::Unit(name) => name,
        }
    }
}

/// The part of a process's life in which allocations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From libtest's entry into the test body to its end, on its threads.
    TestBody,
    /// The whole process.
    Process,
}

/// Where a test's standard streams lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Nothing to read; what it writes is kept for the report.
    Captured,
    /// The tool's own; a terminal is not read from, because the test is not its foreground process.
    Passed,
    /// The same, but what it writes goes to standard error: standard output is a report's.
    PassedToStderr,
    /// The tool's own to read from; what it writes goes to the tool's own as it comes, and is kept as well.
    Forwarded,
}

/// A test, ready to be run.
#[derive(Clone, Debug)]
pub struct PlannedTest {
    /// The executable.
    pub binary: Arc<TestBinary>,
    /// The test's name.
    pub name: TestName,
    /// Arguments after the program's own name.
    pub arguments: Vec<OsString>,
    /// When allocations count.
    pub window: Window,
    /// The limits to judge it by.
    pub budget: Budget,
    /// Marked `#[should_panic]`, where that is known.
    pub should_panic: bool,
    /// Where its streams lead.
    pub stdio: Stdio,
    /// Which attempt at it this is, from 1.
    pub attempt: u32,
    /// How it is judged, as it was given by the options: see [`judging`](Self::judging).
    pub judge: JudgeOptions,
    /// What it has otherwise than the run.
    pub policy: Option<Arc<Policy>>,
}

impl PlannedTest {
    /// What no other test of the workspace is called: its binary and its name.
    pub fn id(&self) -> String {
        format!("{} {}", self.binary.id(), self.name.as_str())
    }

    /// Whether it is a program of the user's own choice, which has no directory of its own, and may do something
    /// that it must not do twice.
    pub fn is_program(&self) -> bool {
        matches!(self.stdio, Stdio::Passed | Stdio::PassedToStderr)
    }

    /// The same test, for a second run that nobody is to see. What can be done only once (a port, a lock file) may keep it
    /// from ending, so it has a time of its own, by what the first one has taken.
    pub fn quiet(&self, run: &TraceOptions, first: Duration) -> Self {
        let trace = self.trace(run);
        let timeout = Some(limit_of_second_run(trace.timeout, first));
        let policy = Some(Arc::new(Policy { trace: TraceOptions { timeout, ..trace.clone() } }));
        Self { stdio: Stdio::Captured, policy, ..self.clone() }
    }

    /// How it is traced in a run with these options.
    pub fn trace<'a>(&'a self, run: &'a TraceOptions) -> &'a TraceOptions {
        self.policy.as_ref().map_or(run, |policy| &policy.trace)
    }

    /// Whether it is to have something that the run has.
    pub fn wants(&self, is: impl Fn(&TraceOptions) -> bool) -> bool {
        self.policy.as_ref().is_none_or(|policy| is(&policy.trace))
    }

    /// How many bytes may be alive at a time.
    pub fn peak_limit(&self) -> Option<u64> {
        self.budget.peak_bytes.or(self.judge.peak_bytes)
    }

    /// How it is judged.
    pub fn judging(&self) -> JudgeOptions {
        // A program may have descriptors until it ends, as it may have blocks that it can still reach.
        let none = (self.window == Window::TestBody).then_some(0);
        let judge = self.judge;
        JudgeOptions { fds: judge.fds.or(none), children: judge.children.or(none), ..judge }
    }

    /// How often its body is to be run in its process; none for once, as ever.
    pub fn iterations(&self) -> Option<Iterations> {
        let total = self.budget.iterations.or(self.judge.growth).filter(|total| *total > 1)?;
        let total = total.min(MAX_ITERATIONS);
        let warmup = self.budget.warmup.unwrap_or(WARMUP).min(total - 1);
        Some(Iterations { total, warmup, by_test: self.budget.iterations.is_some() })
    }

    /// Whether a second run of it is worth its time, by how the first one has ended: its verdict counts then, and it is no
    /// program of the user's own choice.
    pub fn may_run_twice(&self, outcome: &Outcome) -> bool {
        let counts = match outcome {
            Outcome::Passed => true,
            Outcome::Failed { .. } => self.judge.count_failed,
            Outcome::Signalled { .. } | Outcome::TimedOut | Outcome::NotStarted { .. } => false,
        };
        counts && !self.is_program() && self.budget.ignore.is_none()
    }
}

/// How a test's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Passed,
    /// Another exit code.
    Failed {
        /// The code.
        code: i32,
    },
    /// Ended by a signal.
    Signalled {
        /// Its number.
        signal: i32,
    },
    /// Ended by us after its time was up.
    TimedOut,
    /// Did not start.
    NotStarted {
        /// Why.
        reason: String,
    },
}

/// What a test wrote, as far as it is kept.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Bytes cut out of the middle of either because there were too many.
    pub dropped_bytes: u64,
}

/// A test that has run. `T` is what is known of its memory: a `Snapshot` first, a verdict later.
#[derive(Clone, Debug)]
pub struct Ran<T> {
    /// The test.
    pub test: PlannedTest,
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time.
    pub duration: Duration,
    /// What it wrote.
    pub output: Output,
    /// Who has recorded it; none where its binary cannot be traced.
    pub recorded_by: Option<RecordedBy>,
    /// How its process was made; none where no report says so.
    pub spawned: Option<Spawned>,
    /// The allocators of its program, by name; those of libraries that it opens later are not among them.
    pub allocators: Vec<String>,
    /// What is known of its memory.
    pub memory: T,
}

/// How long a second run may take, by the test's own time limit and what the first run took.
fn limit_of_second_run(timeout: Option<Duration>, first: Duration) -> Duration {
    let limit = SECOND_RUN.max(first.saturating_mul(10));
    timeout.map_or(limit, |timeout| timeout.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_has_a_time_limit_by_the_first() {
        let limit = |timeout: Option<u64>, first| {
            limit_of_second_run(timeout.map(Duration::from_secs), Duration::from_secs(first)).as_secs()
        };
        assert_eq!([limit(None, 0), limit(None, 3), limit(None, 40)], [30, 30, 400]);
        assert_eq!([limit(Some(60), 40), limit(Some(60), 1), limit(Some(2), 1)], [60, 30, 2]);
        assert_eq!(limit_of_second_run(None, Duration::MAX), Duration::MAX);
    }
}
