//! Values of options that clap has no parser for.

use clap::builder::RangedU64ValueParser;

pub use crate::config::duration;

/// The number of entries of a table in the kernel.
pub fn table_size() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=u64::from(u32::MAX / 2))
}
