//! What is accepted does not count.

use super::*;
use crate::model::{Accepted, By, Compared, Growth, Heap, Hit, Item, LeftMapping, Peak};

fn accepting(items: &[(Item, u64, u64)]) -> Acceptance {
    let accepted =
        |(bytes, blocks)| Accepted { measure: Measure { bytes, blocks }, by: By::Rule("init".to_owned()) };
    let items = items.iter().map(|(item, bytes, blocks)| (*item, accepted((*bytes, *blocks)))).collect();
    Acceptance { items, baseline: Some(Compared { new: 1, ..Compared::default() }), hits: Vec::new() }
}

fn judged(outcome: &Outcome, left: Left<Vec<Frame>>, acceptance: &Acceptance) -> Judged {
    let findings = findings(&[(DefinitelyLost, 40, 1), (DefinitelyLost, 24, 2), (IndirectlyLost, 8, 1)]);
    let seen = Seen { findings, left, losses: Vec::new(), ..Seen::default() };
    judge(&none(), outcome, false, seen, &OPTIONS, &|_| acceptance.clone())
}

fn reasons(left: Left<Vec<Frame>>, items: &[(Item, u64, u64)]) -> Vec<String> {
    match judged(&Outcome::Passed, left, &accepting(items)).verdict {
        Verdict::Leaks(reasons) => reasons,
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn the_rest_is_compared_with_the_budget() {
    let all = [(Item::Finding(0), 40, 1), (Item::Finding(1), 24, 2), (Item::Finding(2), 8, 1)];
    assert_eq!(reasons(Left::default(), &all), ["Clean"]);
    // 14 of the second's bytes, and the third.
    let some = [(Item::Finding(0), 40, 1), (Item::Finding(1), 10, 1)];
    assert_eq!(
        reasons(Left::default(), &some),
        ["14 B definitely and 8 B indirectly lost in 2 blocks (budget 0 B)"]
    );
    // The report has it all.
    let totals = judged(&Outcome::Passed, Left::default(), &accepting(&all)).totals;
    assert_eq!(totals.definitely_lost, Measure { bytes: 64, blocks: 3 });
}

/// What is within its limit is not what a test fails by that grows, and nobody need accept it.
#[test]
fn growth_fails_a_test_by_itself() {
    let mut test = checked(Outcome::Passed, Verdict::Clean, true).test;
    test.budget = Budget { bytes: Some(40), iterations: Some(3), ..none() };
    let alive = [24, 48, 72].map(|bytes| Measure { bytes, blocks: 1 }).to_vec();
    let growth = Some(Growth { iterations: 3, warmup: 1, alive, ..Growth::default() });
    let mut seen = Seen {
        findings: findings(&[(DefinitelyLost, 40, 1)]),
        left: Left { growth, ..Left::default() },
        ..Seen::default()
    };
    let failing = |seen: &Seen| failing(&test, &Outcome::Passed, seen, &Acceptance::default());
    assert_eq!(failing(&seen), []);
    let judged = judge(&test.budget, &Outcome::Passed, false, seen.clone(), &OPTIONS, &nothing);
    let reason = "grows by 24 B per iteration (budget 0 B)".to_owned();
    assert_eq!(judged.verdict, Verdict::Leaks(vec![reason]));
    seen.findings[0].measure.bytes = 41;
    assert_eq!(failing(&seen), [crate::model::Leak::Memory(DefinitelyLost)]);
    // Iterations that are missing hide nothing of it.
    seen.left.growth = None;
    assert_eq!(failing(&seen), [crate::model::Leak::Memory(DefinitelyLost)]);
}

/// The same of what a test takes: whatever of the 40 bytes is accepted, there is a peak of 41.
#[test]
fn a_peak_and_totals_fail_a_test_by_themselves() {
    let heap = Heap { total: Measure { bytes: 41, blocks: 3 }, peak: Peak::exactly(41) };
    for (peak_bytes, total_blocks, of_all) in [(Some(40), None, false), (None, Some(2), true)] {
        let limits = Budget { peak_bytes, total_blocks, ..none() };
        let bytes = Some(40);
        let mut test = checked(Outcome::Passed, Verdict::Clean, true);
        // The test's own limits, and those for all.
        test.test.budget = if of_all { Budget { bytes, ..none() } } else { Budget { bytes, ..limits } };
        if of_all {
            (test.test.judge.peak_bytes, test.test.judge.total_blocks) = (peak_bytes, total_blocks);
        }
        test.memory.findings = findings(&[(DefinitelyLost, 40, 1)]);
        test.memory.heap = Some(heap);
        let failing = failing(&test.test, &Outcome::Passed, &test.memory.seen(), &Acceptance::default());
        assert_eq!((failing, fails_anyway(&test)), (Vec::new(), true));
        test.memory.heap = None;
        (test.test.budget.peak_bytes, test.test.judge.total_blocks) = (None, None);
        assert!(!fails_anyway(&test));
        // Lost bytes can be accepted.
        test.test.budget.bytes = Some(39);
        assert!(!fails_anyway(&test));
    }
}

#[test]
fn what_is_left_in_the_kernel_as_well() {
    let mapping = |bytes| LeftMapping {
        kind: "anonymous".into(),
        description: String::new(),
        call: "mmap".into(),
        count: 1,
        bytes,
        address: 0,
        once: false,
        stack: None,
    };
    let left = Left { mappings: vec![mapping(4096), mapping(8192)], ..Left::default() };
    let mut options = OPTIONS;
    options.mapped_bytes = Some(0);
    let seen = || Seen { left: left.clone(), ..Seen::default() };
    let accepting = accepting(&[(Item::Mapping(1), 8192, 1)]);
    let judged = judge(&none(), &Outcome::Passed, false, seen(), &options, &|_| accepting.clone());
    assert_eq!(
        judged.verdict,
        Verdict::Leaks(vec!["4096 B left mapped in 1 mapping (budget 0 B)".to_owned()])
    );
}

/// What is known does not come on top of the limit.
#[test]
fn a_test_may_leak_what_it_may_or_what_it_has_and_not_both() {
    let known = |bytes, blocks| {
        let accepted = Accepted { measure: Measure { bytes, blocks }, by: By::Baseline };
        Acceptance { items: [(Item::Finding(0), accepted)].into(), ..Acceptance::default() }
    };
    let verdict = |budget: &Budget, bytes, blocks, acceptance: &Acceptance| {
        let seen = Seen { findings: findings(&[(DefinitelyLost, bytes, blocks)]), ..Seen::default() };
        judge(budget, &Outcome::Passed, false, seen, &OPTIONS, &|_| acceptance.clone()).verdict
    };
    let budget = Budget { bytes: Some(40), ..none() };
    assert_eq!(verdict(&budget, 40, 1, &known(0, 0)), Verdict::Clean);
    assert_eq!(verdict(&budget, 50, 1, &known(50, 1)), Verdict::Clean);
    let grown = Verdict::Leaks(vec!["10 B definitely lost in 1 block (budget 40 B)".to_owned()]);
    assert_eq!(verdict(&budget, 60, 2, &known(50, 1)), grown);
    // What a rule accepts is taken off.
    let by_rule = accepting(&[(Item::Finding(0), 50, 1)]);
    assert_eq!(verdict(&budget, 90, 2, &by_rule), Verdict::Clean);
}

#[test]
fn a_rule_that_is_exceeded_is_a_reason_beside_others() {
    let hit = Hit { rule: "init".to_owned(), bytes: 64, blocks: 2, exceeded: Some("2 > 1".to_owned()) };
    let exceeded = |items: &[(Item, u64, u64)]| {
        let acceptance = Acceptance { hits: vec![hit.clone()], ..accepting(items) };
        judged(&Outcome::Passed, Left::default(), &acceptance).verdict
    };
    let Verdict::Leaks(reasons) = exceeded(&[]) else { panic!("nothing is accepted") };
    assert_eq!(reasons[1], "rule 'init' exceeded: 2 > 1");
    // Within the budget it is none.
    let all = [(Item::Finding(0), 40, 1), (Item::Finding(1), 24, 2), (Item::Finding(2), 8, 1)];
    assert_eq!(exceeded(&all), Verdict::Clean);
}

#[test]
fn who_is_not_judged_is_not_compared() {
    let compared = |outcome| judged(&outcome, Left::default(), &accepting(&[])).acceptance.baseline.is_some();
    assert!(compared(Outcome::Passed));
    assert!(!compared(Outcome::Failed { code: 101 }));
    assert!(!compared(Outcome::TimedOut));
}
