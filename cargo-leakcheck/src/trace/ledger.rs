//! The ledger on the tracer's side before a process runs: its library, and the table of frames that
//! it walks by.

use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_preload::layout::{CONTROL, ENTER, control};
use leakcheck_preload::unwind::Row;
use nix::unistd::Pid;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

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
    /// Virtual address in it of its control words.
    control: u64,
    table: Table,
}

/// The table of frames: a file, and which modules have rows in it.
#[derive(Clone, Debug)]
struct Table {
    path: Utf8PathBuf,
    bytes: u64,
    /// Modules by the paths of their mappings, with their first virtual addresses. A module's place is
    /// its key.
    modules: Vec<(Utf8PathBuf, u64)>,
}

impl Ledger {
    /// Writes the library, and the table for `modules`: the paths of their mappings, and the files to
    /// read for them.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn install(directory: &Path, modules: &[(Utf8PathBuf, Utf8PathBuf)]) -> Result<Self> {
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
        Ok(Self { enter, control, table: Table::write(place("frames")?, modules)?, path })
    }

    /// Gives a process, which is kept at its entry point, what the ledger needs to know: the addresses
    /// of its control words and of the function to enter by.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn introduce(&self, pid: Pid, mappings: &[Mapping]) -> std::result::Result<(u64, u64), String> {
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
            && write(control::TABLE, &self.table.bytes.to_ne_bytes());
        if written { Ok((words, start + self.enter)) } else { Err("its ledger cannot be written".into()) }
    }
}

impl Table {
    fn write(path: Utf8PathBuf, modules: &[(Utf8PathBuf, Utf8PathBuf)]) -> Result<Self> {
        let mut known: Vec<(Utf8PathBuf, u64)> = Vec::new();
        let mut all: Vec<(u64, Vec<Row>)> = Vec::new();
        for (mapped, file) in modules {
            if known.iter().any(|(path, _)| path == mapped) {
                continue;
            }
            let read = |source| Error::File { action: "read", path: file.clone(), source };
            let data = std::fs::read(file).map_err(read)?;
            // Code of a module whose frames cannot be read is unknown, as that of one that has none.
            let rows = unwind::rows(&data, file).unwrap_or_default();
            let first = object::File::parse(&*data)
                .ok()
                .and_then(|elf| elf.segments().map(|segment| segment.address()).min());
            all.push((known.len() as u64, rows));
            // Mappings begin with pages.
            known.push((mapped.clone(), first.unwrap_or(0) & !0xfff));
        }
        let bytes = unwind::table(&all);
        write(&path, &bytes)?;
        Ok(Self { path, bytes: bytes.len() as u64, modules: known })
    }
}

fn write(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|source| Error::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
