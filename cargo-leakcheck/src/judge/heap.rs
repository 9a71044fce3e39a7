//! Limits for what was allocated, whether it is still there or not.

use crate::model::{Budget, Heap, count};
use crate::options::JudgeOptions;
use crate::snapshot::Loss;

/// The limits of a test.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    peak_bytes: Option<u64>,
    total_blocks: Option<u64>,
}

impl Limits {
    /// The test's own limit comes before that for all.
    pub fn of(budget: &Budget, options: &JudgeOptions) -> Self {
        Self {
            peak_bytes: budget.peak_bytes.or(options.peak_bytes),
            total_blocks: budget.total_blocks.or(options.total_blocks),
        }
    }

    /// What is not known well enough to be compared with them.
    pub fn loss(self, heap: Option<Heap>) -> Option<Loss> {
        let Some(Heap { peak, .. }) = heap else {
            return self.peak_bytes.or(self.total_blocks).map(|_| Loss::Heap);
        };
        let limit = self.peak_bytes?;
        (peak.at_least <= limit && limit < peak.at_most).then_some(Loss::Peak { peak, limit })
    }

    /// One reason for each limit that is exceeded.
    pub fn exceeded(self, heap: Option<Heap>) -> impl Iterator<Item = String> {
        let heap = heap.unwrap_or_default();
        let peak = self.peak_bytes.filter(|limit| heap.peak.at_least > *limit);
        let blocks = self.total_blocks.filter(|limit| heap.total.blocks > *limit);
        let peak = peak.map(|limit| format!("{} allocated at the peak (budget {limit} B)", heap.peak));
        let blocks = blocks.map(|limit| {
            let blocks = count(heap.total.blocks, "block");
            format!("{blocks} allocated in all (budget {})", count(limit, "block"))
        });
        peak.into_iter().chain(blocks)
    }
}
