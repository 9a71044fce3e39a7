//! Values of options that clap has no parser for.

use clap::builder::RangedU64ValueParser;

pub use crate::config::duration;
use crate::options::{Partition, PartitionBy};

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
pub fn table_size() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=u64::from(u32::MAX / 2))
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
