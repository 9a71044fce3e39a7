//! What counts of what a test has left.

use std::collections::BTreeSet;

use super::judge;
use crate::model::{
    Acceptance, Accepted, Budget, By, CheckedTest, Counting, Finding, FindingKind, Frame, Item, Leak, Left,
    Limited, Outcome, PlannedTest, Seen, Verdict,
};
use crate::options::{Count, Dependencies, JudgeOptions};

/// Whether anything of a kind can fail a test.
pub fn counts(budget: &Budget, options: &JudgeOptions, leak: Leak) -> bool {
    let all = options.count == Count::Outstanding || budget.outstanding_bytes.is_some();
    match leak {
        Leak::Memory(FindingKind::DefinitelyLost | FindingKind::IndirectlyLost) | Leak::Ipc => true,
        Leak::Memory(FindingKind::PossiblyLost) => all,
        Leak::Memory(FindingKind::StillReachable) => {
            all || budget.reachable_bytes.or(budget.reachable_blocks).is_some()
        }
        Leak::Memory(FindingKind::DoubleFree | FindingKind::UnknownFree) => options.count_bad_frees,
        Leak::Descriptor => budget.fds.or(options.fds).is_some(),
        Leak::Child => budget.children.or(options.children).is_some(),
        Leak::Thread => budget.threads.or(options.threads).is_some(),
        Leak::Mapping => budget.mapped_bytes.or(options.mapped_bytes).is_some(),
    }
}

/// Whether one of the things that a test has left can fail it: by its kind, and by whose it is.
pub fn can_fail(test: &PlannedTest, seen: &Seen, item: Item, leak: Leak) -> bool {
    let options = test.judging();
    let Item::Finding(place) = item else { return counts(&test.budget, &options, leak) };
    let finding = &seen.findings[place];
    let limits = finding.in_code.limits().map(Limited::budget);
    is_judged(finding, &options)
        && finding.in_code.ignored.is_none()
        && counts(limits.as_ref().unwrap_or(&test.budget), &options, leak)
}

/// Whether a finding is compared with a budget, as far as that depends on whose it is; all are shown.
pub fn is_judged(finding: &Finding<Vec<Frame>>, options: &JudgeOptions) -> bool {
    options.dependencies == Dependencies::Fail || !finding.origin.owner.is_foreign()
}

/// Kinds of findings that are judged by the limits of a scope, or by the test's, and what counts of them.
pub(super) fn findings(
    all: &[Finding<Vec<Frame>>],
    limits: Option<&Limited>,
    acceptance: &Acceptance,
    options: &JudgeOptions,
) -> Vec<(FindingKind, Counting)> {
    let counting = |(place, finding): (usize, &Finding<Vec<Frame>>)| {
        (finding.kind, acceptance.counting(Item::Finding(place), finding.measure))
    };
    let is_its = |finding: &Finding<_>| is_judged(finding, options) && finding.in_code.limits() == limits;
    all.iter().enumerate().filter(|(_, finding)| is_its(finding)).map(counting).collect()
}

/// The kinds by which a test fails that has left this: if all of the others were accepted, it would still. `by_rules` is what is
/// accepted anyway.
pub fn failing(test: &PlannedTest, outcome: &Outcome, seen: &Seen, by_rules: &Acceptance) -> Vec<Leak> {
    let options = JudgeOptions { peak_bytes: None, total_blocks: None, ..test.judging() };
    let all = options.count == Count::Outstanding || test.budget.outstanding_bytes.is_some();
    // These are nothing that a test has left (`fails_anyway`).
    let budget = Budget { iterations: None, peak_bytes: None, total_blocks: None, ..test.budget.clone() };
    let seen = &Seen { left: Left { growth: None, ..seen.left.clone() }, ..seen.clone() };
    // What one limit is for is one.
    let group = |leak| match leak {
        Leak::Memory(FindingKind::IndirectlyLost | FindingKind::PossiblyLost) => LOST,
        Leak::Memory(FindingKind::StillReachable) if all => LOST,
        leak => leak,
    };
    let is_failing = |wanted: Leak| {
        let accepted = |seen: &Seen| accepting(seen, by_rules.clone(), |leak| group(leak) != wanted);
        let judged = judge(&budget, outcome, test.should_panic, seen.clone(), &options, &accepted);
        matches!(judged.verdict, Verdict::Leaks(_))
    };
    let there: BTreeSet<Leak> = seen.items().map(|(_, leak, _)| leak).collect();
    let groups: BTreeSet<Leak> = there.iter().map(|leak| group(*leak)).collect();
    let failing: Vec<Leak> = groups.into_iter().filter(|leak| is_failing(*leak)).collect();
    there.into_iter().filter(|leak| failing.contains(&group(*leak))).collect()
}

/// Whether a test fails whatever of that is accepted which it has left: by what it adds each time, by its peak or by its totals.
pub fn fails_anyway(test: &CheckedTest) -> bool {
    let CheckedTest { test, outcome, memory, .. } = test;
    let accepted = |seen: &Seen| accepting(seen, Acceptance::default(), |_| true);
    let judged = judge(&test.budget, outcome, test.should_panic, memory.seen(), &test.judging(), &accepted);
    judged.counts && matches!(judged.verdict, Verdict::Leaks(_))
}

/// With all that a test has left of some kinds accepted as well.
fn accepting(seen: &Seen, mut acceptance: Acceptance, which: impl Fn(Leak) -> bool) -> Acceptance {
    for (item, _, measure) in seen.items().filter(|(_, leak, _)| which(*leak)) {
        acceptance.items.insert(item, Accepted { measure, by: By::Rule(String::new()) });
    }
    acceptance
}

const LOST: Leak = Leak::Memory(FindingKind::DefinitelyLost);
