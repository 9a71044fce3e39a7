//! What the kernel has allocated for a test, by system call and place in the kernel: information.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use leakcheck_common::{process, total};

use super::files::calls;
use crate::model::{KernelTotal, KernelTotals};
use crate::sys;
use crate::trace::{Process, ProcessRecord, Steering};

/// What is put off by RCU may put off more: so often all CPUs pass through it before the totals are read.
const RCU_PASSES: usize = 3;

/// Where the kernel allocates what its own account of the test, in maps of eBPF, takes.
const OWN: &str = "alloc_bulk";

/// The totals of a process that is kept at its exit; none where they are not asked for, or cannot be had.
pub fn of(steering: &Steering, process: &Process, counters: &ProcessRecord) -> Option<KernelTotals> {
    let objects = steering.kernel()?.objects()?.as_ref().ok()?;
    if !objects.runs() || !objects.counts_totals() {
        return None;
    }
    sys::let_rcu_pass(RCU_PASSES);
    let mut by_place = BTreeMap::<_, [u64; total::WORDS]>::new();
    for of in objects.totals(process.pid).ok()? {
        let place = objects.symbols().function(of.site).map(str::to_owned);
        if place.as_deref() == Some(OWN) {
            continue;
        }
        let place = place.unwrap_or_else(|| format!("{:#x}", of.site));
        let counts = by_place.entry((of.call, place)).or_default();
        counts.iter_mut().zip(of.counts).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
    }
    let one = |((call, place), counts): ((Option<u32>, String), [u64; total::WORDS])| KernelTotal {
        call: call.map(|call| calls::name(call.into())),
        place,
        allocated_bytes: counts[total::BYTES],
        allocated_objects: counts[total::OBJECTS],
        bytes: counts[total::BYTES].saturating_sub(counts[total::FREED_BYTES]),
        objects: counts[total::OBJECTS].saturating_sub(counts[total::FREED_OBJECTS]),
    };
    let mut totals: Vec<_> = by_place.into_iter().map(one).collect();
    totals.sort_by_key(|total| Reverse((total.bytes, total.allocated_bytes)));
    let lost = counters[process::LOST_OBJECTS] + counters[process::LOST_TOTALS];
    Some(KernelTotals { totals, lost })
}
