//! Limits for what was allocated.

use super::*;
use crate::model::{Heap, Peak};

/// A test that has allocated 5 blocks, with at most so many bytes at a time.
fn judged(heap: Option<Peak>, budget: &Budget, options: &JudgeOptions) -> Verdict {
    let heap = heap.map(|peak| Heap { total: Measure { bytes: 900, blocks: 5 }, peak });
    let seen = Seen { heap, ..Seen::default() };
    let nothing = |_: &Seen| Acceptance::default();
    judge(budget, &Outcome::Passed, false, seen, options, &nothing).verdict
}

fn peak_of(bytes: u64) -> Budget {
    Budget { peak_bytes: Some(bytes), ..Budget::default() }
}

#[test]
fn limits_are_inclusive_and_a_tests_own_comes_first() {
    let peak = Some(Peak::exactly(300));
    let leaks = |reason: &str| Verdict::Leaks(vec![reason.to_owned()]);
    assert_eq!(judged(peak, &Budget::default(), &OPTIONS), Verdict::Clean);
    assert_eq!(judged(peak, &peak_of(300), &OPTIONS), Verdict::Clean);
    let over = leaks("300 B allocated at the peak (budget 299 B)");
    assert_eq!(judged(peak, &peak_of(299), &OPTIONS), over);
    let for_all = JudgeOptions { peak_bytes: Some(299), total_blocks: Some(4), ..OPTIONS };
    let own = Budget { peak_bytes: Some(300), total_blocks: Some(5), ..Budget::default() };
    assert_eq!(judged(peak, &own, &for_all), Verdict::Clean);
    let blocks = "5 blocks allocated in all (budget 4 blocks)";
    assert_eq!(judged(peak, &peak_of(300), &for_all), leaks(blocks));
}

/// Nothing is judged by half of what is known.
#[test]
fn a_limit_within_what_is_not_known_is_incomplete() {
    let peak = Some(Peak { at_least: 200, at_most: 300 });
    assert_eq!(judged(peak, &peak_of(300), &OPTIONS), Verdict::Clean);
    for limit in [200, 299] {
        let lost = Loss::Peak { peak: Peak { at_least: 200, at_most: 300 }, limit };
        assert_eq!(judged(peak, &peak_of(limit), &OPTIONS), Verdict::Incomplete(vec![lost]));
    }
    let over = "between 200 B and 300 B allocated at the peak (budget 199 B)";
    assert_eq!(judged(peak, &peak_of(199), &OPTIONS), Verdict::Leaks(vec![over.to_owned()]));
    assert_eq!(judged(None, &Budget::default(), &OPTIONS), Verdict::Clean);
    let few = Budget { total_blocks: Some(1), ..Budget::default() };
    assert_eq!(judged(None, &few, &OPTIONS), Verdict::Incomplete(vec![Loss::Heap]));
}
