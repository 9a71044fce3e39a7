//! Tests that turned out to pass the ledger by are run once more, by the uprobe recorder.

use camino::Utf8PathBuf;

use super::follow::Follower;
use super::prepare::Prepared;
use super::steering::Steering;
use super::{Event, Traced};
use crate::error::Result;
use crate::model::{PlannedTest, RecordedBy};
use crate::options::{Recorder, TraceOptions};
use crate::snapshot::Loss;
use crate::sys::Interrupts;

/// Why the ledger has not seen all of a test, if the uprobe recorder will and the test may be run twice.
pub fn reason(traced: &Traced) -> Option<&'static str> {
    let children = traced.children.iter().map(|child| &child.snapshot);
    let losses = std::iter::once(&traced.ran.memory).chain(children).flat_map(|of| &of.losses);
    let reasons: Option<Vec<_>> = losses.map(Loss::passes_ledger).collect();
    let may = !traced.interrupted && traced.ran.test.may_run_twice(&traced.ran.outcome);
    reasons?.first().copied().filter(|_| may)
}

/// Runs tests once more, and tells `sink` of each: of its second run, or of the first one if that is all
/// there is. `steering` has no test to follow any more. Whether it was interrupted.
///
/// # Errors
/// The system refuses a process.
pub fn run(
    steering: &mut Steering,
    first: Vec<Traced>,
    executables: &[Utf8PathBuf],
    options: &TraceOptions,
    private_ipc: bool,
    interrupts: &Interrupts,
    sink: &mut dyn FnMut(Event),
) -> Result<bool> {
    let options = TraceOptions { recorder: Recorder::Uprobe, ..options.clone() };
    let tests: Vec<PlannedTest> =
        first.iter().map(|it| it.ran.test.quiet(&options, it.ran.duration)).collect();
    let numbers: Vec<usize> = first.iter().map(|traced| traced.number).collect();
    let mut first: Vec<Option<Traced>> = first.into_iter().map(Some).collect();
    let prepared = interrupts.watch(|| {
        if first.iter().flatten().any(|first| first.ran.memory.is_unexplained) {
            steering.start_files();
        }
        steering.make_room(&options)?;
        Prepared::new(steering, &tests, executables, &options, private_ipc)
    });
    for (traced, because) in first.iter().flatten().filter_map(|traced| Some((traced, reason(traced)?))) {
        let PlannedTest { binary, name, .. } = &traced.ran.test;
        let because = format!("{} is run once more, because {because}", name.as_str());
        sink(Event::ByUprobe { binary: binary.path.clone(), because });
    }
    // Where eBPF is refused, the first results say which recorder they need.
    let ended = prepared.map_or(Ok(false), |prepared| {
        let mut sift = |event| match event {
            Event::Finished(second) => {
                if let Some(first) = first[second.number].take() {
                    sink(Event::Finished(Box::new(better(first, *second))));
                }
            }
            Event::Started { number } => sink(Event::Started { number: numbers[number] }),
            event => sink(event),
        };
        Follower::new(steering, &prepared, &options, interrupts, &mut sift)?.run(&tests)
    });
    first.into_iter().flatten().for_each(|traced| sink(Event::Finished(Box::new(traced))));
    ended
}

/// The second result, unless the test has ended otherwise.
fn better(first: Traced, mut second: Traced) -> Traced {
    if second.interrupted || second.ran.outcome != first.ran.outcome {
        return first;
    }
    second.number = first.number;
    second.ran.test = first.ran.test.clone();
    second.ran.recorded_by = Some(RecordedBy::Uprobe { because: reason(&first).map(str::to_owned) });
    second
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Outcome, Output, Ran, Stdio, TestBinary, TestName, Window};
    use crate::snapshot::Snapshot;

    /// A test that has run.
    pub fn traced(outcome: Outcome, losses: Vec<Loss>) -> Traced {
        let binary = TestBinary {
            package: "a".into(),
            target: "a".into(),
            kind: crate::model::TargetKind::Lib,
            path: "/a".into(),
            directory: "/".into(),
            environment: Vec::new(),
        };
        let test = PlannedTest {
            binary: std::sync::Arc::new(binary),
            name: TestName::Listed("t".into()),
            arguments: Vec::new(),
            window: Window::TestBody,
            budget: crate::model::Budget::default(),
            should_panic: false,
            stdio: Stdio::Captured,
            attempt: 1,
            judge: crate::options::JudgeOptions::default(),
            policy: None,
        };
        let memory = Snapshot { losses, ..Snapshot::default() };
        let (duration, output, recorded_by) = (Duration::ZERO, Output::default(), Some(RecordedBy::Ledger));
        Traced {
            number: 7,
            interrupted: false,
            children: Vec::new(),
            second: None,
            ran: Ran {
                test,
                outcome,
                duration,
                output,
                recorded_by,
                spawned: None,
                allocators: Vec::new(),
                memory,
            },
        }
    }

    #[test]
    fn only_what_the_other_recorder_sees_is_worth_a_second_run() {
        let reason = |losses| super::reason(&traced(Outcome::Passed, losses)).is_some();
        assert!(reason(vec![Loss::LookedUp]));
        assert!(reason(vec![Loss::Nameless { count: 1 }, Loss::LookedUp]));
        assert!(!reason(vec![]));
        assert!(!reason(vec![Loss::LookedUp, Loss::Exec]));
    }

    #[test]
    fn what_has_no_verdict_that_counts_runs_once() {
        let of = |outcome, change: fn(&mut PlannedTest)| {
            let mut traced = traced(outcome, vec![Loss::LookedUp]);
            change(&mut traced.ran.test);
            reason(&traced).is_some()
        };
        let failed = Outcome::Failed { code: 101 };
        assert!(of(Outcome::Passed, |_| {}));
        assert!(!of(Outcome::Passed, |test| test.stdio = Stdio::Passed));
        assert!(!of(Outcome::Passed, |test| test.budget.ignore = Some("why".into())));
        assert!(!of(failed.clone(), |_| {}));
        assert!(of(failed, |test| test.judge.count_failed = true));
        assert!(!of(Outcome::TimedOut, |test| test.judge.count_failed = true));
    }

    #[test]
    fn a_second_run_counts_that_ends_as_the_first() {
        let first = || traced(Outcome::Passed, vec![Loss::LookedUp]);
        let second = |outcome| Traced { number: 0, ..traced(outcome, vec![]) };
        let good = better(first(), second(Outcome::Passed));
        assert_eq!((good.number, good.ran.memory.losses.len()), (7, 0));
        assert_eq!(good.ran.recorded_by.unwrap().name(), "uprobe");
        let failed = better(first(), second(Outcome::Failed { code: 1 }));
        assert_eq!(
            (failed.number, failed.ran.outcome, failed.ran.memory.losses.len()),
            (7, Outcome::Passed, 1)
        );
    }
}
