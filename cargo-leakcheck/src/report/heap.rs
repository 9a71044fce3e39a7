//! What a test has allocated, in a line.

use super::text;
use crate::model::{CheckedTest, Heap, Verdict};

/// `heap: peak 1048576 B, 5 blocks of 1355776 B allocated in all`; none where that is not known.
pub(super) fn line(test: &CheckedTest) -> Option<String> {
    test.memory.heap.map(|heap| {
        // What is said of it depends on the limit, which a document that is read again does not have.
        let why = match heap.peak.exact() {
            Some(_) => "",
            None => " (several threads or processes; of threads it is exact where there is a limit for it)",
        };
        let Heap { total, peak } = heap;
        let blocks = text::count(total.blocks, "block");
        format!("heap: peak {peak}{why}, {blocks} of {} B allocated in all", total.bytes)
    })
}

/// Whether the test has a limit for it.
pub(super) fn is_limited(test: &CheckedTest) -> bool {
    let (budget, judge) = (&test.test.budget, &test.test.judge);
    test.test.peak_limit().or(budget.total_blocks).or(judge.total_blocks).is_some()
}

/// What is said in the line of a test that has a limit and keeps to it: `peak 1024 B, 1 block allocated`.
pub(super) fn aside(test: &CheckedTest) -> Option<String> {
    let heap =
        test.memory.heap.filter(|_| is_limited(test) && matches!(test.memory.verdict, Verdict::Clean))?;
    Some(format!("peak {}, {} allocated", heap.peak, text::count(heap.total.blocks, "block")))
}

/// What is said of a test whose peak was to be known by call stacks, and is not.
pub(super) fn unknown(test: &CheckedTest) -> Option<String> {
    let reason = test.memory.left.at_peak.as_ref()?.unknown.as_deref()?;
    Some(format!("peak not known by call stacks: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AtPeak, Measure, Outcome, Peak};
    use crate::report::testing;

    #[test]
    fn a_line_says_what_is_known() {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        assert_eq!((line(&test), aside(&test)), (None, None));
        let total = Measure { bytes: 30, blocks: 2 };
        test.memory.heap = Some(Heap { total, peak: Peak::exactly(20) });
        let expected = "heap: peak 20 B, 2 blocks of 30 B allocated in all";
        assert_eq!((line(&test).as_deref(), aside(&test)), (Some(expected), None));
        test.test.judge.total_blocks = Some(2);
        assert_eq!(aside(&test).as_deref(), Some("peak 20 B, 2 blocks allocated"));
        test.memory.heap = Some(Heap { total, peak: Peak { at_least: 10, at_most: 20 } });
        assert!(line(&test).unwrap().starts_with("heap: peak between 10 B and 20 B (several threads"));
        test.memory.verdict = Verdict::Leaks(Vec::new());
        assert_eq!((aside(&test), unknown(&test)), (None, None));
        test.memory.left.at_peak = Some(AtPeak::unknown("why".into()));
        assert_eq!(unknown(&test).as_deref(), Some("peak not known by call stacks: why"));
    }
}
