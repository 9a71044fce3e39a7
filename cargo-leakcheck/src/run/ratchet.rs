//! What a run makes of the baseline: `baseline write` takes in what leaks now, `baseline update` takes out what does not
//! leak any more, and adds nothing.

use std::collections::BTreeSet;

use crate::accept::baseline::{Baseline, known};
use crate::accept::counting;
use crate::judge;
use crate::model::{By, CheckedTest, Leak, OwnCode, Verdict};
use crate::options::Ratchet;

/// What a run has seen of the workspace.
pub struct Ran<'a> {
    /// The tests that ran.
    pub tests: &'a [CheckedTest],
    /// Every test of the binaries that were looked at, by its name in the baseline, whether it ran or not.
    pub all: &'a BTreeSet<String>,
    /// Whose code is whose.
    pub own: &'a OwnCode,
    /// Whether anything of a kind could have failed a test: that was looked at, and there is a limit.
    pub looked: &'a dyn Fn(&CheckedTest, Leak) -> bool,
}

/// The baseline after a run, by the one before. Of a test that did not run, or of which not all was seen, is known what was
/// known; one that its binary has no more is forgotten.
pub fn after(before: Baseline, how: Ratchet, ran: &Ran<'_>) -> Baseline {
    let mut baseline = before.clone();
    let binary = |id: &str| id.split(' ').next().unwrap_or_default().to_owned();
    let binaries: BTreeSet<String> = ran.all.iter().map(|id| binary(id)).collect();
    baseline.0.retain(|test, _| ran.all.contains(test) || !binaries.contains(&binary(test)));
    for test in ran.tests {
        let memory = &test.memory;
        let is_whole = matches!(memory.verdict, Verdict::Clean | Verdict::Leaks(_)) && memory.counts;
        if !is_whole {
            continue;
        }
        let (id, seen) = (test.test.id(), memory.seen());
        let mut things = counting(&seen, &|item, leak| match item {
            Some(item) => judge::can_fail(&test.test, &seen, item, leak),
            None => (ran.looked)(test, leak),
        });
        // What a rule accepts is the rule's, for as long as there is that; and what is within its limits is to stay there.
        let mut by_rules = memory.acceptance.clone();
        by_rules.items.retain(|_, accepted| matches!(accepted.by, By::Rule(_) | By::Code(_)));
        let failing = judge::failing(&test.test, &test.outcome, &seen, &by_rules);
        things.retain(|thing| !by_rules.is_by_rule(thing.item) && failing.contains(&thing.leak));
        let looked = |leak| (ran.looked)(test, leak);
        let known = match how {
            Ratchet::Update => before.compare(&id, &things, ran.own, &looked).still,
            Ratchet::Write => {
                let unseen = before.0.get(&id).into_iter().flatten().filter(|known| !looked(known.leak));
                known(&things, ran.own).into_iter().chain(unseen.cloned()).collect()
            }
        };
        match known.is_empty() {
            true => drop(baseline.0.remove(&id)),
            false => drop(baseline.0.insert(id, known)),
        }
    }
    baseline
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::baseline::Known;
    use crate::model::{FindingKind, Measure, Outcome};
    use crate::report::testing;
    use crate::snapshot::Loss;

    fn entry(bytes: u64) -> Known {
        let frames = vec!["a::tests::leaks".to_owned()];
        Known {
            leak: Leak::Memory(FindingKind::DefinitelyLost),
            what: None,
            frames,
            measure: Measure { bytes, blocks: 1 },
        }
    }

    fn of(tests: &[(&str, u64)]) -> Baseline {
        Baseline(tests.iter().map(|(name, bytes)| (format!("a {name}"), vec![entry(*bytes)])).collect())
    }

    fn after(before: &[(&str, u64)], how: Ratchet, tests: &[CheckedTest]) -> Baseline {
        let all = ["a leaks", "a clean", "a unseen", "a ignored", "a failed"].map(str::to_owned).into();
        let own = testing::view().own;
        let looked = |_: &CheckedTest, leak| matches!(leak, Leak::Memory(_));
        super::after(of(before), how, &Ran { tests, all: &all, own: &own, looked: &looked })
    }

    fn tests() -> Vec<CheckedTest> {
        let unseen = Verdict::Incomplete(vec![Loss::NoBody]);
        vec![
            // 4096 B in `a::tests::leaks`.
            testing::leaking("leaks"),
            testing::test("clean", Outcome::Passed, Verdict::Clean),
            testing::test("unseen", Outcome::Passed, unseen),
            testing::failing("failed"),
        ]
    }

    #[test]
    fn writing_takes_in_what_leaks_and_nothing_else() {
        assert_eq!(after(&[], Ratchet::Write, &tests()), of(&[("leaks", 4096)]));
        // What was known of tests that were not seen is known still; of one that is clean no more.
        let before = [("clean", 1), ("unseen", 2), ("ignored", 3), ("failed", 4), ("leaks", 5)];
        let expected = of(&[("unseen", 2), ("ignored", 3), ("failed", 4), ("leaks", 4096)]);
        assert_eq!(after(&before, Ratchet::Write, &tests()), expected);
    }

    #[test]
    fn updating_only_takes_out() {
        assert_eq!(after(&[], Ratchet::Update, &tests()), of(&[]));
        assert_eq!(after(&[("leaks", 40), ("clean", 1)], Ratchet::Update, &tests()), of(&[("leaks", 40)]));
        assert_eq!(after(&[("leaks", 9999)], Ratchet::Update, &tests()), of(&[("leaks", 4096)]));
    }

    #[test]
    fn tests_that_are_no_more_are_forgotten() {
        let mut before = of(&[("removed", 1)]);
        before.0.insert("other t".to_owned(), vec![entry(7)]);
        let all = ["a leaks".to_owned()].into();
        let own = testing::view().own;
        let ran = Ran { tests: &[], all: &all, own: &own, looked: &|_, _| true };
        // The binary `other` was not looked at.
        let kept = Baseline([("other t".to_owned(), vec![entry(7)])].into());
        assert_eq!(super::after(before, Ratchet::Update, &ran), kept);
    }
}
