//! One look-up of a virtual address in a module: names by blazesym, and which of them to believe.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

/// Where in the source.
#[derive(Default)]
pub(super) struct Location {
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1, in bytes.
    pub column: Option<u32>,
}

/// What is known of an address.
pub(super) struct Found {
    /// The function whose machine code it is.
    pub function: Option<String>,
    pub location: Option<Location>,
    /// Calls inlined there, innermost first.
    pub inlined: Vec<(String, Option<Location>)>,
}

/// Looks an address up in the module's debug information and symbol tables.
pub(super) fn look_up(symbolizer: &Symbolizer, module: &str, address: u64) -> Option<Found> {
    let symbol = |debug_syms| {
        let mut elf = Elf::new(module);
        elf.debug_syms = debug_syms;
        symbolizer.symbolize_single(&Source::Elf(elf), Input::VirtOffset(address)).ok()?.into_sym()
    };
    // Broken or mismatched debug information must not cost the names of the symbol table.
    let table = symbol(false);
    let debug = symbol(true);
    let function = function(table.as_ref(), debug.as_ref(), address);
    let found = match debug {
        Some(debug) => Found {
            function,
            location: debug.code_info.as_deref().map(location),
            inlined: debug
                .inlined
                .iter()
                .rev()
                .map(|call| (demangled(&call.name), call.code_info.as_ref().map(location)))
                .collect(),
        },
        None => Found { function, location: None, inlined: Vec::new() },
    };
    (found.function.is_some() || found.location.is_some()).then_some(found)
}

/// The name to believe. The debug information's, unless it has only the bare name (`leak<u64>`, as
/// line tables have it) and the symbol table the whole path.
fn function(table: Option<&Sym>, debug: Option<&Sym>, address: u64) -> Option<String> {
    let name = |symbol: &Sym| (!symbol.name.is_empty()).then(|| demangled(&symbol.name));
    let covers = |symbol: &&Sym| match symbol.size {
        Some(size) => address.wrapping_sub(symbol.addr) < size as u64,
        // A symbol without a size, found only because it is the nearest one before.
        None => address == symbol.addr,
    };
    let table = table.filter(covers).and_then(name);
    // Functions split in parts (`.cold`) have debug information with one range only: no check of
    // the range there, but a size, which symbols without one do not have.
    let debug = debug.filter(|symbol| symbol.size.is_some() || covers(symbol)).and_then(name);
    let is_bare = |name: &str| !name.split('<').next().unwrap_or_default().contains("::");
    match (debug, table) {
        (Some(debug), Some(table)) if is_bare(&debug) && table.contains("::") => Some(table),
        (debug, table) => debug.or(table),
    }
}

/// The name as the user wrote it. Only what is mangled: `f` is also the mangling of a type.
pub(super) fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
    cpp.flatten().unwrap_or_else(|| name.to_owned())
}

fn location(info: &CodeInfo) -> Location {
    let line = info.line.filter(|&line| line > 0);
    let column = info.column.filter(|&column| column > 0).map(u32::from);
    let file = info.to_path();
    let file = (!file.as_os_str().is_empty()).then(|| normal(&file.to_string_lossy()));
    Location { file, line, column }
}

/// Without `.` and `..`, by the letters only: the file may not exist here.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{demangled, normal};

    #[test]
    fn mangled_names_only() {
        assert_eq!(demangled("_ZN4leak3run17h0123456789abcdefE"), "leak::run");
        assert_eq!(demangled("_RNvC7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZN3Box3putEi"), "Box::put(int)");
        for plain in ["f", "main", "St", "_start", "_Z"] {
            assert_eq!(demangled(plain), plain);
        }
    }

    #[test]
    fn paths_lose_their_detours() {
        assert_eq!(normal("/w/crate/../src/./lib.rs"), "/w/src/lib.rs");
        assert_eq!(normal("/w//c/x.c"), "/w/c/x.c");
        assert_eq!(normal("../x.c"), "../x.c");
        assert_eq!(normal("/../x.c"), "/../x.c");
    }
}
