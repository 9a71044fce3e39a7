//! What a process has allocated in its window, by what its recorder has counted. Pure.

use leakcheck_common::{CANARY_SIZE, process};
use leakcheck_preload::accounts::Accounts;

use crate::model::{Heap, Measure, Peak};
use crate::trace::ProcessRecord;

/// By the accounts of the ledger.
pub fn of_ledger(accounts: Accounts) -> Heap {
    let Accounts { blocks, bytes, at_least, at_most } = accounts;
    Heap { total: Measure { bytes, blocks }, peak: Peak { at_least, at_most } }
}

/// By the counters of the kernel side; none where one of them could not be kept.
pub fn of_kernel(counters: &ProcessRecord) -> Option<Heap> {
    let total = Measure { bytes: counters[process::TOTAL_BYTES], blocks: counters[process::TOTAL_BLOCKS] };
    let peak = Peak::exactly(counters[process::PEAK_BYTES]);
    (counters[process::LOST_PEAKS] == 0).then_some(Heap { total, peak })
}

/// Without the canary, which is there all the time.
pub fn without_canary(heap: Heap) -> Heap {
    let less = |bytes: u64| bytes.saturating_sub(CANARY_SIZE);
    let Heap { total, peak } = heap;
    Heap {
        total: total.less(Measure { bytes: CANARY_SIZE, blocks: 1 }),
        peak: Peak { at_least: less(peak.at_least), at_most: less(peak.at_most) },
    }
}

/// Without what the crate `leakcheck` has kept of the calls of a test's code, which is nobody's: of its peak nobody knows how much
/// of that was there by then.
pub fn without_log(heap: Heap, kept: Measure) -> Heap {
    let Heap { total, peak: Peak { at_least, at_most } } = heap;
    let at_least = at_least.saturating_sub(kept.bytes);
    Heap { total: total.less(kept), peak: Peak { at_least, at_most } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canary_is_nobodys() {
        let total = Measure { bytes: 20 + CANARY_SIZE, blocks: 3 };
        let heap = without_canary(Heap { total, peak: Peak::exactly(10 + CANARY_SIZE) });
        assert_eq!(heap, Heap { total: Measure { bytes: 20, blocks: 2 }, peak: Peak::exactly(10) });
    }

    #[test]
    fn what_is_kept_of_calls_is_nobodys() {
        let measure = |bytes, blocks| Measure { bytes, blocks };
        let heap = Heap { total: measure(164, 5), peak: Peak::exactly(130) };
        // Both may have been there at the peak, or neither.
        let peak = Peak { at_least: 66, at_most: 130 };
        assert_eq!(without_log(heap, measure(64, 2)), Heap { total: measure(100, 3), peak });
        assert_eq!(without_log(heap, Measure::default()), heap);
    }

    #[test]
    fn a_peak_that_could_not_be_kept_is_not_known() {
        let mut counters: ProcessRecord = [0; process::WORDS];
        (counters[process::TOTAL_BLOCKS], counters[process::TOTAL_BYTES]) = (3, 70);
        counters[process::PEAK_BYTES] = 50;
        let heap = Heap { total: Measure { bytes: 70, blocks: 3 }, peak: Peak::exactly(50) };
        assert_eq!(of_kernel(&counters), Some(heap));
        counters[process::LOST_PEAKS] = 1;
        assert_eq!(of_kernel(&counters), None);
    }
}
