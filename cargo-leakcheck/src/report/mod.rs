//! Results for people and machines. A report format is one function that turns the results into
//! bytes; files are opened before the work starts and written once at its end.

mod accepted;
mod chain;
mod descriptors;
mod excerpt;
mod failing;
mod files;
mod files_left;
mod findings;
mod folded;
mod github;
mod growth;
mod heap;
mod html;
mod ipc;
mod json;
mod junit;
mod leaked;
mod left;
mod mapped;
mod owners;
mod pprof;
pub mod results;
mod sarif;
mod stack;
mod status;
mod stream;
mod targets;
mod terminal;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod totals;

use std::time::Duration;

use crate::error::Exit;
use crate::model::{CheckedTest, Compared, NotChecked, Outcome, Verdict};
use crate::model::{OwnCode, Steered, Target};
use crate::options::{Count, Recorder};
pub use files::{Files, open};
pub use folded::{Bytes, FlameGraph, Folded};
pub use github::{annotations, quoted};
pub use html::Html;
pub use json::{Json, kind as loss_kind, read};
pub use junit::Junit;
pub use pprof::Pprof;
pub use sarif::Sarif;
pub use stream::Stream;
pub use terminal::{Terminal, by_uprobe, not_forked};

/// The results of a run, whole or interrupted.
#[derive(Debug)]
pub struct Run {
    /// The tests that ran, in the order they ended.
    pub tests: Vec<CheckedTest>,
    /// What cargo would have tested, and how it is covered.
    pub targets: Vec<Target>,
    /// What cargo would have tested and was not.
    pub not_checked: Vec<NotChecked>,
    /// Wall time of the tests.
    pub duration: Duration,
    /// What was asked to record the allocations.
    pub recorder: Recorder,
    /// What steered it.
    pub steered: Steered,
    /// Ended by the user before all tests had run.
    pub interrupted: bool,
    /// How the run ended.
    pub exit: Exit,
}

/// What all formats need to know besides the results.
#[derive(Clone, Debug)]
pub struct View {
    /// Whose code is whose, and what paths are relative to.
    pub own: OwnCode,
    /// Every frame and every finding, in texts for people.
    pub full_stacks: bool,
    /// Files that tests have left are shown for every test.
    pub files: bool,
    /// What counts: findings that cannot fail a test are details.
    pub count: Count,
    /// The terminal has characters for pictures.
    pub unicode: bool,
    /// Everything that is known of why blocks are still there, in texts for people.
    pub explain: bool,
}

/// A format of a report file.
pub trait Format {
    /// The whole document.
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8>;
}

/// How many tests came out how. A test can be both failed and leaking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Tests that ran.
    pub tests: usize,
    /// Passed, seen whole, within budget.
    pub clean: usize,
    /// Exceed their budget, and that counts.
    pub leaking: usize,
    /// Exceed their budget, but that does not count (failed and `should_panic` tests, by default).
    pub leaking_not_counted: usize,
    /// Did not pass, whatever their memory came to.
    pub failed: usize,
    /// Without a verdict, because something was not seen.
    pub incomplete: usize,
    /// Tests whose memory was not judged, and all that did not run.
    pub not_checked: usize,
    /// How the leaks compare with the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Compared>,
}

impl Run {
    /// The public name of what recorded the allocations, and why that. Where that was not the same for all
    /// tests, it is what had the first choice.
    pub fn recorder(&self) -> (&'static str, &'static str) {
        let by = |name| self.tests.iter().flat_map(|test| &test.recorded_by).any(|by| by.name() == name);
        match self.recorder {
            Recorder::Auto if by("uprobe") && by("ledger") => {
                ("ledger", "auto: but some tests pass it by, and say why")
            }
            Recorder::Auto if by("uprobe") => ("uprobe", "auto: all tests pass the ledger by, and say why"),
            Recorder::Auto => ("ledger", "auto: every program that can be traced loads a shared C library"),
            Recorder::Ledger => ("ledger", "asked for by --recorder"),
            Recorder::Uprobe => ("uprobe", "asked for by --recorder"),
        }
    }

    /// How all tests that were compared with the baseline compare with it; none where there is none.
    pub fn compared(&self) -> Option<Compared> {
        let mut all = None;
        for compared in self.tests.iter().filter_map(|test| test.memory.acceptance.baseline) {
            *all.get_or_insert_with(Compared::default) += compared;
        }
        all
    }

    /// What it came to, in a few words.
    pub fn headline(&self) -> String {
        let summary = self.summary();
        let title = match (summary.leaking, summary.tests) {
            (0, 0) if self.exit >= Exit::Tool => "no test was checked".to_owned(),
            (0, tests) => format!("no leak in {}", text::count(tests as u64, "test")),
            (leaking, tests) => format!("{leaking} of {} leaking", text::count(tests as u64, "test")),
        };
        let interrupted = if self.interrupted { ", interrupted before all had run" } else { "" };
        title + interrupted
    }

    /// Counts.
    pub fn summary(&self) -> Summary {
        let count = |is: &dyn Fn(&CheckedTest) -> bool| self.tests.iter().filter(|test| is(test)).count();
        let leaks = |test: &CheckedTest| matches!(test.memory.verdict, Verdict::Leaks(_));
        let not_judged = count(&|test| matches!(test.memory.verdict, Verdict::NotChecked(_)));
        Summary {
            tests: self.tests.len(),
            clean: count(&|test| test.outcome == Outcome::Passed && test.memory.verdict == Verdict::Clean),
            leaking: count(&|test| leaks(test) && test.memory.counts),
            leaking_not_counted: count(&|test| leaks(test) && !test.memory.counts),
            failed: count(&|test| test.outcome != Outcome::Passed),
            incomplete: count(&|test| matches!(test.memory.verdict, Verdict::Incomplete(_))),
            not_checked: not_judged + self.not_checked.len(),
            baseline: self.compared(),
        }
    }
}
