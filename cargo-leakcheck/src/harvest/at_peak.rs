//! What is alive at the peak of a process: from its entry point on, and at its exit.

use std::cmp::Reverse;
use std::collections::HashSet;

use leakcheck_preload::layout::control::VERSION;
use nix::unistd::Pid;

use super::growth::alive;
use super::ledger::Ledger;
use super::marks::Log;
use super::records::{Recorded, Records};
use crate::model::{Allocated, AtPeak, Heap, Measure};
use crate::trace::{Process, Steering, read_word};

/// Call stacks that are kept at most.
const MOST: usize = 1000;
/// What is nobody's is little where it is less than this part of all else.
const LITTLE: u64 = 100;

/// A process with a ledger, at these control words, is kept at its entry point: what is alive of its window, if that has begun, is
/// told to the ledger.
///
/// # Errors
/// It cannot be told.
pub fn begin(steering: &Steering, process: &Process, reader: Pid, control: u64) -> Result<(), String> {
    // Before its first allocation it is not set up.
    if read_word(reader, control + VERSION as u64 * 8) == Some(0) {
        return Ok(());
    }
    let ledger = Ledger::read(reader, control)?;
    let mut alive = alive(steering, process, reader)?.by_stack.into_iter();
    match alive.all(|(stack, measure)| ledger.set_alive(stack, measure)) {
        true => Ok(()),
        false => Err("its ledger cannot be written".to_owned()),
    }
}

/// By its records; `recorded` is what was read of them. Call stacks are numbers of keys.
pub fn of(records: &Records<'_>, recorded: &mut Recorded, log: Option<&Log>) -> AtPeak<usize> {
    let all = match records.at_peak() {
        Ok(all) => all,
        Err(reason) => return AtPeak::unknown(reason),
    };
    // What the test's code has said of its blocks is none of them. All that it has ever said is still there.
    let log: HashSet<u64> = log.into_iter().flat_map(Log::addresses).collect();
    let places = recorded.blocks.places().iter().enumerate();
    let entries = places.filter(|(_, place)| log.contains(&place.start));
    let entries: HashSet<usize> = entries.filter_map(|(block, _)| recorded.blocks.stack(block)).collect();
    let all = all.into_iter().map(|(key, measure)| (recorded.keys.number(key), measure)).collect();
    without(&entries, all).map_or_else(AtPeak::unknown, largest)
}

/// What was alive at the peak, by the keys of call stacks, if it comes to that; `heap` is what was allocated in all, where it is known.
///
/// # Errors
/// Why it does not.
pub fn checked(all: Vec<(u64, Measure)>, heap: Option<Heap>) -> Result<Vec<(u64, Measure)>, String> {
    let peak = heap.ok_or("the recorder had no room for all of it")?.peak;
    let sum = all.iter().map(|(_, measure)| *measure).sum::<Measure>().bytes;
    // A thread may have been stopped in the middle of a change.
    match peak.exact() == Some(sum) {
        true => Ok(all),
        false => Err(format!(
            "it was before the program's entry point, or the process ended in an allocation: call stacks had {sum} B, the peak is {peak}"
        )),
    }
}

/// Without call stacks of what is nobody's.
///
/// # Errors
/// Why it would be the peak of something else.
fn without(
    entries: &HashSet<usize>,
    all: Vec<(Option<usize>, Measure)>,
) -> Result<Vec<(Option<usize>, Measure)>, String> {
    let is_entry = |(key, _): &(Option<usize>, _)| key.is_some_and(|key| entries.contains(&key));
    let (kept, all): (Vec<_>, Vec<_>) = all.into_iter().partition(is_entry);
    let [kept, rest] = [&kept, &all].map(|of| of.iter().map(|(_, measure)| *measure).sum::<Measure>().bytes);
    // It may have been the most by this alone.
    if kept.saturating_mul(LITTLE) > rest {
        return Err(format!("what is kept of the test's calls of `leakcheck` was {kept} B beside {rest} B"));
    }
    Ok(all)
}

/// The largest ones, in their order, and the rest as a sum.
fn largest(mut all: Vec<(Option<usize>, Measure)>) -> AtPeak<usize> {
    all.sort_by_key(|(key, measure)| (Reverse(*measure), *key));
    let rest = all.split_off(all.len().min(MOST));
    AtPeak {
        stacks: all.into_iter().map(|(stack, measure)| Allocated { measure, stack }).collect(),
        rest: rest.into_iter().map(|(_, measure)| measure).sum(),
        unknown: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Peak;

    #[test]
    fn what_does_not_come_to_the_peak_is_not_known() {
        let all = || vec![(7, Measure { bytes: 30, blocks: 1 }), (9, Measure { bytes: 10, blocks: 1 })];
        let heap = |peak| Some(Heap { peak, ..Heap::default() });
        assert_eq!(checked(all(), heap(Peak::exactly(40))), Ok(all()));
        assert!(checked(all(), heap(Peak::exactly(41))).unwrap_err().ends_with("40 B, the peak is 41 B"));
        assert!(checked(all(), heap(Peak { at_least: 40, at_most: 41 })).is_err());
        assert!(checked(all(), None).is_err());
    }

    #[test]
    fn what_is_nobodys_is_left_out_where_it_is_little() {
        let all = |of_test| {
            vec![
                (Some(7), Measure { bytes: of_test, blocks: 1 }),
                (Some(8), Measure { bytes: 64, blocks: 1 }),
            ]
        };
        let entries = HashSet::from([8]);
        assert_eq!(without(&entries, all(6400)), Ok(vec![all(6400)[0]]));
        let problem = without(&entries, all(6399)).unwrap_err();
        assert!(problem.ends_with("was 64 B beside 6399 B"), "{problem}");
        assert_eq!(without(&HashSet::new(), all(1)), Ok(all(1)));
    }

    #[test]
    fn the_largest_are_kept_and_the_others_summed() {
        let measure = |bytes| Measure { bytes, blocks: 1 };
        let all = (0..1003).map(|key| (Some(key), measure(key as u64 + 1)));
        let at_peak = largest(all.collect());
        assert_eq!(at_peak.stacks.len(), 1000);
        assert_eq!(at_peak.stacks[0], Allocated { measure: measure(1003), stack: Some(1002) });
        assert_eq!(at_peak.stacks[999], Allocated { measure: measure(4), stack: Some(3) });
        // 1 and 2 and 3
        assert_eq!(at_peak.rest, Measure { bytes: 6, blocks: 3 });
        assert_eq!(at_peak.total(), Measure { bytes: 1003 * 1004 / 2, blocks: 1003 });
    }
}
