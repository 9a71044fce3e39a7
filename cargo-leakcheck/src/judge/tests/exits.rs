//! How a run ends, by its tests.

use super::*;

pub(in crate::judge) fn checked(outcome: Outcome, verdict: Verdict, counts: bool) -> CheckedTest {
    let binary = TestBinary {
        package: "p".to_owned(),
        target: "p".to_owned(),
        kind: TargetKind::Lib,
        path: "/p".into(),
        directory: "/".into(),
        environment: Vec::new(),
    };
    let test = PlannedTest {
        binary: Arc::new(binary),
        name: TestName::Listed("t".to_owned()),
        arguments: Vec::new(),
        window: Window::TestBody,
        budget: none(),
        should_panic: false,
        stdio: Stdio::Captured,
        attempt: 1,
        judge: crate::options::JudgeOptions::default(),
        policy: None,
    };
    let (totals, losses) = (Totals::default(), Vec::new());
    let left = Left::default();
    let memory = Judged {
        findings: Vec::new(),
        totals,
        left,
        files: None,
        heap: None,
        losses,
        acceptance: Acceptance::default(),
        verdict,
        attempts: None,
        counts,
    };
    let (duration, output) = (Duration::ZERO, Output::default());
    CheckedTest {
        test,
        outcome,
        duration,
        output,
        recorded_by: Some(RecordedBy::Ledger),
        spawned: None,
        allocators: Vec::new(),
        memory,
    }
}

#[test]
fn the_worst_wins() {
    let clean = checked(Outcome::Passed, Verdict::Clean, true);
    let ignored = checked(Outcome::Passed, Verdict::NotChecked("why".to_owned()), true);
    let leaks = checked(Outcome::Passed, Verdict::Leaks(vec!["1 B".to_owned()]), true);
    let leaks_uncounted = checked(Outcome::Passed, Verdict::Leaks(vec!["1 B".to_owned()]), false);
    let failed = checked(Outcome::Failed { code: 101 }, Verdict::Clean, false);
    let failed_leaks = checked(Outcome::TimedOut, Verdict::Leaks(vec!["1 B".to_owned()]), true);
    let failed_incomplete =
        checked(Outcome::Failed { code: 1 }, Verdict::Incomplete(vec![Loss::NoBody]), false);
    let incomplete = checked(Outcome::Passed, Verdict::Incomplete(vec![Loss::Exec]), true);
    let not_started = checked(
        Outcome::NotStarted { reason: "why".to_owned() },
        Verdict::NotChecked("why".to_owned()),
        false,
    );
    let cases: [(&[&CheckedTest], _); _] = [
        (&[], Exit::NothingRan),
        (&[&clean], Exit::Clean),
        (&[&ignored], Exit::Clean),
        (&[&leaks_uncounted], Exit::Clean),
        (&[&clean, &leaks], Exit::Leaks),
        (&[&failed, &clean], Exit::Failed),
        (&[&not_started], Exit::Failed),
        (&[&failed, &leaks_uncounted], Exit::Failed),
        (&[&failed_incomplete], Exit::Failed),
        (&[&failed, &clean, &leaks], Exit::FailedAndLeaks),
        (&[&failed_leaks], Exit::FailedAndLeaks),
        (&[&incomplete, &clean], Exit::Incomplete),
        (&[&failed, &incomplete, &leaks], Exit::Incomplete),
    ];
    for (index, (tests, expected)) in cases.into_iter().enumerate() {
        assert_eq!(exit(tests.iter().copied()), expected, "case {index}");
    }
}
