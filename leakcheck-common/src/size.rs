//! Sizes as people write them: `4 KiB`.

const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Why a text is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError<'a> {
    /// It is not a whole number and a unit.
    NoSize,
    /// It has this unit, which is none.
    UnknownUnit(&'a str),
    /// It is more than fits in 64 bits.
    TooLarge,
}

/// Bytes that `text` stands for: a whole number and a unit (bytes without one).
///
/// # Errors
/// What is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, SizeError<'_>> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() || unit.starts_with(['.', ',', '_']) {
        return Err(SizeError::NoSize);
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(SizeError::UnknownUnit(unit));
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|number| number.checked_mul(*factor)).ok_or(SizeError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::{SizeError, parse_size};

    #[test]
    fn decimal_and_binary_units_differ() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17 B", 17),
            ("4 kB", 4000),
            ("4 KB", 4000),
            ("4 KiB", 4096),
            ("4KiB", 4096),
            (" 4  KiB ", 4096),
            ("3 MB", 3_000_000),
            ("3 MiB", 3_145_728),
            ("2 GB", 2_000_000_000),
            ("2 GiB", 2_147_483_648),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        use SizeError::{NoSize, TooLarge, UnknownUnit};
        for (text, error) in [
            ("", NoSize),
            ("KiB", NoSize),
            ("-1 B", NoSize),
            ("1.5 MB", NoSize),
            ("1_000", NoSize),
            ("\u{664} B", NoSize),
            ("4 kib", UnknownUnit("kib")),
            ("4 KiB 2 B", UnknownUnit("KiB 2 B")),
            ("18446744073709551616", TooLarge),
            ("18014398509481984 KiB", TooLarge),
        ] {
            assert_eq!(parse_size(text), Err(error), "{text:?}");
        }
    }
}
