//! Suppression files of other tools, read as they are: what they say becomes rules, and what no rule can say is named.

mod lsan;
mod valgrind;

use camino::Utf8Path;
use fs_err as fs;

use crate::error::{Error, Result};
use crate::model::Rule;

/// What a file comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// What it accepts.
    pub rules: Vec<Rule>,
    /// What of it was left out: where, and why.
    pub left_out: Vec<String>,
}

/// Reads a file of LeakSanitizer's (`leak:` lines) or Valgrind's (blocks in braces).
///
/// # Errors
/// It cannot be read, or is neither.
pub fn read(path: &Utf8Path) -> Result<Imported> {
    let text = fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    parse(path.as_str(), &text).map_err(|reason| Error::Format { path: path.to_owned(), reason })
}

/// The same of a text.
///
/// # Errors
/// It is neither.
pub fn parse(place: &str, text: &str) -> Result<Imported, String> {
    // What some editors put before everything.
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        None => Ok(Imported::default()),
        Some("{") => valgrind::parse(place, text),
        Some(line) if line.contains(':') => Ok(lsan::parse(place, text)),
        Some(line) => Err(format!("neither LeakSanitizer's (`leak:…`) nor Valgrind's (`{{`): `{line}`")),
    }
}

#[cfg(test)]
#[path = "../tests/suppressions.rs"]
mod tests;
