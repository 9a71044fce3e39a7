//! Who makes files in the directory where POSIX shared memory and semaphores are (`/dev/shm`): also by `open`, and in
//! processes that a test has started, where none of the C library's functions is probed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aya::maps::{HashMap as BpfHashMap, Map, MapData};
use leakcheck_common::ended;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::started::Started;
use super::table::take;
use crate::sys::Creations;

/// The directory, which is one for all.
pub const DIRECTORY: &str = "/dev/shm";

/// Names that are kept before it is looked which of them are still there.
const MANY: usize = 10_000;

/// The account of it.
pub struct Created {
    watch: Creations,
    seen: RefCell<Seen>,
    /// Processes that descended from tests and are no more.
    ended: BpfHashMap<MapData, u32, [u64; ended::WORDS]>,
}

#[derive(Default)]
struct Seen {
    /// By name, who made the file that has it now.
    made: HashMap<Vec<u8>, Pid>,
    /// When it was seen last that something was lost, `CLOCK_MONOTONIC` in nanoseconds.
    lost_ns: Option<u64>,
}

/// A file that was made.
#[derive(Debug, PartialEq, Eq)]
pub struct Creation {
    /// Its name in the directory.
    pub name: Vec<u8>,
    /// The process itself has made it, not one that descends from it.
    pub is_own: bool,
}

impl Created {
    /// Watches from now on.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn new(tables: &mut HashMap<String, MapData>) -> Result<Self, String> {
        let ended = BpfHashMap::try_from(Map::LruHashMap(take(tables, "ENDED")));
        Ok(Self {
            watch: Creations::watch(c"/dev/shm").map_err(|errno| {
                format!("the kernel does not tell who makes files in {DIRECTORY}: {errno}")
            })?,
            seen: RefCell::default(),
            ended: ended.map_err(|error| error.to_string())?,
        })
    }

    /// A process's window begins: what it has made before does not count.
    pub fn begin(&self, process: Pid) {
        self.read();
        self.seen.borrow_mut().made.retain(|_, maker| *maker != process);
    }

    /// What a process and its descendants have made since its window began, at `since_ns` of `CLOCK_MONOTONIC`; each file is
    /// told once.
    ///
    /// # Errors
    /// There was no room for all.
    pub fn of(
        &self,
        process: Pid,
        since_ns: u64,
        started: Option<&Started>,
    ) -> Result<Vec<Creation>, String> {
        self.read();
        let mut seen = self.seen.borrow_mut();
        if seen.lost_ns.is_some_and(|lost| lost >= since_ns) {
            return Err(format!("more files were made in {DIRECTORY} than the kernel tells of"));
        }
        if seen.made.is_empty() {
            return Ok(Vec::new());
        }
        let descendants: Vec<Pid> =
            started.into_iter().flat_map(|started| started.of(process)).map(|task| task.id).collect();
        let has_ended = |maker: &Pid| {
            let record = self.ended.get(&maker.as_raw().cast_unsigned(), 0);
            record.is_ok_and(|record| {
                record[ended::OWNER] == process.as_raw() as u64 && record[ended::TIME] >= since_ns
            })
        };
        let is_its = |maker: &Pid| *maker == process || descendants.contains(maker) || has_ended(maker);
        let its = seen.made.extract_if(|_, maker| is_its(maker));
        let mut its: Vec<_> = its.map(|(name, maker)| Creation { name, is_own: maker == process }).collect();
        its.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(its)
    }

    fn read(&self) {
        let mut seen = self.seen.borrow_mut();
        // It is asked often, and an error would be a lack of memory.
        let made = self.watch.read().unwrap_or_default();
        if made.lost {
            seen.lost_ns = Some(now_ns());
        }
        seen.made.extend(made.files.into_iter().map(|(maker, name)| (name, maker)));
        if seen.made.len() > MANY {
            let exists = |name: &[u8]| {
                use std::os::unix::ffi::OsStrExt as _;
                Path::new(DIRECTORY).join(std::ffi::OsStr::from_bytes(name)).symlink_metadata().is_ok()
            };
            seen.made.retain(|name, _| exists(name));
        }
    }
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.map_or(0, |now| now.as_nanos() as u64)
}
