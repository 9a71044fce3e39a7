//! What the kernel side could not write down.

use leakcheck_common::process;

use crate::snapshot::Loss;

/// The losses that a counter of the kernel side tells of: `full` for what a full table has lost; and what was lost because the
/// kernel had no memory, of what one of them is.
pub fn lost(counter: u64, what: &'static str, full: fn(u64) -> Loss) -> impl Iterator<Item = Loss> {
    let (count, no_memory) = (counter % process::NO_MEMORY, counter / process::NO_MEMORY);
    let full = (count > 0).then(|| full(count));
    full.into_iter().chain((no_memory > 0).then_some(Loss::NoMemory { what, count: no_memory }))
}

/// How many it tells of.
pub fn all_lost(counter: u64) -> u64 {
    counter % process::NO_MEMORY + counter / process::NO_MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_told_from_a_kernel_without_memory() {
        let losses = |counter| lost(counter, "file", |count| Loss::Files { count }).collect::<Vec<_>>();
        let no_memory = |count| Loss::NoMemory { what: "file", count };
        // Each is counted by itself, in either half.
        let both = (0..3).map(|_| 1).chain((0..2).map(|_| process::NO_MEMORY)).sum();
        assert_eq!(losses(0), []);
        assert_eq!(losses(3), [Loss::Files { count: 3 }]);
        assert_eq!(losses(process::NO_MEMORY), [no_memory(1)]);
        assert_eq!(losses(both), [Loss::Files { count: 3 }, no_memory(2)]);
        assert_eq!(all_lost(both), 5);
        let [full, momentary] = losses(both).try_into().unwrap();
        assert!(full.to_string().contains("--max-files") && !momentary.to_string().contains("--max-"));
    }
}
