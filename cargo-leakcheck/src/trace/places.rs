//! Where a thread has to be stopped, and by which of the four debug registers, when there is no eBPF.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_common::site;

use super::sites::{Program, Site};
use crate::snapshot::Mapping;

/// A breakpoint for each debug register.
pub type Armed = [Option<u64>; 4];

/// Addresses in a process.
#[derive(Debug, Default)]
pub struct Places {
    /// Entries into a test body.
    pub entries: Vec<u64>,
    /// Where a panic has been caught.
    pub caught: Option<u64>,
    /// Entry of `exit`.
    pub exit: Option<u64>,
    /// Entry of `dlclose`.
    pub unload: Option<u64>,
    /// Entries of `dlsym` and `dlvsym`.
    pub lookups: Vec<u64>,
}

impl Places {
    /// Those of a process with these mappings, by the sites of the files.
    pub fn of(files: &HashMap<Utf8PathBuf, Vec<Site>>, mappings: &[Mapping]) -> Self {
        let mut places = Self::default();
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let size = mapping.range.end - mapping.range.start;
            for site in files.get(Utf8Path::new(&mapping.path)).into_iter().flatten() {
                let place = site.offset.wrapping_sub(mapping.offset);
                if place >= size {
                    continue;
                }
                let address = mapping.range.start + place;
                match (site.program, site.cookie) {
                    (Program::Body, site::BODY_ENTER) => places.entries.push(address),
                    (Program::Body, site::PANIC_CAUGHT) => places.caught = Some(address),
                    (Program::Exit, _) => places.exit = Some(address),
                    (Program::Module, site::UNLOAD) => places.unload = Some(address),
                    (Program::Lookup, _) => places.lookups.push(address),
                    _ => {}
                }
            }
        }
        places
    }

    /// For a thread in the body, which returns to `back`.
    pub fn in_body(&self, back: u64) -> Armed {
        [Some(back), self.caught, self.exit, self.unload]
    }

    /// For all others, once the body has been entered.
    pub fn after_start(&self) -> Armed {
        [self.lookup(0), self.lookup(1), self.exit, self.unload]
    }

    /// For a thread that may enter a body. libtest has a thread for that; its main thread waits for it,
    /// and exits.
    pub fn before(&self, is_main: bool) -> Armed {
        let entry = |number: usize| self.entries.get(number).copied().filter(|_| number < 2 || !is_main);
        [
            entry(0).or(self.lookup(0)),
            entry(1).or(self.lookup(1)),
            entry(2).or(self.exit),
            entry(3).or(self.unload),
        ]
    }

    fn lookup(&self, number: usize) -> Option<u64> {
        self.lookups.get(number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(path: &str, start: u64, offset: u64, executable: bool) -> Mapping {
        Mapping {
            range: start..start + 0x1000,
            offset,
            readable: true,
            writable: false,
            executable,
            path: path.into(),
        }
    }

    fn places() -> Places {
        let site = |program, cookie, offset| Site { program, cookie, offset };
        let files = HashMap::from([
            (
                "/t".into(),
                vec![
                    site(Program::Body, site::BODY_ENTER, 0x2010),
                    site(Program::Body, site::BODY_RETURN, 0x2020),
                    site(Program::Body, site::PANIC_CAUGHT, 0x2030),
                ],
            ),
            (
                "/libc".into(),
                vec![
                    site(Program::Exit, 0, 0x1040),
                    site(Program::Module, site::UNLOAD, 0x1050),
                    site(Program::Module, site::OPEN, 0x1060),
                    site(Program::Lookup, 0, 0x1070),
                ],
            ),
        ]);
        let mappings = [
            mapping("/t", 0x10000, 0x1000, false),
            mapping("/t", 0x11000, 0x2000, true),
            mapping("/libc", 0x20000, 0x1000, true),
            mapping("/other", 0x30000, 0x2000, true),
        ];
        Places::of(&files, &mappings)
    }

    #[test]
    fn sites_are_found_where_their_files_are_mapped() {
        // Start of the mapping, and how far the site is behind the mapping's offset.
        assert_eq!(places().before(true), [Some(0x11010), None, Some(0x20040), Some(0x20050)]);
        assert_eq!(places().in_body(7), [Some(7), Some(0x11030), Some(0x20040), Some(0x20050)]);
        assert_eq!(places().after_start(), [Some(0x20070), None, Some(0x20040), Some(0x20050)]);
    }

    #[test]
    fn entries_come_first_but_for_the_main_threads_exit() {
        let places = Places { entries: vec![1, 2, 3, 4], ..places() };
        assert_eq!(places.before(false), [1, 2, 3, 4].map(Some));
        assert_eq!(places.before(true), [Some(1), Some(2), Some(0x20040), Some(0x20050)]);
    }
}
