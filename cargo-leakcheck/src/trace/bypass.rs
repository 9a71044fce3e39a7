//! Libraries whose calls of the allocator pass the ledger by, told by what is in memory: a second C
//! library (`dlmopen`), and modules that were opened later and are bound to the C library's own
//! functions (`RTLD_DEEPBIND`).

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use nix::unistd::Pid;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use super::libraries::Library;
use super::memory::read_word;
use crate::model::ALLOCATOR;
use crate::snapshot::Mapping;

/// What has been seen of a process's modules.
pub struct Bypass {
    /// Modules that need no look: those that it had at its entry point, and those that were counted.
    known: HashSet<String>,
    /// Words of the others that lead to the allocator, as distances from the module's start.
    slots: HashMap<String, Vec<u64>>,
}

impl Bypass {
    /// For a process that is kept at its entry point.
    pub fn new(mappings: &[Mapping]) -> Self {
        Self { known: modules(mappings).map(|mapping| mapping.path.clone()).collect(), slots: HashMap::new() }
    }

    /// How many modules pass the ledger by that have not been counted before; none if the memory cannot be
    /// read. `reader` is a thread that is stopped, `libc` the C library that the ledger calls.
    pub fn count(&mut self, reader: Pid, mappings: &[Mapping], libc: &Library) -> Option<u64> {
        let code: Vec<Range<u64>> = modules(mappings)
            .filter(|mapping| mapping.path == libc.path)
            .map(|mapping| mapping.range.clone())
            .collect();
        let mut count = 0;
        for mapping in modules(mappings) {
            let path = &mapping.path;
            let passes = |slots: &[u64]| {
                let start =
                    mappings.iter().filter(|other| other.path == *path).map(|other| other.range.start);
                let start = start.min().unwrap_or(0);
                let targets = slots.iter().map(|slot| read_word(reader, start.wrapping_add(*slot)));
                let targets = targets.collect::<Option<Vec<u64>>>()?;
                Some(targets.iter().any(|target| code.iter().any(|code| code.contains(target))))
            };
            if self.known.contains(path) {
                continue;
            }
            let slots = self.slots.entry(path.clone()).or_insert_with(|| slots(path).unwrap_or_default());
            if path.ends_with("/libc.so.6") || passes(slots)? {
                self.known.insert(path.clone());
                count += 1;
            }
        }
        Some(count)
    }
}

/// Mappings of modules' code.
fn modules(mappings: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    mappings.iter().filter(|mapping| mapping.executable && mapping.path.starts_with('/'))
}

/// Where the loader puts the addresses of the allocator's functions in a module; none for what cannot
/// be read.
fn slots(path: &str) -> Option<Vec<u64>> {
    let data = std::fs::read(path).ok()?;
    let elf = object::File::parse(&*data).ok()?;
    let first = elf.segments().map(|segment| segment.address()).min()? & !0xfff;
    let symbols = elf.dynamic_symbol_table()?;
    let is_allocator = |target| {
        let RelocationTarget::Symbol(index) = target else { return false };
        let symbol = symbols.symbol_by_index(index);
        symbol.is_ok_and(|symbol| symbol.name().is_ok_and(|name| ALLOCATOR.contains(&name)))
    };
    let relocations = elf.dynamic_relocations()?;
    let found = relocations.filter(|(_, relocation)| is_allocator(relocation.target()));
    Some(found.map(|(address, _)| address.wrapping_sub(first)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_allocates_has_slots() {
        // This very program: std's allocator calls `malloc`, and `free` in the C library.
        let own = std::env::current_exe().unwrap();
        assert!(slots(own.to_str().unwrap()).unwrap().len() >= 2);
        assert_eq!(slots("/proc/self/status"), None);
    }
}
