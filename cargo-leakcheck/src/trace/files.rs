//! The kernel side's account of files (open file descriptions): which of them a process's descriptors refer to, and,
//! while the tracepoint for that is attached, who has made them in a window.

use std::collections::HashMap;
use std::io::BufRead;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{Array, Map, MapData};
use leakcheck_common::{file, listed, places};
use nix::unistd::Pid;

use super::btf::{Btf, Parameter};
use super::file_places;
use super::object::{Programs, check_tracepoint, load_other};
use super::symbols::{self, SYMBOLS};
use super::table::{Table, take};
use crate::sys::{self, ProgramKind};

/// Words of the record of a file.
pub type FileRecord = [u64; file::WORDS];

/// Kernel functions that allocate a `struct file`, and nothing else; what is called from elsewhere in the
/// kernel gets no descriptor. Which of the two does it depends on the kernel's version and compiler.
const SITES: [&str; 2] = ["alloc_empty_file", "__alloc_file"];

/// The tracepoint that files are seen at as they are made. All that the machine's kernel allocates meets it.
const TRACEPOINT: &str = "kmem_cache_alloc";

/// The program there.
const PROGRAM: &str = "make";

/// The tables and programs.
pub struct Files {
    records: Table<u64, FileRecord>,
    /// Most records that there can be.
    room: u64,
    /// Files made by processes that have ended, since the table was swept.
    made: u64,
    lister: OwnedFd,
    /// Start and size of functions that allocate files, once they are looked for.
    sites: [[u64; 2]; 2],
    settings: Array<MapData, [u64; 4]>,
    /// The program for the tracepoint.
    maker: OwnedFd,
    /// While it is attached; or why it is not.
    link: Option<Result<OwnedFd, String>>,
    /// Held because the programs use them.
    _tables: (Array<MapData, [u64; places::WORDS]>, [MapData; 2]),
}

/// An open descriptor: what it refers to is the same file as that of another one where all words of the file are
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its number.
    pub number: u32,
    /// The words of [`listed`] from [`listed::FILE`] on.
    words: [u64; listed::NAMESPACE - 1],
    /// The IPC namespace of its process.
    pub namespace: Namespace,
    /// Whether its process has timers, as far as is known.
    pub has_timers: bool,
}

/// An IPC namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its address.
    address: u64,
    /// Whether there is anything in it, as far as is known.
    has_objects: bool,
}

impl Namespace {
    /// Whether it is known to be empty, and the same as that of the process before.
    pub fn is_empty_as(&self, before: &Self) -> bool {
        self.address != 0 && self.address == before.address && !self.has_objects
    }
}

impl OpenFile {
    /// Takes the words of [`listed`].
    pub fn new(entry: [u64; listed::WORDS]) -> Self {
        let words = std::array::from_fn(|word| entry[listed::FILE + word]);
        let namespace =
            Namespace { address: entry[listed::NAMESPACE], has_objects: entry[listed::HAS_OBJECTS] != 0 };
        let has_timers = entry[listed::HAS_TIMERS] != 0;
        Self { number: entry[listed::NUMBER] as u32, words, namespace, has_timers }
    }

    /// The address of the file.
    pub fn file(&self) -> u64 {
        self.words[0]
    }

    /// Whether both refer to the same file. A file may have got the address of one that was closed since: then it is one of
    /// another inode or name, or at least has other private data.
    pub fn is_same(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Files {
    /// Loads the programs; the one that sees files being made does not run before
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// Why it cannot be: something that this kernel has not, or has otherwise.
    pub fn new(
        programs: &Programs,
        types: &Btf<'_>,
        tables: &mut HashMap<String, MapData>,
        room: u32,
    ) -> Result<Self, String> {
        let array = |table| Array::try_from(Map::Array(table));
        let records = Table::take_with_spare(tables, "FILES").map_err(|error| error.to_string())?;
        let settings = array(take(tables, "FILE_SITES")).map_err(|error| error.to_string())?;
        let mut offsets: Array<_, [u64; places::WORDS]> =
            Array::try_from(Map::Array(take(tables, "PLACES"))).map_err(|error| error.to_string())?;
        offsets.set(0, file_places::read(types)?, 0).map_err(|error| error.to_string())?;
        let others = ["EMPTY_FILE", "FILE_MARKS"].map(|name| take(tables, name));
        let list = types.function("bpf_iter_task_file").ok_or("the kernel has no list of descriptors")?;
        // Where the allocator was called from, and the object: in all versions so far.
        check_tracepoint(types, TRACEPOINT, &[Parameter::Integer, Parameter::Pointer])?;
        // What a list shows may be excused by who has made it, so there is none without that.
        if !shows_addresses(symbols()?) {
            return Err(format!("{SYMBOLS} does not tell where the kernel's functions are"));
        }
        Ok(Self {
            records,
            room: u64::from(room),
            made: 0,
            lister: load_other(programs, ProgramKind::List(list), "list")?,
            sites: [[0; 2]; 2],
            settings,
            maker: load_other(programs, ProgramKind::Tracepoint, PROGRAM)?,
            link: None,
            _tables: (offsets, others),
        })
    }

    /// Has it written down from now on who makes files; if that cannot be, [`refusal`](Self::refusal) says why.
    pub fn start(&mut self) {
        if self.link.is_none() {
            self.link = Some(self.attach());
        }
    }

    /// Why it cannot be written down, where that was tried.
    pub fn refusal(&self) -> Option<&str> {
        self.link.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Whether it is written down.
    pub fn runs(&self) -> bool {
        matches!(self.link, Some(Ok(_)))
    }

    fn attach(&mut self) -> Result<OwnedFd, String> {
        self.sites = functions(symbols()?, SITES);
        let [[start, size], [other_start, other_size]] = self.sites;
        if size == 0 {
            return Err(format!("{SYMBOLS} does not tell where {} is", SITES[0]));
        }
        let set = self.settings.set(0, [start, size, other_start, other_size], 0);
        set.map_err(|error| error.to_string())?;
        sys::attach_tracepoint(self.maker.as_fd(), TRACEPOINT)
            .map_err(|errno| format!("the kernel refuses its tracepoint {TRACEPOINT}: {errno}"))
    }

    /// The open descriptors of a process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open(&self, process: Pid) -> Result<Vec<OpenFile>, String> {
        const BYTES: usize = listed::WORDS * 8;
        let bytes = sys::list_of_process(self.lister.as_fd(), process).map_err(|error| error.to_string())?;
        let (entries, _) = bytes.as_chunks::<BYTES>();
        let entry = |bytes: &[u8; BYTES]| {
            let (words, _) = bytes.as_chunks::<8>();
            OpenFile::new(std::array::from_fn(|place| u64::from_ne_bytes(words[place])))
        };
        Ok(entries.iter().map(entry).collect())
    }

    /// Whether what was allocated at that place in the kernel is a file; known once it was [started](Self::start).
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
        // One without a maker is about to get one.
        let over = |record: &FileRecord| match record[file::MAKER] as u32 as i32 {
            0 => false,
            maker => !is_followed(Pid::from_raw(maker)),
        };
        for address in self.records.keys() {
            if !self.record(address).as_ref().is_some_and(over) {
                continue;
            }
            // Meanwhile it may have become that of another process, which gets it back; unless there is a newer one.
            if let Some(record) = self.records.take_out(&address).filter(|record| !over(record)) {
                let _ = self.records.put_back(address, &record);
            }
        }
    }
}

fn symbols() -> Result<impl BufRead, String> {
    symbols::lines().map_err(|error| format!("{SYMBOLS} cannot be read: {error}"))
}

/// Whether who reads `symbols` may know addresses: otherwise they are shown as zeros. Some that come first are zero.
fn shows_addresses(symbols: impl BufRead) -> bool {
    /// There are fewer variables of each processor, whose addresses begin at zero.
    const LINES: usize = 4096;
    let mut lines = symbols.split(b'\n').map_while(Result::ok).take(LINES);
    lines.any(|line| line.iter().take_while(|byte| **byte != b' ').any(|digit| *digit != b'0'))
}

/// Start and size of functions of the kernel that are near each other, zeros for one that is not there. `symbols` are
/// [`symbols::lines`].
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
    fn files_are_the_same_by_all_that_is_known_of_them() {
        let words = [7, 0xa0, 0xb0, 0xc0, 0xd0, 0, 42, 0xe0, 0xf0, 0, 0];
        let one = OpenFile::new(words);
        assert_eq!((one.number, one.file()), (7, 0xa0));
        let of_others = [listed::NUMBER, listed::NAMESPACE, listed::HAS_OBJECTS, listed::HAS_TIMERS];
        for place in 0..words.len() {
            let mut others = words;
            others[place] += 1;
            assert_eq!(one.is_same(&OpenFile::new(others)), of_others.contains(&place), "{place}");
        }
    }

    #[test]
    fn a_namespace_is_empty_where_that_is_known_of_the_one_from_before() {
        let namespace = |address, has_objects| Namespace { address, has_objects };
        let before = namespace(0xf0, true);
        assert!(namespace(0xf0, false).is_empty_as(&before));
        assert!(!namespace(0xf0, true).is_empty_as(&before));
        assert!(!namespace(0xe0, false).is_empty_as(&before), "the process has left it");
        assert!(!namespace(0, false).is_empty_as(&namespace(0, false)), "nothing could be read");
    }

    #[test]
    fn a_function_ends_where_the_next_symbol_is() {
        let symbols = b"0000000000000010 t f.cold\n00000000000000f0 T __pfx_f\n0000000000000100 T f\n\
            0000000000000100 T alias_of_f\n0000000000000180 T g\n0000000000000200 t f\t[module]\n";
        assert_eq!(functions(&symbols[..], ["f", "g", "h"]), [[0x100, 0x80], [0x180, 0x80], [0, 0]]);
        // Who may not know addresses is shown zeros.
        let hidden = b"0000000000000000 T f\n0000000000000000 T g\n";
        assert_eq!(functions(&hidden[..], ["f"]), [[0, 0]]);
        assert!(!shows_addresses(&hidden[..]));
        assert!(shows_addresses(&[&hidden[..], &symbols[..]].concat()[..]));
    }
}
