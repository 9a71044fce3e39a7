//! What is alive while a test's body is run again and again, and what that comes to at the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use leakcheck_common::block;
use nix::unistd::Pid;

use super::marks::Log;
use super::records::Records;
use super::stacks::Keys;
use crate::model::{Grown, Growth, Measure};
use crate::trace::{Alive, Process, Repeated, Steering};

/// Call stacks that are kept at most.
const MOST: usize = 100;

/// What is alive now of all that was allocated in the window. `reader` is a thread that is stopped; others may run.
///
/// # Errors
/// Why that is not known.
pub fn alive(steering: &Steering, process: &Process, reader: Pid) -> Result<Alive, String> {
    let counters = steering.process(process.pid)?;
    let records = Records::of(steering.kernel(), process, &counters, reader)?;
    let mut by_stack: HashMap<u64, Measure> = HashMap::new();
    let mut newest = 0;
    // What the test's code has said of its blocks is none of them.
    let log: HashSet<u64> = Log::read(process, reader).iter().flat_map(Log::addresses).collect();
    records.alive(|address, record| {
        if !log.contains(&address) {
            by_stack.entry(record[block::STACK]).or_default().add(record[block::SIZE]);
            newest = newest.max(record[block::TIME]);
        }
    });
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", process.pid));
    Ok(Alive { by_stack, newest, descriptors: descriptors.ok().map(|all| all.count() as u64) })
}

/// What the iterations of a test come to. Call stacks are numbers of keys.
pub fn of(repeated: &Repeated, keys: &mut Keys) -> Growth<usize> {
    let (alive, warmup) = (&repeated.alive, repeated.wanted.warmup as usize);
    let mut stacks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (number, alive) in alive.iter().enumerate() {
        for (stack, measure) in &alive.by_stack {
            stacks.entry(*stack).or_insert_with(|| vec![0; repeated.alive.len()])[number] = measure.bytes;
        }
    }
    let mut grown: Vec<_> =
        stacks.into_iter().map(|(stack, bytes)| Grown { bytes, stack: Some(stack) }).collect();
    grown.retain(|grown| grown.added_after(warmup) > 0);
    grown.sort_by_key(|grown| Reverse(grown.added_after(warmup)));
    grown.truncate(MOST);
    Growth {
        iterations: repeated.wanted.total,
        warmup: repeated.wanted.warmup,
        alive: alive.iter().map(|alive| alive.by_stack.values().copied().sum()).collect(),
        descriptors: alive.iter().map(|alive| alive.descriptors).collect::<Option<_>>().unwrap_or_default(),
        grown: grown
            .into_iter()
            .map(|Grown { bytes, stack }| Grown { bytes, stack: stack.and_then(|key| keys.number(key)) })
            .collect(),
        ended: repeated.ended(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Iterations;

    #[test]
    fn what_has_grown_since_the_warm_up_is_kept_by_its_stack() {
        let wanted = Iterations { total: 4, warmup: 2, by_test: true };
        let mut repeated = Repeated::new(wanted);
        // A cache, filled in the first iterations; a box more each time; one that is replaced.
        for number in 1..=4 {
            let cache = Measure { bytes: 100 * number.min(2), blocks: number.min(2) };
            let boxes = Measure { bytes: 24 * number, blocks: number };
            let by_stack = [(7, cache), (8, boxes), (9, Measure { bytes: 50, blocks: 1 })].into();
            repeated.alive.push(Alive { by_stack, newest: number, descriptors: Some(3) });
        }
        let mut keys = Keys::default();
        let growth = of(&repeated, &mut keys);
        assert_eq!(growth.bytes(), [174, 298, 322, 346]);
        assert_eq!(growth.alive[3], Measure { bytes: 346, blocks: 7 });
        assert_eq!(growth.grown, [Grown { bytes: vec![24, 48, 72, 96], stack: keys.number(8) }]);
        assert_eq!((growth.descriptors.as_slice(), growth.is_whole()), (&[3; 4][..], true));
        repeated.alive.pop();
        let growth = of(&repeated, &mut keys);
        assert_eq!((growth.is_whole(), growth.ended.is_some()), (false, true));
    }
}
