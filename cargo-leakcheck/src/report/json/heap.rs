//! What a test has allocated.

use serde::{Deserialize, Serialize};

use crate::model::{Heap, Measure, Peak};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    peak_bytes: u64,
    /// Where it is not exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes_at_least: Option<u64>,
    total_bytes: u64,
    total_blocks: u64,
}

impl From<Heap> for Row {
    fn from(heap: Heap) -> Self {
        let Heap { total, peak } = heap;
        Self {
            peak_bytes: peak.at_most,
            peak_bytes_at_least: peak.exact().is_none().then_some(peak.at_least),
            total_bytes: total.bytes,
            total_blocks: total.blocks,
        }
    }
}

impl From<Row> for Heap {
    fn from(row: Row) -> Self {
        let at_most = row.peak_bytes;
        Self {
            total: Measure { bytes: row.total_bytes, blocks: row.total_blocks },
            peak: Peak { at_least: row.peak_bytes_at_least.unwrap_or(at_most), at_most },
        }
    }
}
