use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::model::FindingKind::*;
use crate::model::{
    Finding, Frame, Left, Output, PlannedTest, RecordedBy, Stdio, TargetKind, TestBinary, TestName, Window,
};

mod accepted;
mod counted;
mod exits;
mod heap;
mod in_code;
mod left;
mod owners;

pub(super) use exits::checked;

const OPTIONS: JudgeOptions = JudgeOptions {
    count: Count::Lost,
    count_failed: false,
    count_should_panic: false,
    count_bad_frees: false,
    dependencies: crate::options::Dependencies::Fail,
    fds: Some(0),
    kernel_bytes: None,
    ipc: 0,
    children: Some(0),
    threads: None,
    mapped_bytes: None,
    growth: None,
    peak_bytes: None,
    total_blocks: None,
};
const OUTSTANDING: JudgeOptions = JudgeOptions { count: Count::Outstanding, ..OPTIONS };

fn nothing(_: &Seen) -> Acceptance {
    Acceptance::default()
}

fn none() -> Budget {
    Budget::default()
}

fn findings(list: &[(FindingKind, u64, u64)]) -> Vec<Finding<Vec<Frame>>> {
    let finding = |&(kind, bytes, blocks)| Finding {
        kind,
        measure: Measure { bytes, blocks },
        stack: None,
        below: Measure::default(),
        root: None,
        held_by: None,
        before: crate::snapshot::Before::default(),
        process: None,
        origin: crate::model::Origin::default(),
        in_code: crate::model::InCode::default(),
    };
    list.iter().map(finding).collect()
}

fn verdict(budget: &Budget, found: &[(FindingKind, u64, u64)], options: &JudgeOptions) -> Verdict {
    judge(
        budget,
        &Outcome::Passed,
        false,
        Seen { findings: findings(found), left: Left::default(), losses: Vec::new(), ..Seen::default() },
        options,
        &nothing,
    )
    .verdict
}

/// Judges a passed test; no reason is a clean verdict.
#[track_caller]
fn check(budget: Budget, found: &[(FindingKind, u64, u64)], options: &JudgeOptions, reasons: &[&str]) {
    let expected = match reasons {
        [] => Verdict::Clean,
        _ => Verdict::Leaks(reasons.iter().map(|&reason| reason.to_owned()).collect()),
    };
    assert_eq!(verdict(&budget, found, options), expected, "{budget:?} {found:?}");
}

#[test]
fn by_default_nothing_may_be_lost() {
    let cases: [(&[_], &[&str]); _] = [
        (&[], &[]),
        (&[(PossiblyLost, 5, 1), (StillReachable, 7, 2)], &[]),
        (&[(DefinitelyLost, 4096, 1)], &["4096 B definitely lost in 1 block (budget 0 B)"]),
        (
            &[(DefinitelyLost, 96, 1), (DefinitelyLost, 4000, 1), (IndirectlyLost, 128, 1)],
            &["4096 B definitely and 128 B indirectly lost in 3 blocks (budget 0 B)"],
        ),
        // The default is a number of bytes.
        (&[(DefinitelyLost, 0, 1)], &[]),
        (
            &[(DefinitelyLost, 0, 1), (IndirectlyLost, 1, 1)],
            &["0 B definitely and 1 B indirectly lost in 2 blocks (budget 0 B)"],
        ),
    ];
    for (found, reasons) in cases {
        check(none(), found, &OPTIONS, reasons);
    }
}

#[test]
fn each_limit_is_inclusive() {
    const LOST: [(FindingKind, u64, u64); 2] = [(DefinitelyLost, 90, 2), (IndirectlyLost, 10, 1)];
    const REACHABLE: [(FindingKind, u64, u64); 1] = [(StillReachable, 10000, 2)];
    const ALIVE: [(FindingKind, u64, u64); 2] = [(PossiblyLost, 30, 1), (StillReachable, 70, 1)];
    type Limit = fn(u64) -> Budget;
    let cases: [(&[_], Limit, u64, &str); _] = [
        (
            &LOST,
            |n| Budget { bytes: Some(n), ..none() },
            100,
            "90 B definitely and 10 B indirectly lost in 3 blocks (budget 99 B)",
        ),
        (&LOST, |n| Budget { blocks: Some(n), ..none() }, 3, "3 blocks lost (budget 2 blocks)"),
        (
            &REACHABLE,
            |n| Budget { reachable_bytes: Some(n), ..none() },
            10000,
            "10000 B still reachable in 2 blocks (budget 9999 B)",
        ),
        (
            &REACHABLE,
            |n| Budget { reachable_blocks: Some(n), ..none() },
            2,
            "2 blocks still reachable (budget 1 block)",
        ),
        (
            &ALIVE,
            |n| Budget { outstanding_bytes: Some(n), ..none() },
            100,
            "100 B outstanding in 2 blocks (budget 99 B)",
        ),
    ];
    for (found, limit, most, reason) in cases {
        check(limit(most), found, &OPTIONS, &[]);
        check(limit(most - 1), found, &OPTIONS, &[reason]);
    }
}

#[test]
fn limits_stand_side_by_side() {
    let lost = [(DefinitelyLost, 100, 3), (StillReachable, 10, 1)];
    // The default for lost blocks stays until either of its limits is set.
    check(
        Budget { reachable_bytes: Some(0), outstanding_bytes: Some(109), ..none() },
        &lost,
        &OPTIONS,
        &[
            "100 B definitely lost in 3 blocks (budget 0 B)",
            "10 B still reachable in 1 block (budget 0 B)",
            "110 B outstanding in 4 blocks (budget 109 B)",
        ],
    );
    check(
        Budget { bytes: Some(99), blocks: Some(1), ..none() },
        &lost,
        &OPTIONS,
        &["100 B definitely lost in 3 blocks (budget 99 B)", "3 blocks lost (budget 1 block)"],
    );
    check(Budget { bytes: Some(0), ..none() }, &[(DefinitelyLost, 0, 1)], &OPTIONS, &[]);
    let blocks = Budget { blocks: Some(0), ..none() };
    check(blocks, &[(DefinitelyLost, 0, 1)], &OPTIONS, &["1 block lost (budget 0 blocks)"]);
    check(Budget { blocks: Some(3), ..none() }, &lost, &OPTIONS, &[]);
}

#[test]
fn bad_frees_count_on_demand() {
    let found = [(DoubleFree, 0, 1), (UnknownFree, 0, 1), (UnknownFree, 0, 1)];
    check(none(), &found, &OPTIONS, &[]);
    let options = JudgeOptions { count_bad_frees: true, ..OPTIONS };
    check(none(), &found, &options, &["1 double free", "2 unknown frees"]);
    check(
        none(),
        &[(DefinitelyLost, 1, 1), (DoubleFree, 0, 2)],
        &options,
        &["1 B definitely lost in 1 block (budget 0 B)", "2 double frees"],
    );
}

#[test]
fn totals_are_sums_by_kind() {
    let found = [
        (DefinitelyLost, 1, 1),
        (DefinitelyLost, 2, 1),
        (IndirectlyLost, 4, 2),
        (PossiblyLost, 8, 3),
        (StillReachable, 16, 4),
        (StillReachable, 32, 5),
        (DoubleFree, 0, 6),
        (UnknownFree, 0, 7),
    ];
    let measure = |bytes, blocks| Measure { bytes, blocks };
    let expected = Totals {
        definitely_lost: measure(3, 2),
        indirectly_lost: measure(4, 2),
        possibly_lost: measure(8, 3),
        still_reachable: measure(48, 9),
        bad_frees: 13,
    };
    assert_eq!(
        totals(found.iter().map(|&(kind, bytes, blocks)| (kind, Measure { bytes, blocks }))),
        expected
    );
}

#[test]
fn what_is_not_judged() {
    let leak = [(DefinitelyLost, 10, 1)];
    let ignore = Budget { ignore: Some("cache of libfoo".to_owned()), bytes: Some(1), ..none() };
    let not_started = Outcome::NotStarted { reason: "no such file".to_owned() };
    let not_checked = |reason: &str| Verdict::NotChecked(reason.to_owned());
    let lost = || vec![Loss::NoBody, Loss::Blocks { count: 3 }];
    let cases = [
        (none(), Outcome::Passed, lost(), Verdict::Incomplete(lost())),
        (none(), Outcome::Signalled { signal: 6 }, lost(), Verdict::Incomplete(lost())),
        (ignore.clone(), Outcome::Passed, vec![], not_checked("cache of libfoo")),
        (ignore.clone(), Outcome::Passed, lost(), not_checked("cache of libfoo")),
        (none(), not_started.clone(), lost(), not_checked("no such file")),
        (ignore, not_started, vec![], not_checked("no such file")),
    ];
    for (budget, outcome, losses, expected) in cases {
        let judged = judge(
            &budget,
            &outcome,
            false,
            Seen {
                findings: findings(&leak),
                left: Left::default(),
                losses: losses.clone(),
                ..Seen::default()
            },
            &OPTIONS,
            &nothing,
        );
        assert_eq!(judged.verdict, expected);
        assert_eq!(judged.losses, losses);
        assert_eq!(judged.findings, findings(&leak), "findings are shown all the same");
    }
}

#[test]
fn leaks_of_a_test_that_did_not_simply_pass_count_on_demand() {
    let failed = JudgeOptions { count_failed: true, ..OPTIONS };
    let panic = JudgeOptions { count_should_panic: true, ..OPTIONS };
    let both = JudgeOptions { count_failed: true, count_should_panic: true, ..OPTIONS };
    // Outcome, should_panic, and whether it counts by default, with either option, with both.
    let cases = [
        (Outcome::Passed, false, [true, true, true, true]),
        (Outcome::Passed, true, [false, false, true, true]),
        (Outcome::Failed { code: 101 }, false, [false, true, false, true]),
        (Outcome::Failed { code: 101 }, true, [false, false, false, true]),
        (Outcome::Signalled { signal: 11 }, false, [false, true, false, true]),
        (Outcome::TimedOut, false, [false, true, false, true]),
    ];
    for (outcome, should_panic, expected) in cases {
        for (options, counts) in [OPTIONS, failed, panic, both].iter().zip(expected) {
            let found = findings(&[(DefinitelyLost, 1, 1)]);
            let judged = judge(
                &none(),
                &outcome,
                should_panic,
                Seen { findings: found, left: Left::default(), losses: Vec::new(), ..Seen::default() },
                options,
                &nothing,
            );
            assert_eq!(judged.counts, counts, "{outcome:?} {should_panic} {options:?}");
            assert!(matches!(judged.verdict, Verdict::Leaks(_)), "the verdict is made all the same");
        }
    }
}

#[test]
fn runtime_noise_is_taken_out_before_anything_is_summed() {
    for kind in [DefinitelyLost, StillReachable] {
        let mut found = findings(&[(kind, 34_600_000, 45_380), (StillReachable, 8, 1)]);
        let function = Some("std::backtrace_rs::symbolize::gimli::resolve".to_owned());
        found[0].stack = Some(vec![Frame { function, ..Frame::default() }]);
        let judged = judge(
            &none(),
            &Outcome::Passed,
            false,
            Seen { findings: found, left: Left::default(), losses: Vec::new(), ..Seen::default() },
            &OUTSTANDING,
            &nothing,
        );
        assert_eq!(judged.findings, findings(&[(StillReachable, 8, 1)]));
        assert_eq!(judged.totals.still_reachable, Measure { bytes: 8, blocks: 1 });
        let reasons = vec!["8 B outstanding in 1 block (budget 0 B)".to_owned()];
        assert_eq!(judged.verdict, Verdict::Leaks(reasons));
    }
}
