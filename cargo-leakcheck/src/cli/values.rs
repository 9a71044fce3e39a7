//! Values of options that clap has no parser for.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use crate::options::{Partition, PartitionBy};

/// A time: a number of seconds, or a number with `ms`, `s`, `m` or `h` behind it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`; use a number with ms, s, m or h, as in 30s")),
    };
    let seconds =
        number.parse::<f64>().map_err(|_| "use a number with ms, s, m or h, as in 30s".to_owned())?;
    match Duration::try_from_secs_f64(seconds * factor) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("must be more than 0".to_owned()),
        Err(_) => Err("too long".to_owned()),
    }
}

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
    fn units() {
        let cases = [("30", 30_000), ("30s", 30_000), ("2m", 120_000), ("1.5m", 90_000), ("250ms", 250)];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

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

    #[test]
    fn nonsense() {
        for text in ["", "s", "-1", "0", "1d", "1s2", "1e400h", "999999999999999999999h", "1.2.3"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
