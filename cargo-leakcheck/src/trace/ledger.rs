//! The ledger on the tracer's side before a process runs: its library, and the table of frames that
//! it walks by.

use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_preload::layout::{CLONE, CONTROL, ENTER, FORKED, TEMPLATE, control};
use leakcheck_preload::unwind::Row;
use nix::unistd::Pid;
use object::{Object as _, ObjectSymbol as _};

use super::code::Code;
use super::process::Process;
use super::{memory, unwind};
use crate::error::{Error, Result};
use crate::snapshot::Mapping;

/// The ledger of a run, written to a directory.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The library.
    pub path: Utf8PathBuf,
    /// Virtual address in it of the function to enter by.
    enter: u64,
    /// The same of those for templates.
    forks: Forks,
    /// Virtual address in it of its control words.
    control: u64,
    table: Table,
}

/// Where functions are that templates, and processes that are forked from them, are sent to.
#[derive(Clone, Copy, Debug)]
pub struct Forks {
    /// Prepares a template.
    pub template: u64,
    /// Forks.
    pub clone: u64,
    /// What a process begins by that was forked.
    pub forked: u64,
}

/// What the ledger of a process is told; a template's, nothing.
#[derive(Default)]
pub struct Says {
    /// Note where blocks are freed.
    pub notes_frees: bool,
    /// Everything counts, and there are no window bits.
    pub all_counts: bool,
    /// The peak is to be exact, whatever the number of threads.
    pub exact_peak: bool,
    /// It is to be known what is alive at the peak, by call stacks; the peak is exact, then.
    pub peak_stacks: bool,
}

impl Says {
    /// What that of a process is told.
    pub fn of(process: &Process) -> Self {
        Self {
            notes_frees: process.notes_frees,
            // A child has no window bits.
            all_counts: process.child.is_some(),
            exact_peak: process.wanted.exact_peak || process.wanted.peak_stacks,
            peak_stacks: process.wanted.peak_stacks,
        }
    }
}

/// The table of frames: a file, and which modules have rows in it.
#[derive(Clone, Debug)]
struct Table {
    path: Utf8PathBuf,
    bytes: u64,
    /// Modules by the paths of their mappings, with the virtual addresses of their first pages. A
    /// module's place is its key.
    modules: Vec<(Utf8PathBuf, u64)>,
}

/// A module that tests load.
pub struct Module {
    path: Utf8PathBuf,
    first_page: u64,
    rows: Vec<Row>,
}

impl Module {
    /// Of a file; `path` is that of its mappings.
    pub fn of(path: &Utf8Path, code: &Code) -> Self {
        // Code of a module whose frames cannot be read is unknown, as that of one that has none.
        let rows = unwind::rows(code.data(), path).unwrap_or_default();
        Self { path: path.to_owned(), first_page: code.first_page(), rows }
    }
}

impl Ledger {
    /// Writes the library, and the table for `modules`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn install(directory: &Path, modules: Vec<Module>) -> Result<Self> {
        let place = |name: &str| {
            Utf8PathBuf::try_from(directory.join(name)).map_err(|error| {
                Error::Usage(format!("the temporary directory must have a UTF-8 path: {error}"))
            })
        };
        let path = place("libleakcheck.so")?;
        write(&path, leakcheck_preload::LIBRARY)?;
        let broken = |reason: String| Error::Format { path: path.clone(), reason };
        let file =
            object::File::parse(leakcheck_preload::LIBRARY).map_err(|error| broken(error.to_string()))?;
        let symbol = |name: &str| {
            let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
            symbol.map(|symbol| symbol.address()).ok_or_else(|| broken(format!("has no symbol {name}")))
        };
        let (enter, control) = (symbol(ENTER)?, symbol(CONTROL)?);
        let forks = Forks { template: symbol(TEMPLATE)?, clone: symbol(CLONE)?, forked: symbol(FORKED)? };
        Ok(Self { enter, forks, control, table: Table::write(place("frames")?, modules)?, path })
    }

    /// The file with the table of frames, which processes map.
    pub fn table_path(&self) -> &Utf8Path {
        &self.table.path
    }

    /// Where the functions for templates are in a process whose control words are here.
    pub fn forks(&self, words: u64) -> Forks {
        let start = words - self.control;
        let Forks { template, clone, forked } = self.forks;
        Forks { template: start + template, clone: start + clone, forked: start + forked }
    }

    /// Gives a process, which is kept at its entry point, what the ledger needs to know: the addresses of its control words and of the function to enter by.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn introduce(
        &self,
        pid: Pid,
        mappings: &[Mapping],
        says: &Says,
    ) -> std::result::Result<(u64, u64), String> {
        let first = mappings.iter().find(|mapping| mapping.path == self.path && mapping.offset == 0);
        let start = first.ok_or("the ledger was not loaded")?.range.start;
        let words = start + self.control;
        let mut modules = Vec::new();
        for (key, (path, address)) in (0..).zip(&self.table.modules) {
            let of = mappings.iter().filter(|mapping| mapping.path == *path);
            let (starts, ends) = (of.clone().map(|of| of.range.start), of.map(|of| of.range.end));
            if let (Some(start), Some(end)) = (starts.min(), ends.max()) {
                modules.extend([start, end, start.wrapping_sub(*address), key]);
            }
        }
        modules.truncate(control::MAX_MODULES * control::MODULE_WORDS);
        let modules: Vec<u8> = modules.into_iter().flat_map(u64::to_ne_bytes).collect();
        let path = [self.table.path.as_str().as_bytes(), &[0]].concat();
        let fits = path.len() <= control::PATH_BYTES;
        let write = |word: usize, bytes: &[u8]| memory::write(pid, words + word as u64 * 8, bytes);
        let written = fits
            && write(control::MODULES, &modules)
            && write(control::TABLE_PATH, &path)
            && write(control::NOTES, &u64::from(says.notes_frees).to_ne_bytes())
            && write(control::ALL, &u64::from(says.all_counts).to_ne_bytes())
            && write(control::EXACT, &u64::from(says.exact_peak).to_ne_bytes())
            && write(control::BY_STACK, &u64::from(says.peak_stacks).to_ne_bytes())
            && write(control::TABLE, &self.table.bytes.to_ne_bytes());
        if written { Ok((words, start + self.enter)) } else { Err("its ledger cannot be written".into()) }
    }
}

impl Table {
    fn write(path: Utf8PathBuf, modules: Vec<Module>) -> Result<Self> {
        let (names, rows): (Vec<_>, Vec<_>) = (0..)
            .zip(modules)
            .map(|(key, module)| ((module.path, module.first_page), (key, module.rows)))
            .unzip();
        let bytes = unwind::table(&rows);
        write(&path, &bytes)?;
        Ok(Self { path, bytes: bytes.len() as u64, modules: names })
    }
}

fn write(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|source| Error::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
    use object::ObjectSection as _;

    use super::*;

    /// Assembly code and code that is made at run time call `malloc` with any stack pointer, and the C
    /// library's has no objection.
    #[test]
    fn the_ledger_needs_no_aligned_stack() {
        let file = object::File::parse(leakcheck_preload::LIBRARY).expect("it is an ELF file");
        let text = file.section_by_name(".text").expect("it has code");
        let bytes = text.data().expect("it is in the file");
        let mut count = 0;
        for instruction in Decoder::with_ip(64, bytes, text.address(), DecoderOptions::NONE) {
            count += 1;
            let any_alignment = matches!(
                instruction.mnemonic(),
                Mnemonic::Movups | Mnemonic::Movupd | Mnemonic::Movdqu | Mnemonic::Lddqu
            );
            let on_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
            let wide = instruction.memory_size().size() >= 16;
            assert!(
                any_alignment || !on_stack || !wide,
                "{:?} at {:#x}",
                instruction.code(),
                instruction.ip()
            );
        }
        assert!(count > 1000, "{count} instructions");
    }
}
