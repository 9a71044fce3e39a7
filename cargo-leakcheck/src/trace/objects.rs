//! The kernel side's account of objects that the kernel allocates for tests: what an open file holds, and totals by
//! system call and place in the kernel. Its tracepoints are met by all that the machine's kernel allocates, so they
//! are attached only where they are asked for.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{Array, Map, MapData};
use leakcheck_common::{LOOK_WORDS, object, objects, total};
use nix::errno::Errno;
use nix::unistd::Pid;

use super::btf::{Btf, Parameter};
use super::object::{Programs, check_tracepoint, load_other};
use super::symbols::Symbols;
use super::table::take;
use crate::sys::{self, ProgramKind};

/// Tracepoints with their programs, and the arguments of each that the program reads.
const TRACEPOINTS: [(&str, &str, &[Parameter]); 4] = {
    use Parameter::{Integer, Pointer};
    [
        ("kmalloc", "sized", &[Integer, Pointer, Integer, Integer]),
        ("kmem_cache_alloc", "cached", &[Integer, Pointer, Pointer]),
        ("kfree", "freed", &[Integer, Pointer]),
        ("kmem_cache_free", "freed", &[Integer, Pointer]),
    ]
};

/// The tables and programs.
pub struct Objects {
    records: OwnedFd,
    totals: OwnedFd,
    look: OwnedFd,
    seen: Array<MapData, [u64; LOOK_WORDS]>,
    programs: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    counts_totals: bool,
    places: Places,
    symbols: OnceCell<Symbols>,
    /// Held because the programs use them.
    _tables: ([MapData; 3], Array<MapData, [u64; objects::WORDS]>),
}

/// Where the kernel's structures have what leads to other objects, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// `file.f_path.dentry`.
    pub name: u64,
    /// `file.f_inode`.
    pub inode: u64,
    /// `dentry.d_parent`.
    pub parent: u64,
    /// `file.private_data`: of a socket, its `struct socket`.
    pub private: u64,
    /// `socket.sk`: its protocol's part.
    pub socket: u64,
    /// `sock.__sk_common.skc_prot`: the protocol of that.
    pub protocol: u64,
    /// `proto.slab`: the slab of its sockets.
    pub slab: u64,
    /// `kmem_cache.size`: the size of one.
    pub size: u64,
}

/// An object of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it takes.
    pub bytes: u64,
    /// Where it was allocated.
    pub site: u64,
}

/// What was allocated in one system call at one place in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The call's number; none outside of calls.
    pub call: Option<u32>,
    /// The place.
    pub site: u64,
    /// As [`total`] has them.
    pub counts: [u64; total::WORDS],
}

impl Objects {
    /// Loads the programs; they do not run before [`start`](Self::start).
    ///
    /// # Errors
    /// Why it cannot be: something that this kernel has not, or has otherwise.
    pub fn new(
        programs: &Programs,
        types: &Btf<'_>,
        tables: &mut HashMap<String, MapData>,
        counts_totals: bool,
    ) -> Result<Self, String> {
        let duplicate =
            |table: &MapData| table.fd().as_fd().try_clone_to_owned().map_err(|it| it.to_string());
        let held = ["OBJECTS", "TOTALS", "OBJECT_MARKS"].map(|name| take(tables, name));
        let (records, totals) = (duplicate(&held[0])?, duplicate(&held[1])?);
        let array = |table| Array::try_from(Map::Array(table));
        let seen = array(take(tables, "LOOK")).map_err(|error| error.to_string())?;
        let mut settings: Array<_, [u64; objects::WORDS]> =
            Array::try_from(Map::Array(take(tables, "OBJECT_SETTINGS")))
                .map_err(|error| error.to_string())?;
        let place = |structure: &str, members: &[&str]| {
            let place = types.member(structure, members).map(u64::from);
            place.ok_or_else(|| format!("the kernel's types (BTF) have no {structure}.{}", members.join(".")))
        };
        let places = Places {
            name: place("file", &["f_path", "dentry"])?,
            inode: place("file", &["f_inode"])?,
            parent: place("dentry", &["d_parent"])?,
            private: place("file", &["private_data"])?,
            socket: place("socket", &["sk"])?,
            protocol: place("sock", &["__sk_common", "skc_prot"])?,
            slab: place("proto", &["slab"])?,
            size: place("kmem_cache", &["size"])?,
        };
        let mut words = [0; objects::WORDS];
        words[objects::CACHE_SIZE] = places.size;
        words[objects::TOTALS] = u64::from(counts_totals);
        settings.set(0, words, 0).map_err(|error| error.to_string())?;
        let load = |(tracepoint, program, wanted): &(&str, &str, &[Parameter])| {
            check_tracepoint(types, tracepoint, wanted)?;
            load_other(programs, ProgramKind::Tracepoint, program)
        };
        Ok(Self {
            records,
            totals,
            look: load_other(programs, ProgramKind::Tracepoint, "look")?,
            seen,
            programs: TRACEPOINTS.iter().map(load).collect::<Result<_, _>>()?,
            links: Vec::new(),
            counts_totals,
            places,
            symbols: OnceCell::new(),
            _tables: (held, settings),
        })
    }

    /// Lets the programs run: objects that are allocated from now on are recorded.
    ///
    /// # Errors
    /// Why the kernel refuses.
    pub fn start(&mut self) -> Result<(), String> {
        for ((tracepoint, ..), program) in TRACEPOINTS.iter().zip(&self.programs) {
            let link = sys::attach_tracepoint(program.as_fd(), tracepoint);
            self.links.push(
                link.map_err(|errno| format!("the kernel refuses its tracepoint {tracepoint}: {errno}"))?,
            );
        }
        Ok(())
    }

    /// Ends that; what was recorded stays.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Whether the programs run.
    pub fn runs(&self) -> bool {
        self.links.len() == TRACEPOINTS.len()
    }

    /// Whether there are totals.
    pub fn counts_totals(&self) -> bool {
        self.counts_totals
    }

    /// Where files have what leads to other objects.
    pub fn places(&self) -> Places {
        self.places
    }

    /// What was allocated for a process and not seen to be freed, by address.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of(&self, process: Pid) -> Result<BTreeMap<u64, Object>, Errno> {
        let all = sys::elements::<u64, [u64; object::WORDS]>(self.records.as_fd(), 1)?;
        let own = all.into_iter().filter(|(_, record)| is_of(record[0][object::OWNER], process));
        let one = |(address, record): (u64, Vec<[u64; object::WORDS]>)| {
            (address, Object { bytes: record[0][object::BYTES], site: record[0][object::SITE] })
        };
        Ok(own.map(one).collect())
    }

    /// The totals of a process, in no order.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn totals(&self, process: Pid) -> Result<Vec<Total>, Errno> {
        let own = self.all_totals()?.into_iter().filter(|([owner, _], _)| is_of(*owner, process));
        let one = |([owner, site], of_cpus): ([u64; 2], Vec<[u64; total::WORDS]>)| {
            let sum = |word: usize| of_cpus.iter().fold(0, |sum: u64, of_cpu| sum.wrapping_add(of_cpu[word]));
            let call = Some((owner >> 32) as u32).filter(|call| *call != object::NO_CALL);
            Total { call, site, counts: std::array::from_fn(sum) }
        };
        Ok(own.map(one).collect())
    }

    #[expect(clippy::type_complexity, reason = "keys, and values by CPU")]
    fn all_totals(&self) -> Result<Vec<([u64; 2], Vec<[u64; total::WORDS]>)>, Errno> {
        let cpus = aya::util::nr_cpus().map_err(|_| Errno::ENOSYS)?;
        sys::elements(self.totals.as_fd(), cpus)
    }

    /// The first words of an object; none where they cannot be read.
    pub fn words(&self, address: u64, bytes: u64) -> Option<Vec<u64>> {
        let words = (bytes as usize / 8).min(LOOK_WORDS);
        let status = sys::call_program(self.look.as_fd(), &[address, words as u64 * 8]).ok()?;
        let seen = (status == 0).then(|| self.seen.get(&0, 0).ok())??;
        Some(seen[..words].to_vec())
    }

    /// The kernel's functions.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(Symbols::read)
    }

    /// Forgets what was allocated for a process.
    pub fn forget(&self, process: Pid) {
        // What could not be removed only takes room.
        if let Ok(own) = self.of(process) {
            let _ = sys::delete_batch(self.records.as_fd(), &own.into_keys().collect::<Vec<_>>());
        }
        if self.counts_totals
            && let Ok(all) = self.all_totals()
        {
            let keys: Vec<_> =
                all.into_iter().map(|(key, _)| key).filter(|key| is_of(key[0], process)).collect();
            let _ = sys::delete_batch(self.totals.as_fd(), &keys);
        }
    }
}

fn is_of(owner: u64, process: Pid) -> bool {
    owner as u32 == process.as_raw().cast_unsigned()
}
