//! Values of options that clap has no parser for.

use std::num::NonZeroUsize;

pub use crate::config::duration;
use crate::options::{MAX_ENTRIES, MAX_TASKS, Partition, PartitionBy};

/// A part of the tests: `slice:1/4`.
pub fn partition(text: &str) -> Result<Partition, String> {
    let wrong = || "use slice:M/N, hash:M/N or count:M/N with 1 <= M <= N, as in slice:1/4".to_owned();
    let (kind, numbers) = text.split_once(':').ok_or_else(wrong)?;
    let by = match kind {
        "slice" => PartitionBy::Slice,
        "hash" => PartitionBy::Hash,
        "count" => PartitionBy::Count,
        _ => return Err(wrong()),
    };
    let (part, of) = numbers.split_once('/').ok_or_else(wrong)?;
    let (part, of) = (part.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
    if (1..=of).contains(&part) { Ok(Partition { by, part, of }) } else { Err(wrong()) }
}

/// The number of entries of a table in the kernel.
pub fn table_size(text: &str) -> Result<u32, String> {
    up_to(MAX_ENTRIES, text)
}

/// The number of processes and threads at a time.
pub fn tasks(text: &str) -> Result<u32, String> {
    up_to(MAX_TASKS, text)
}

/// The number of tests at a time.
pub fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    Ok(NonZeroUsize::new(tasks(text)? as usize).expect("it is 1 at least"))
}

fn up_to(most: u32, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("use a whole number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let part = |by, part, of| Ok(Partition { by, part, of });
        assert_eq!(partition("slice:1/4"), part(PartitionBy::Slice, 1, 4));
        assert_eq!(partition("hash:4/4"), part(PartitionBy::Hash, 4, 4));
        assert_eq!(partition("count:1/1"), part(PartitionBy::Count, 1, 1));
        for text in
            ["", "slice", "slice:", "slice:1", "slice:0/2", "slice:3/2", "hash:m/2", "hash:1/2/3", "x:1/2"]
        {
            assert!(partition(text).is_err(), "{text}");
        }
    }
}
