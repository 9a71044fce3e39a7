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

/// Bytes that `text` stands for: a whole number and a unit (bytes without one).
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() || unit.starts_with(['.', ',', '_']) {
        return Err(format!("`{text}` is no size; write a whole number and a unit, such as \"4 KiB\""));
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("unknown unit `{unit}`; use B, kB, KiB, MB, MiB, GB or GiB"));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| format!("`{text}` is more than the {} bytes that fit in 64 bits", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::parse;

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
            assert_eq!(parse(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_named_in_the_error() {
        for (text, part) in [
            ("", "no size"),
            ("KiB", "no size"),
            ("-1 B", "no size"),
            ("1.5 MB", "no size"),
            ("1_000", "no size"),
            ("4 kib", "unknown unit `kib`"),
            ("4 KiB 2 B", "unknown unit `KiB 2 B`"),
            ("٤ B", "no size"),
            ("18446744073709551616", "64 bits"),
            ("18014398509481984 KiB", "64 bits"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
