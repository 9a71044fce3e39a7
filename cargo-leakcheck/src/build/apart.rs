//! Keeps the functions by which Rust code allocates apart from their callers, where the optimizer would make them
//! part of those: probes stand at the functions.

use std::path::Path;

use fs_err as fs;

/// The functions, as symbols are mangled behind the crate's name.
const FUNCTIONS: [&str; 4] =
    ["12___rust_alloc", "14___rust_dealloc", "14___rust_realloc", "19___rust_alloc_zeroed"];

/// The crate that they are in for the linker, behind a number that each compiler has of its own.
const CRATE: &str = "_7___rustc";

/// What makes LLVM leave them as they are: out of line, with all their arguments, and called also where they seem
/// to do nothing, as a bump allocator's `dealloc`. The last two contradict that, and come with `opt-level = "s"`.
const ATTRIBUTES: [&str; 4] = [
    "-force-attribute={}:noinline",
    "-force-attribute={}:optnone",
    "-force-remove-attribute={}:optsize",
    "-force-remove-attribute={}:minsize",
];

/// Flags for rustc, whose libraries are in this folder. None where they have no such functions.
pub fn flags(libraries: &Path) -> Vec<String> {
    let Some(start) = alloc_library(libraries).and_then(|library| start(&library)) else { return Vec::new() };
    let symbols = FUNCTIONS.iter().map(|function| format!("{start}{function}"));
    symbols
        .flat_map(|symbol| {
            ATTRIBUTES.map(|attribute| format!("-Cllvm-args={}", attribute.replace("{}", &symbol)))
        })
        .collect()
}

/// The crate `alloc`, whose code calls them.
fn alloc_library(libraries: &Path) -> Option<Vec<u8>> {
    let mut entries = fs::read_dir(libraries).ok()?.filter_map(Result::ok);
    let library = entries.find(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with("liballoc-") && name.ends_with(".rlib"))
    })?;
    fs::read(library.path()).ok()
}

/// What their symbols begin with, by the first of them in a library.
fn start(library: &[u8]) -> Option<String> {
    let first = format!("{CRATE}{}", FUNCTIONS[0]);
    let place = library.windows(first.len()).position(|window| window == first.as_bytes())?;
    // Names may stand side by side. The number has no `_`.
    let before = &library[place.saturating_sub(32)..place];
    let number = before.iter().rposition(|byte| *byte == b'_').map(|start| &before[start..])?;
    let number = std::str::from_utf8(number).ok().filter(|number| number.starts_with("_RNvC"))?;
    Some(format!("{number}{CRATE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_begin_as_the_librarys_do() {
        let library =
            b"\x7fELF\0_RNvCs1a2B_7___rustc14___rust_realloc_RNvCs1a2B_7___rustc12___rust_alloc\0\x01";
        assert_eq!(start(library).as_deref(), Some("_RNvCs1a2B_7___rustc"));
        // Until 1.88 they had no crate.
        assert_eq!(start(b"\0__rust_alloc\0__rust_dealloc\0"), None);
    }

    #[test]
    fn the_own_compiler_has_them() {
        let output = std::process::Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap();
        let flags = flags(Path::new(String::from_utf8(output.stdout).unwrap().trim()));
        assert_eq!(flags.len(), 16, "{flags:?}");
        assert!(flags.iter().any(|flag| flag.ends_with("_7___rustc14___rust_dealloc:optnone")), "{flags:?}");
        assert!(flags.iter().all(|flag| !flag.contains(char::is_whitespace)), "RUSTFLAGS can have them");
        assert_eq!(super::flags(Path::new("/nowhere")), Vec::<String>::new());
    }
}
