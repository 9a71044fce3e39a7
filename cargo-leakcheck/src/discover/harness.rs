//! Whether a test binary holds libtest. Cargo does not tell which targets have `harness = false`.

use camino::Utf8Path;
use fs_err as fs;
use object::read::ReadCache;
use object::{Object as _, ObjectSymbol as _};

use crate::error::{Error, Result};

/// Where libtest enters a test body; it is never inlined.
const BODY: &str = "__rust_begin_short_backtrace";

/// Whether libtest is in the executable, as its symbols tell. A stripped executable has none.
pub fn is_libtest(path: &Utf8Path) -> Result<bool> {
    let file = fs::File::open(path).map_err(|source| Error::File {
        action: "open",
        path: path.to_owned(),
        source,
    })?;
    let cache = ReadCache::new(file.into_file());
    let elf = object::File::parse(&cache)
        .map_err(|error| Error::Format { path: path.to_owned(), reason: error.to_string() })?;
    Ok(elf.symbols().filter_map(|symbol| symbol.name().ok()).any(is_body))
}

fn is_body(symbol: &str) -> bool {
    // std has a function of the same name.
    symbol.contains(BODY) && {
        let name = format!("{:#}", rustc_demangle::demangle(symbol));
        name.strip_prefix("test::").is_some_and(|rest| rest.starts_with(BODY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_run_by_libtest() {
        let own = std::env::current_exe().unwrap();
        assert!(is_libtest(Utf8Path::from_path(&own).unwrap()).unwrap());
    }

    #[test]
    fn other_programs_are_not() {
        let cargo = std::env::var("CARGO").unwrap();
        assert!(!is_libtest(Utf8Path::new(&cargo)).unwrap());
        assert!(is_libtest(Utf8Path::new("/proc/self/environ")).is_err());
    }

    #[test]
    fn both_manglings() {
        assert!(is_body("_ZN4test28__rust_begin_short_backtrace17h0123456789abcdefE"));
        assert!(is_body("_RINvCs3mSbOeLENLV_4test28___rust_begin_short_backtraceuEB2_"));
        assert!(!is_body("_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h0123456789abcdefE"));
        assert!(!is_body("_ZN4mine4test28__rust_begin_short_backtrace17h0123456789abcdefE"));
    }
}
