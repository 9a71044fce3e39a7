//! Where std's symbolizer is in an executable.

use std::ops::Range;

use super::code::Code;
use crate::model::symbolizes;

/// The code of std's symbolizer, and of what asks it for a `Backtrace`: offsets in the file, ascending, and whether it is the
/// symbolizer's. Functions that are inlined into others are not told from these.
pub type Symbolizer = Vec<(Range<u64>, bool)>;

impl Code {
    /// That of the executable; nothing where it has no symbols.
    pub fn symbolizer(&self) -> Symbolizer {
        let functions = self.symbols.iter().filter_map(|(name, address, size)| {
            // Demangling every symbol of a large binary would take longer than the test.
            if !name.contains("backtrace") {
                return None;
            }
            let symbolizes = symbolizes(&format!("{:#}", rustc_demangle::demangle(name)))?;
            let start = self.file_offset(*address)?;
            Some((start..start + size, symbolizes))
        });
        let mut functions: Symbolizer = functions.filter(|(range, _)| !range.is_empty()).collect();
        functions.sort_unstable_by_key(|(range, _)| range.start);
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this test's own executable, which panics by std as any other.
    #[test]
    fn std_symbolizer_is_found_beside_what_asks_it() {
        let own = camino::Utf8PathBuf::try_from(std::env::current_exe().unwrap()).unwrap();
        let functions = Code::read(&own, false).unwrap().symbolizer();
        let count = |wanted| functions.iter().filter(|(_, symbolizes)| *symbolizes == wanted).count();
        // The cache, its modules, and the parser of ELF files, at least.
        assert!(count(true) >= 5, "{functions:?}");
        assert!(count(false) >= 1 && functions.is_sorted_by_key(|(range, _)| range.start), "{functions:?}");
    }
}
