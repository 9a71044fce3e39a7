//! The variables of a module, by its symbol table.

use std::fs::File;
use std::ops::Range;

use object::read::{Object, ObjectSymbol, ReadCache, SymbolKind};
use object::{ObjectSegment, SegmentFlags, elf};

use super::name::demangled;
use crate::snapshot::Mapping;

const PAGE: u64 = 4096;

/// Where the static data of a module is, and what is in it.
#[derive(Default)]
pub(super) struct Variables {
    /// Writable segments: offsets in the file, and the virtual address of the first.
    segments: Vec<(Range<u64>, u64)>,
    /// By ascending virtual address.
    statics: Vec<(Range<u64>, String)>,
    /// By ascending offset in the thread-local storage of the module.
    thread_locals: Vec<(Range<u64>, String)>,
    /// How far below the thread pointer that storage begins, if the module is an executable.
    below: u64,
}

impl Variables {
    /// Those of a file; none where it cannot be read.
    pub fn open(path: &str) -> Self {
        Self::read(path).unwrap_or_default()
    }

    fn read(path: &str) -> Option<Self> {
        // Only a regular file: opening a pipe would wait, a device may do anything.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let data = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&data).ok()?;
        let is_writable =
            |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags & elf::PF_W == elf::PF_W);
        let segments = file.segments().filter(|segment| is_writable(segment.flags())).filter_map(|segment| {
            let (offset, size) = segment.file_range();
            Some((offset..offset.checked_add(size)?, segment.address()))
        });
        let mut variables = Self { segments: segments.collect(), ..Self::default() };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Some(end) = symbol.address().checked_add(symbol.size()).filter(|_| symbol.size() > 0) else {
                continue;
            };
            let into = match symbol.kind() {
                SymbolKind::Data => &mut variables.statics,
                SymbolKind::Tls => &mut variables.thread_locals,
                _ => continue,
            };
            into.extend(symbol.name().ok().map(|name| (symbol.address()..end, name.to_owned())));
        }
        variables.statics.sort_by_key(|(range, _)| range.start);
        variables.thread_locals.sort_by_key(|(range, _)| range.start);
        variables.below = thread_bytes(&file);
        Some(variables)
    }

    /// The virtual address of a place in memory, by the mapping of the file that it is in or behind.
    pub fn address(&self, mapping: &Mapping, place: u64) -> Option<u64> {
        let is_of = |(file, _): &&(Range<u64>, u64)| {
            file.start / PAGE * PAGE <= mapping.offset && mapping.offset < file.end.next_multiple_of(PAGE)
        };
        // The page that one ends in may be the one that the next begins in.
        let (file, address) = self.segments.iter().rev().find(is_of)?;
        let offset = place.checked_sub(mapping.range.start)?.checked_add(mapping.offset)?;
        offset.checked_sub(file.start)?.checked_add(*address)
    }

    /// The variable at a virtual address, and how far in that is.
    pub fn at(&self, address: u64) -> Option<(String, u64)> {
        find(&self.statics, address)
    }

    /// The thread-local variable so many bytes below the thread pointer, of an executable.
    pub fn thread_local(&self, below: u64) -> Option<(String, u64)> {
        find(&self.thread_locals, self.below.checked_sub(below)?)
    }
}

fn find(variables: &[(Range<u64>, String)], address: u64) -> Option<(String, u64)> {
    let after = variables.partition_point(|(range, _)| range.start <= address);
    let (range, name) =
        variables[..after].iter().rev().take(8).find(|(range, _)| range.contains(&address))?;
    Some((plain(&demangled(name)), address - range.start))
}

/// A variable's name without what the macro `thread_local!` puts around the value.
fn plain(name: &str) -> String {
    let end = ["::{{constant}}", "::{constant#", "::__getit", "::__rust_std_internal"]
        .iter()
        .filter_map(|part| name.find(part))
        .min();
    name[..end.unwrap_or(name.len())].to_owned()
}

/// Bytes of the thread-local storage of an executable: it ends at the thread pointer, aligned as it is.
fn thread_bytes<'data>(file: &object::File<'data, &'data ReadCache<File>>) -> u64 {
    use object::read::elf::ProgramHeader as _;
    let object::File::Elf64(elf) = file else { return 0 };
    let endian = elf.endian();
    let storage = elf.elf_program_headers().iter().find(|it| it.p_type(endian) == elf::PT_TLS);
    storage.map_or(0, |it| it.p_memsz(endian).next_multiple_of(it.p_align(endian).clamp(1, PAGE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let named = |range: Range<u64>, name: &str| (range, name.to_owned());
        Variables {
            segments: vec![(0x2d90..0x3010, 0x3d90), (0x3c20..0x4200, 0x6c20)],
            statics: vec![
                named(0x4000..0x4010, "first"),
                named(0x4020..0x4040, "_ZN1a5CACHE17h0123456789abcdefE"),
            ],
            thread_locals: vec![named(0..8, "a"), named(8..24, "b")],
            below: 32,
        }
    }

    #[test]
    fn places_are_those_of_the_writable_segment() {
        let mapping = |start: u64, offset| Mapping {
            range: start..start + 0x1000,
            offset,
            readable: true,
            writable: true,
            executable: false,
            path: "/t".into(),
        };
        let variables = variables();
        // The segment begins in the middle of a page, which is mapped whole; its end is protected apart.
        assert_eq!(variables.address(&mapping(0x7000, 0x2000), 0x7e00), Some(0x3e00));
        // Its last page is mapped once more, with the segment that begins there.
        assert_eq!(variables.address(&mapping(0x8000, 0x3000), 0x8c28), Some(0x6c28));
        // Behind the file's data, in memory of its own.
        assert_eq!(variables.address(&mapping(0x8000, 0x3000), 0xa028), Some(0x8028));
        assert_eq!(variables.address(&mapping(0x8000, 0x9000), 0x8008), None);
    }

    #[test]
    fn variables_are_found_by_their_ranges() {
        let variables = variables();
        assert_eq!(variables.at(0x4028), Some(("a::CACHE".into(), 8)));
        assert_eq!(variables.at(0x4010), None);
        assert_eq!(variables.thread_local(32), Some(("a".into(), 0)));
        assert_eq!(variables.thread_local(16), Some(("b".into(), 8)));
        assert_eq!(variables.thread_local(33), None);
        assert_eq!(plain("a::HELD::{{constant}}::{{closure}}::VAL"), "a::HELD");
        assert_eq!(plain("a::CACHE"), "a::CACHE");
    }
}
