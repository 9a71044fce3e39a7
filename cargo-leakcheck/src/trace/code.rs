//! Executables and libraries, as far as tracing has to know them: what they define, what they call,
//! and where it is.

use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use super::image;
use crate::error::{Error, Result};

/// What the name of the log of the crate `leakcheck` has in it, in both manglings: `leakcheck::log::LOG_1`.
const LOG: &str = "9leakcheck3log5LOG_1";

/// The parts of an ELF file that placing probes needs.
pub struct Code {
    path: Utf8PathBuf,
    segments: Vec<Segment>,
    /// Functions, each in a segment: name, virtual address, size.
    pub(super) symbols: Vec<(String, u64, u64)>,
    /// Variables for others to use, with their virtual addresses.
    variables: Vec<(String, u64)>,
    /// Names that the loader looks up elsewhere.
    imports: Vec<String>,
    /// How far the log of the crate `leakcheck` is behind the entry point.
    log: Option<u64>,
    data: Vec<u8>,
    interpreter: Option<String>,
}

struct Segment {
    address: u64,
    offset: u64,
    size: u64,
}

impl Segment {
    /// Whether it ends: in memory and in the file.
    fn is_possible(&self) -> bool {
        let ends = |start: u64| start.checked_add(self.size).is_some();
        ends(self.address) && ends(self.offset)
    }

    /// How many bytes it has from an address in it on.
    fn from(&self, address: u64) -> Option<u64> {
        let before = address.checked_sub(self.address)?;
        self.size.checked_sub(before).filter(|bytes| *bytes > 0)
    }
}

impl Code {
    /// Reads a file's symbols: of both tables, or only those for dynamic linking.
    ///
    /// # Errors
    /// The file cannot be read, or is no 64-bit ELF file for this machine.
    pub fn read(path: &Utf8Path, dynamic_only: bool) -> Result<Self> {
        let file = |source| Error::File { action: "read", path: path.to_owned(), source };
        let data = image::without_debug_information(path).map_err(file)?;
        let format = |error: object::Error| Error::Format {
            path: path.to_owned(),
            reason: format!("not an ELF file that can be traced: {error}"),
        };
        let elf = ElfFile64::<object::Endianness>::parse(data.as_slice()).map_err(format)?;
        let endian = elf.endian();
        let headers = elf.elf_program_headers();
        let segments: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type(endian) == object::elf::PT_LOAD)
            .map(|header| Segment {
                address: header.p_vaddr(endian),
                offset: header.p_offset(endian),
                size: header.p_filesz(endian),
            })
            .filter(Segment::is_possible)
            .collect();
        let interpreter = headers.iter().find_map(|header| {
            let name = header.interpreter(endian, data.as_slice()).ok()??;
            Some(String::from_utf8_lossy(name).into_owned())
        });
        let undefined = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined());
        let imports = undefined.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect();
        let variables = elf.dynamic_symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Data);
        let variables =
            variables.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address()))).collect();
        let mut symbols: Vec<_> = elf.dynamic_symbols().collect();
        if !dynamic_only {
            symbols.extend(elf.symbols());
        }
        let is_log = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            symbol.kind() == object::SymbolKind::Data
                && symbol.is_definition()
                && symbol.name().is_ok_and(|name| name.contains(LOG))
        };
        let log = symbols.iter().find(|symbol| is_log(symbol));
        let log = log.map(|symbol| symbol.address().wrapping_sub(elf.entry()));
        let symbols = symbols
            .into_iter()
            .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text)
            .filter_map(|symbol| {
                // What a symbol says of an address that nothing is loaded to is nonsense.
                let room = segments.iter().find_map(|segment| segment.from(symbol.address()))?;
                Some((symbol.name().ok()?.to_owned(), symbol.address(), symbol.size().min(room)))
            })
            .collect();
        drop(elf);
        Ok(Self { path: path.to_owned(), segments, symbols, variables, imports, log, data, interpreter })
    }

    /// The dynamic loader that the file asks for; none for a static executable or a library.
    pub fn interpreter(&self) -> Option<&Path> {
        self.interpreter.as_deref().map(Path::new)
    }

    /// How far the log of the crate `leakcheck` is behind the entry point (wrapping), where there is one.
    pub fn log_behind_entry(&self) -> Option<u64> {
        self.log
    }

    /// A name by which the file calls the C library's allocator and that the ledger does not take over.
    pub fn passes_ledger(&self) -> Option<&'static str> {
        const NAMES: [&str; 5] =
            ["__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_memalign", "__libc_free"];
        NAMES.into_iter().find(|name| self.imports(name))
    }

    pub(super) fn imports(&self, name: &str) -> bool {
        self.imports.iter().any(|import| import == name)
    }

    /// Whether it has no symbols of its own.
    pub fn is_stripped(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Virtual addresses of where the loader puts the address of a function of another file.
    pub(super) fn slots(&self, name: &str) -> Vec<u64> {
        let Ok(elf) = ElfFile64::<object::Endianness>::parse(self.data.as_slice()) else { return Vec::new() };
        let (Some(symbols), Some(relocations)) = (elf.dynamic_symbol_table(), elf.dynamic_relocations())
        else {
            return Vec::new();
        };
        let is = |target| {
            let RelocationTarget::Symbol(index) = target else { return false };
            symbols.symbol_by_index(index).is_ok_and(|symbol| symbol.name() == Ok(name))
        };
        relocations.filter(|(_, relocation)| is(relocation.target())).map(|(address, _)| address).collect()
    }

    /// Virtual address of its first page.
    pub fn first_page(&self) -> u64 {
        self.segments.iter().map(|segment| segment.address).min().unwrap_or(0) & !0xfff
    }

    /// The file, without its debug information.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The file with it; empty if it cannot be read any more.
    pub(super) fn with_debug_information(&self) -> Vec<u8> {
        fs_err::read(&self.path).unwrap_or_default()
    }

    /// Virtual address of a function.
    pub fn function(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|symbol| symbol.0 == name).map(|symbol| symbol.1)
    }

    /// Virtual address of a variable for others to use.
    pub fn variable(&self, name: &str) -> Option<u64> {
        self.variables.iter().find(|variable| variable.0 == name).map(|variable| variable.1)
    }

    /// Gives the memory of the file's contents back.
    pub fn forget_data(&mut self) {
        self.data = Vec::new();
    }

    /// The virtual address of what is at an offset of the file.
    pub fn virtual_address(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|segment| offset.wrapping_sub(segment.offset) < segment.size)
            .map(|segment| offset - segment.offset + segment.address)
    }

    /// Where what is at a virtual address is in the file.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|segment| address.wrapping_sub(segment.address) < segment.size)
            .map(|segment| address - segment.address + segment.offset)
    }
}

#[cfg(test)]
mod tests {
    use object::ObjectSection as _;

    use super::*;

    /// A program as the crate and what uses it, in both manglings.
    #[test]
    fn the_log_of_the_crate_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8PathBuf::try_from(folder.path().join(name)).unwrap();
        let program = "mod log { pub static LOG_1: [std::sync::atomic::AtomicUsize; 512] = \
                       [const { std::sync::atomic::AtomicUsize::new(0) }; 512]; } \
                       fn main() { log::LOG_1[std::env::args().count()].store(1, std::sync::atomic::Ordering::Relaxed); }";
        std::fs::write(path("a.rs"), program).unwrap();
        for (name, mangling) in [("leakcheck", "v0"), ("leakcheck", "legacy"), ("other", "v0")] {
            let mut rustc = std::process::Command::new("rustc");
            rustc.arg(format!("-Csymbol-mangling-version={mangling}")).args(["--crate-name", name]);
            if mangling == "legacy" {
                // It is not for stable compilers to choose.
                rustc.env("RUSTC_BOOTSTRAP", "1").arg("-Zunstable-options");
            }
            rustc.args(["--edition=2024", "-o"]).args([path("a"), path("a.rs")]);
            assert!(rustc.status().unwrap().success());
            let code = Code::read(&path("a"), false).unwrap();
            let data = std::fs::read(path("a")).unwrap();
            let elf = object::File::parse(&*data).unwrap();
            let log = code.log_behind_entry().map(|behind| elf.entry().wrapping_add(behind));
            let bss = elf.section_by_name(".bss").unwrap();
            let is_there = log.is_some_and(|log| (bss.address()..bss.address() + bss.size()).contains(&log));
            assert_eq!(is_there, name == "leakcheck", "{name} {mangling} {log:?}");
        }
    }

    #[test]
    fn functions_end_where_what_is_loaded_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8PathBuf::try_from(folder.path().join(name)).unwrap();
        std::fs::write(path("a.rs"), "fn main() {}").unwrap();
        let mut rustc = std::process::Command::new("rustc");
        rustc.args(["--edition=2024", "-o"]).args([path("a"), path("a.rs")]);
        assert!(rustc.status().unwrap().success());
        let mut file = std::fs::read(path("a")).unwrap();
        let table = object::File::parse(&*file).unwrap().section_by_name(".symtab").unwrap().file_range();
        let (start, size) = table.unwrap();
        let known = Code::read(&path("a"), false).unwrap().symbols.len();
        for (count, symbol) in file[start as usize..][..size as usize].chunks_mut(24).enumerate() {
            // As it is in elf.h: `st_size` is the last word, `st_value` the one before.
            symbol[16..].copy_from_slice(&u64::MAX.to_le_bytes());
            if count % 2 == 0 {
                symbol[8..16].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
            }
        }
        std::fs::write(path("a"), file).unwrap();
        let code = Code::read(&path("a"), false).unwrap();
        assert!(code.symbols.len() > known / 4 && code.symbols.len() < known, "{}", code.symbols.len());
        for (name, address, size) in &code.symbols {
            assert!(code.file_offset(address + size - 1).is_some() && *address > code.first_page(), "{name}");
        }
    }
}
