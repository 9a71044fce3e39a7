//! Allocators other than the shared C library's: which of them a file has, and where to probe them.
//!
//! All layers of a file are probed: the functions by which Rust code calls its global allocator, whatever is
//! behind them, and those of the allocators that are known by name. Of calls that are part of each other the
//! outermost one counts, so no block counts twice.

use std::collections::HashMap;
use std::sync::LazyLock;

use leakcheck_common::site;

use super::code::Code;
use super::inlined::{self, Fate};
use super::sites::{Program, Site};
use crate::model::ALLOCATORS;

/// The functions that allocators have, with an allocator's prefix; it has some of them.
const FUNCTIONS: [(&str, Program, u64); 35] = [
    ("malloc", Program::Allocate, site::ALLOC_SIZE),
    ("calloc", Program::Allocate, site::ALLOC_COUNT),
    ("realloc", Program::Allocate, site::REALLOC),
    ("reallocarray", Program::Allocate, site::REALLOC_COUNT),
    ("posix_memalign", Program::Allocate, site::ALLOC_OUT),
    ("memalign", Program::Allocate, site::ALLOC_ALIGNED),
    ("aligned_alloc", Program::Allocate, site::ALLOC_ALIGNED),
    ("valloc", Program::Allocate, site::ALLOC_SIZE),
    ("pvalloc", Program::Allocate, site::ALLOC_SIZE),
    ("free", Program::Deallocate, 0),
    ("cfree", Program::Deallocate, 0),
    ("free_sized", Program::Deallocate, 0),
    ("free_aligned_sized", Program::Deallocate, 0),
    // jemalloc's.
    ("mallocx", Program::Allocate, site::ALLOC_SIZE),
    ("rallocx", Program::Allocate, site::REALLOC),
    ("dallocx", Program::Deallocate, 0),
    ("sdallocx", Program::Deallocate, 0),
    // mimalloc's.
    ("zalloc", Program::Allocate, site::ALLOC_SIZE),
    ("mallocn", Program::Allocate, site::ALLOC_COUNT),
    ("reallocf", Program::Allocate, site::REALLOC),
    ("rezalloc", Program::Allocate, site::REALLOC),
    ("malloc_small", Program::Allocate, site::ALLOC_SIZE),
    ("zalloc_small", Program::Allocate, site::ALLOC_SIZE),
    ("malloc_aligned", Program::Allocate, site::ALLOC_SIZE),
    ("zalloc_aligned", Program::Allocate, site::ALLOC_SIZE),
    ("calloc_aligned", Program::Allocate, site::ALLOC_COUNT),
    ("realloc_aligned", Program::Allocate, site::REALLOC),
    ("rezalloc_aligned", Program::Allocate, site::REALLOC),
    ("heap_malloc", Program::Allocate, site::ALLOC_ALIGNED),
    ("heap_zalloc", Program::Allocate, site::ALLOC_ALIGNED),
    ("free_size", Program::Deallocate, 0),
    ("free_aligned", Program::Deallocate, 0),
    ("free_size_aligned", Program::Deallocate, 0),
    ("new", Program::Allocate, site::ALLOC_SIZE),
    ("new_nothrow", Program::Allocate, site::ALLOC_SIZE),
];

/// The functions of snmalloc, which are for Rust.
const SNMALLOC: [(&str, Program, u64); 4] = [
    ("alloc", Program::Allocate, site::ALLOC_ALIGNED),
    ("alloc_zeroed", Program::Allocate, site::ALLOC_ALIGNED),
    ("realloc", Program::Allocate, site::REALLOC_FOURTH),
    ("dealloc", Program::Deallocate, 0),
];

/// Functions that only one allocator has, where its `malloc` has no prefix; the last two are C libraries'.
const MARKS: [(&str, &str); 5] = [
    ("mallocx", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("__libc_malloc_impl", "musl"),
    ("_int_malloc", "glibc"),
];

/// The functions by which Rust code calls its global allocator. The linker may have left out the last one.
const RUST: [(&str, Program, u64); 4] = [
    ("__rust_alloc", Program::Allocate, site::ALLOC_SIZE),
    ("__rust_dealloc", Program::Deallocate, 0),
    ("__rust_realloc", Program::Allocate, site::REALLOC_FOURTH),
    ("__rust_alloc_zeroed", Program::Allocate, site::ALLOC_SIZE),
];

/// What the optimizer may have done to these functions, and how it is kept from it.
const INLINED: &str = "functions may have been made part of their callers by the optimizer; build with the flags \
                       that `cargo leakcheck show-env` prints, or without optimization";
const CHANGED: &str = "functions have lost arguments to link-time optimization; build with `lto = \"thin\"`, as by \
                       `--config 'profile.release.lto=\"thin\"'`";
const UNUSED: &str = "`dealloc` does nothing with a block, so that the optimizer does not call it with the block, or at \
                      all; have it call `std::hint::black_box(block)`, or build without optimization";

/// What a function is for, by its name: with a prefix that is an allocator's, or without one.
struct Names {
    prefixed: HashMap<String, (Program, u64, &'static str)>,
    plain: HashMap<&'static str, (Program, u64)>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let prefixes =
        ALLOCATORS.iter().flat_map(|known| known.prefixes.iter().map(move |prefix| (prefix, known.name)));
    let prefixed = prefixes.flat_map(|(prefix, allocator)| {
        let functions = if allocator == "snmalloc" { &SNMALLOC[..] } else { &FUNCTIONS };
        functions
            .iter()
            .map(move |&(name, program, cookie)| (format!("{prefix}{name}"), (program, cookie, allocator)))
    });
    // C has nothing else of these names without a prefix; `new` and the like are anybody's.
    let plain = FUNCTIONS[..17].iter().map(|&(name, program, cookie)| (name, (program, cookie)));
    Names { prefixed: prefixed.collect(), plain: plain.collect() }
});

/// An allocator that a file has, and its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// What it is called.
    pub name: String,
    /// Its functions.
    pub sites: Vec<Site>,
}

/// Rust's global allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RustAllocator {
    /// All calls of it come by its functions.
    Whole(Allocator),
    /// Not all calls do, as far as anybody knows: what it is called, and why not.
    Unseen(String, &'static str),
}

impl Code {
    /// The allocator that is known by the names of its functions.
    pub fn named_allocator(&self) -> Option<Allocator> {
        let known = |name: &str| NAMES.prefixed.get(name).copied();
        let mut functions = Vec::new();
        let mut there = Vec::new();
        for (name, address, _) in &self.symbols {
            if let Some((program, cookie, of)) = known(name) {
                functions.push((program, cookie, of, *address));
                // Functions like `mi_free` may be anybody's.
                if ["malloc", "mallocx", "malloc_aligned", "sn_rust_alloc"]
                    .iter()
                    .any(|end| name.ends_with(end))
                {
                    there.push(of);
                }
            }
        }
        let mut sites = Vec::new();
        for (program, cookie, of, address) in functions {
            if there.contains(&of) {
                self.add_site(&mut sites, program, cookie, address);
            }
        }
        Some(Allocator { name: (*there.first()?).to_owned(), sites })
    }

    /// The `malloc` that the file has for all of the program, and what belongs to it.
    pub fn own_malloc(&self) -> Option<Allocator> {
        self.function("malloc")?;
        let mut sites = Vec::new();
        let mark = MARKS.iter().find(|(mark, _)| self.function(mark).is_some());
        // Its own forms of `new` do not call its `malloc`; those of the C++ library do.
        let has_new = mark.is_some_and(|(_, name)| !matches!(*name, "musl" | "glibc"));
        for (name, address, _) in &self.symbols {
            let new = || match &name[..name.len().min(5)] {
                "_Znwm" | "_Znam" => Some((Program::Allocate, site::ALLOC_SIZE)),
                "_ZdlP" | "_ZdaP" => Some((Program::Deallocate, 0)),
                _ => None,
            };
            let plain = NAMES.plain.get(name.as_str()).copied();
            if let Some((program, cookie)) = plain.or_else(|| new().filter(|_| has_new)) {
                self.add_site(&mut sites, program, cookie, *address);
            }
        }
        let name = mark.map_or("malloc of its own", |(_, name)| *name).to_owned();
        Some(Allocator { name, sites })
    }

    /// The global allocator of the file's Rust code, if it is another one than std's `System`, by the
    /// functions that all Rust code calls.
    pub fn rust_allocator(&self) -> Option<RustAllocator> {
        let mut sites = Vec::new();
        let mut found = [false; RUST.len()];
        let mut name = None;
        for (symbol, address, _) in &self.symbols {
            if symbol.contains("GlobalAlloc") {
                name = name.or_else(|| global_allocator(symbol));
            }
            if !symbol.contains("__rust_") && !symbol.contains("__rdl_") {
                continue;
            }
            if is_internal(symbol, "__rdl_alloc") {
                return None;
            }
            if let Some(place) = RUST.iter().position(|(wanted, _, _)| is_internal(symbol, wanted)) {
                found[place] = true;
                self.add_site(&mut sites, RUST[place].1, RUST[place].2, *address);
            }
        }
        let alloc = self.symbols.iter().find(|symbol| is_internal(&symbol.0, RUST[0].0))?;
        let is_systems = |name: &str| is_internal(name, "__rdl_alloc");
        let file = self.with_debug_information();
        match inlined::fate(&file, is_systems) {
            // With LTO std's own allocator is part of these functions.
            Some(Fate::Inlined) => return None,
            None if name.is_none() && self.calls(alloc.1, alloc.2, "malloc") => return None,
            _ => {}
        }
        let name = name.unwrap_or_else(|| "a #[global_allocator]".to_owned());
        let is_one = |name: &str| RUST.iter().any(|(wanted, _, _)| is_internal(name, wanted));
        let fate = inlined::fate(&file, is_one).filter(|_| found[..3].iter().all(|found| *found));
        let dealloc = self.symbols.iter().find(|symbol| is_internal(&symbol.0, RUST[1].0));
        Some(match fate {
            Some(Fate::Whole) if dealloc.is_some_and(|symbol| !self.uses_first_argument(symbol.1)) => {
                RustAllocator::Unseen(name, UNUSED)
            }
            Some(Fate::Whole) => RustAllocator::Whole(Allocator { name, sites }),
            Some(Fate::Changed) => RustAllocator::Unseen(name, CHANGED),
            Some(Fate::Inlined) | None => RustAllocator::Unseen(name, INLINED),
        })
    }

    /// Whether a function calls another one that the loader looks up.
    fn calls(&self, address: u64, size: u64, name: &str) -> bool {
        let slots = self.slots(name);
        self.decode(address, size as usize)
            .iter()
            .any(|call| call.is_ip_rel_memory_operand() && slots.contains(&call.ip_rel_memory_address()))
    }

    /// Whether the file has glibc's allocator in it.
    pub fn has_glibc_malloc(&self) -> bool {
        let own = self.function("malloc");
        own.is_some() && own == self.function("__libc_malloc") && self.function("_int_malloc").is_some()
    }

    /// Adds a site at a function, unless there is one: names share addresses.
    pub(super) fn add_site(&self, sites: &mut Vec<Site>, program: Program, cookie: u64, address: u64) {
        if let Some(offset) = self.file_offset(self.cheapest(address))
            && sites.iter().all(|site| site.offset != offset)
        {
            sites.push(Site { program, cookie, offset });
        }
    }
}

/// Whether a symbol is that of one of std's functions, plain or mangled as one of the crate `__rustc`.
fn is_internal(symbol: &str, wanted: &str) -> bool {
    symbol == wanted
        || symbol.contains("___rustc") && symbol.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('_'))
}

/// The type that a function of `GlobalAlloc` is implemented for, if it is not std's own.
fn global_allocator(symbol: &str) -> Option<String> {
    let name = format!("{:#}", rustc_demangle::demangle(symbol));
    let (of, _) = name.strip_prefix('<')?.split_once(" as core::alloc::global::GlobalAlloc>::alloc")?;
    (of != "std::alloc::System").then(|| of.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_with_every_prefix_and_plain() {
        for (name, allocator) in [
            ("_rjem_mallocx", "jemalloc"),
            ("mi_malloc_aligned", "mimalloc"),
            ("tc_free", "tcmalloc"),
            ("rpfree", "rpmalloc"),
            ("sn_rust_dealloc", "snmalloc"),
        ] {
            assert_eq!(NAMES.prefixed.get(name).map(|known| known.2), Some(allocator), "{name}");
        }
        for known in &ALLOCATORS {
            for prefix in known.prefixes {
                let is_its = |(name, function): (&String, &(Program, u64, &str))| {
                    function.2 == known.name && name.starts_with(prefix)
                };
                assert!(NAMES.prefixed.iter().any(is_its), "{prefix}");
            }
        }
        assert!(!NAMES.prefixed.contains_key("malloc"));
        assert!(NAMES.plain.contains_key("sdallocx") && !NAMES.plain.contains_key("new"));
    }

    #[test]
    fn a_global_allocator_has_the_name_of_its_type() {
        // As `rustc` 1.95 mangles them.
        let bump = "_RNvXCs1234_4bumpNtB2_4BumpNtNtNtCs5678_4core5alloc6global11GlobalAlloc5alloc";
        assert_eq!(global_allocator(bump).as_deref(), Some("bump::Bump"));
        let system =
            "_RNvXs_NtCs1234_3std5allocNtB4_6SystemNtNtNtCs5678_4core5alloc6global11GlobalAlloc5alloc";
        assert_eq!(global_allocator(system), None);
    }
}
