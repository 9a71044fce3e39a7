//! The kernel side's account of files (open file descriptions): which were made in a window, and which of
//! them a process's descriptors refer to.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{Array, Map, MapData};
use leakcheck_common::file;
use nix::unistd::Pid;

use super::btf::{Btf, Parameter};
use super::object::{Programs, attach_other, load_other};
use super::table::{Table, take};
use crate::sys::{self, ProgramKind};

/// Words of the record of a file.
pub type FileRecord = [u64; file::WORDS];

/// Kernel functions that allocate a `struct file`, and nothing else; what is called from elsewhere in the
/// kernel gets no descriptor. Which of the two does it depends on the kernel's version and compiler.
const SITES: [&str; 2] = ["alloc_empty_file", "__alloc_file"];

/// Where the kernel's functions are.
const SYMBOLS: &str = "/proc/kallsyms";

/// The tables and programs.
pub struct Files {
    records: Table<u64, FileRecord>,
    /// Most records that there can be.
    room: u64,
    /// Files made by processes that have ended, since the table was swept.
    made: u64,
    lister: OwnedFd,
    /// Start and size of functions that allocate files.
    sites: [[u64; 2]; 2],
    /// Held because the programs use them.
    _tables: (Array<MapData, [u64; 4]>, [MapData; 2]),
}

impl Files {
    /// Loads the programs and lets them run; what is returned with it ends that when it is closed.
    ///
    /// # Errors
    /// Why it cannot be: something that this kernel has not, or has otherwise.
    pub fn new(
        programs: &Programs,
        types: &Btf<'_>,
        tables: &mut HashMap<String, MapData>,
        room: u32,
    ) -> Result<(Self, OwnedFd), String> {
        let (records, mut sites) = (
            Table::take(tables, "FILES").map_err(|error| error.to_string())?,
            Array::try_from(Map::Array(take(tables, "FILE_SITES"))).map_err(|error| error.to_string())?,
        );
        let others = ["EMPTY_FILE", "FILE_MARKS"].map(|name| take(tables, name));
        let list = types.function("bpf_iter_task_file").ok_or("the kernel has no list of descriptors")?;
        let symbols =
            std::fs::File::open(SYMBOLS).map_err(|error| format!("{SYMBOLS} cannot be read: {error}"))?;
        let found = functions(BufReader::with_capacity(1 << 16, symbols), SITES);
        if found[0][1] == 0 {
            return Err(format!("{SYMBOLS} does not tell where {} is", SITES[0]));
        }
        let [[start, size], [other_start, other_size]] = found;
        let set = sites.set(0, [start, size, other_start, other_size], 0);
        set.map_err(|error| error.to_string())?;
        let lister = load_other(programs, ProgramKind::List(list), "list")?;
        // Where the allocator was called from, and the object: in all versions so far.
        let wanted = [Parameter::Integer, Parameter::Pointer];
        let link = attach_other(programs, types, "kmem_cache_alloc", "make", &wanted)?;
        let room = u64::from(room);
        Ok((Self { records, room, made: 0, lister, sites: found, _tables: (sites, others) }, link))
    }

    /// The open descriptors of a process: numbers, and the addresses of the files they refer to.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open(&self, process: Pid) -> Result<Vec<(u32, u64)>, String> {
        let bytes = sys::list_of_process(self.lister.as_fd(), process).map_err(|error| error.to_string())?;
        let (entries, _) = bytes.as_chunks::<16>();
        let words = entries.iter().map(|entry| {
            let (words, _) = entry.as_chunks::<8>();
            (u64::from_ne_bytes(words[0]) as u32, u64::from_ne_bytes(words[1]))
        });
        Ok(words.collect())
    }

    /// Whether what was allocated at that place in the kernel is a file.
    pub fn are_made_at(&self, site: u64) -> bool {
        self.sites.iter().any(|[start, size]| site.wrapping_sub(*start) < *size)
    }

    /// The record of a file, if it was made in a window.
    pub fn record(&self, file: u64) -> Option<FileRecord> {
        self.records.get(&file).ok()
    }

    /// Removes the records of files that are still open, so that nobody else has got their addresses.
    pub fn forget(&self, files: &[u64]) {
        // What could not be removed only takes room.
        let _ = self.records.remove_all(files);
    }

    /// A process has ended that has made so many files. Records of files that it had closed are left, each until
    /// the kernel makes another file at its address; they are swept out before the table can be full of them.
    /// `is_followed` says which processes are left.
    pub fn ended(&mut self, made: u64, is_followed: impl Fn(Pid) -> bool) {
        self.made = self.made.saturating_add(made);
        if self.made < self.room / 2 {
            return;
        }
        self.made = 0;
        let over = |record: &FileRecord| !is_followed(Pid::from_raw(record[file::MAKER] as u32 as i32));
        for address in self.records.keys() {
            if !self.record(address).as_ref().is_some_and(over) {
                continue;
            }
            // Meanwhile it may have become that of another process, which gets it back; unless there is a newer one.
            if let Some(record) = self.records.take_out(&address).filter(|record| !over(record)) {
                let _ = self.records.insert_new(address, &record);
            }
        }
    }
}

/// Start and size of functions of the kernel that are near each other, zeros for one that is not there. `symbols` are lines of
/// `/proc/kallsyms` (`ADDRESS TYPE NAME`), sorted by address but for modules; making them takes the kernel tens of milliseconds.
fn functions<const N: usize>(symbols: impl BufRead, names: [&str; N]) -> [[u64; 2]; N] {
    /// Lines that are read after the first of them.
    const NEAR: usize = 1000;
    let mut found = [[0; 2]; N];
    let mut open: Option<(usize, u64)> = None;
    let mut left = usize::MAX;
    for line in symbols.split(b'\n').map_while(Result::ok) {
        if left == 0 {
            break;
        }
        left -= 1;
        let mut fields = line.splitn(3, |byte| *byte == b' ');
        let (Some(address), Some(_), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let address = std::str::from_utf8(address).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        let Some(address) = address else { continue };
        if let Some((place, start)) = open.filter(|(_, start)| address > *start) {
            found[place] = [start, address - start];
            left = left.min(NEAR);
            open = None;
        }
        if let Some(place) = names.iter().position(|wanted| wanted.as_bytes() == name)
            && address != 0
        {
            open = Some((place, address));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_where_the_next_symbol_is() {
        let symbols = b"0000000000000010 t f.cold\n00000000000000f0 T __pfx_f\n0000000000000100 T f\n\
            0000000000000100 T alias_of_f\n0000000000000180 T g\n0000000000000200 t f\t[module]\n";
        assert_eq!(functions(&symbols[..], ["f", "g", "h"]), [[0x100, 0x80], [0x180, 0x80], [0, 0]]);
        // Who may not know addresses is shown zeros.
        let hidden = b"0000000000000000 T f\n0000000000000000 T g\n";
        assert_eq!(functions(&hidden[..], ["f"]), [[0, 0]]);
    }
}
