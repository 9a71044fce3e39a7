//! Several attempts at one test. Whatever has leaked once, leaks.

use std::collections::BTreeMap;

use crate::model::{Attempts, CheckedTest, Outcome, TestName, Verdict};

/// Makes one result of all that a test has, whichever of the runs they come from, in the order of binaries and
/// names. The result is that of the first attempt whose leaks count, or else of the last one.
pub fn decide(tests: Vec<CheckedTest>) -> Vec<CheckedTest> {
    let mut by_test: BTreeMap<(String, TestName), Vec<CheckedTest>> = BTreeMap::new();
    for test in tests {
        by_test.entry((test.test.binary.id(), test.test.name.clone())).or_default().push(test);
    }
    by_test.into_values().filter_map(one).collect()
}

fn one(mut attempts: Vec<CheckedTest>) -> Option<CheckedTest> {
    if attempts.len() < 2 {
        return attempts.pop();
    }
    attempts.sort_by_key(|attempt| attempt.test.attempt);
    let leaks = |test: &CheckedTest| matches!(test.memory.verdict, Verdict::Leaks(_)) && test.memory.counts;
    // A report that was merged counts for all that it was made of.
    let sum = |of: fn(&Attempts) -> u64, is: &dyn Fn(&CheckedTest) -> bool| -> u64 {
        let count = |it: &CheckedTest| it.memory.attempts.as_ref().map_or(u64::from(is(it)), of);
        attempts.iter().map(count).sum()
    };
    let made = Attempts {
        total: sum(|of| of.total, &|_| true),
        leaking: sum(|of| of.leaking, &leaks),
        failed: sum(|of| of.failed, &|test| test.outcome != Outcome::Passed),
    };
    let place = attempts.iter().position(leaks).unwrap_or(attempts.len() - 1);
    let mut test = attempts.swap_remove(place);
    if let Verdict::Leaks(reasons) = &mut test.memory.verdict
        && test.memory.counts
    {
        reasons.retain(|reason| !reason.starts_with("leaks in "));
        reasons.insert(0, format!("leaks in {} of {} attempts", made.leaking, made.total));
    }
    test.memory.attempts = Some(made);
    Some(test)
}

#[cfg(test)]
mod tests {
    use super::super::tests::checked;
    use super::*;
    use crate::snapshot::Loss;

    fn attempt(number: u32, outcome: Outcome, verdict: Verdict) -> CheckedTest {
        let mut test = checked(outcome, verdict, true);
        test.test.attempt = number;
        test
    }

    fn leaks() -> Verdict {
        Verdict::Leaks(vec!["4 B".to_owned()])
    }

    fn decided(attempts: Vec<CheckedTest>) -> (Verdict, u32, Option<(u64, u64, u64)>) {
        let [test] = <[_; 1]>::try_from(decide(attempts)).unwrap();
        let counts = test.memory.attempts.map(|it| (it.total, it.leaking, it.failed));
        (test.memory.verdict, test.test.attempt, counts)
    }

    #[test]
    fn a_leak_in_one_attempt_is_a_leak() {
        let failed = || Outcome::Failed { code: 101 };
        let passed = |number, verdict| attempt(number, Outcome::Passed, verdict);
        let flaky = vec![passed(3, Verdict::Clean), attempt(1, failed(), Verdict::Clean), passed(2, leaks())];
        let reasons = vec!["leaks in 1 of 3 attempts".to_owned(), "4 B".to_owned()];
        assert_eq!(decided(flaky), (Verdict::Leaks(reasons), 2, Some((3, 1, 1))));
        let mut uncounted = attempt(1, failed(), leaks());
        uncounted.memory.counts = false;
        assert_eq!(decided(vec![uncounted, passed(2, Verdict::Clean)]), (Verdict::Clean, 2, Some((2, 0, 1))));
        let unseen = passed(1, Verdict::Incomplete(vec![Loss::NoBody]));
        assert_eq!(decided(vec![unseen, passed(2, Verdict::Clean)]), (Verdict::Clean, 2, Some((2, 0, 0))));
        assert_eq!(decided(vec![passed(1, leaks())]), (leaks(), 1, None));
    }

    #[test]
    fn reports_that_were_merged_count_for_all_their_attempts() {
        let merged = || {
            decide(vec![attempt(1, Outcome::Passed, leaks()), attempt(2, Outcome::Passed, Verdict::Clean)])
        };
        let twice = merged().into_iter().chain(merged()).collect();
        let reasons = vec!["leaks in 2 of 4 attempts".to_owned(), "4 B".to_owned()];
        assert_eq!(decided(twice), (Verdict::Leaks(reasons), 1, Some((4, 2, 0))));
    }
}
