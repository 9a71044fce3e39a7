//! Who makes files in the directory where POSIX shared memory and semaphores are (`/dev/shm`): also by `open`, and in
//! processes that a test has started, where none of the C library's functions is probed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use aya::maps::MapData;
use leakcheck_common::ended;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::started::Started;
use super::table::Table;
use crate::model::count;
use crate::sys::{Creations, Made};

/// The directory, which is one for all.
pub const DIRECTORY: &str = "/dev/shm";

/// Names that are kept before it is looked which of them are still there.
const MANY: usize = 10_000;

/// The account of it.
pub struct Created {
    watch: Creations,
    seen: RefCell<Seen>,
    /// Processes that descended from tests and are no more.
    ended: Table<u32, [u64; ended::WORDS]>,
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
        let ended = Table::take(tables, "ENDED");
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
    /// told once. `unknown` is how many of the descendants found no room.
    ///
    /// # Errors
    /// There was no room for all.
    pub fn of(
        &self,
        process: Pid,
        since_ns: u64,
        started: Option<&Started>,
        unknown: u64,
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
            let record = self.ended.get(&maker.as_raw().cast_unsigned());
            record.is_ok_and(|record| {
                record[ended::OWNER] == process.as_raw() as u64 && record[ended::TIME] >= since_ns
            })
        };
        let is_its = |maker: &Pid| *maker == process || descendants.contains(maker) || has_ended(maker);
        let its = seen.made.extract_if(|_, maker| is_its(maker));
        let mut its: Vec<_> = its.map(|(name, maker)| Creation { name, is_own: maker == process }).collect();
        its.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        match unknown > 0 && seen.made.keys().any(|name| exists(name)) {
            true => Err(format!(
                "{} found no room, and somebody has left a file in {DIRECTORY}; use --max-threads",
                count(unknown, "descendant")
            )),
            false => Ok(its),
        }
    }

    /// Forgets the descendants of processes that are not followed any more.
    pub(super) fn ended(&self, is_followed: impl Fn(Pid) -> bool) {
        let is_over = |key: &u32| {
            let owner = self.ended.get(key).map(|record| Pid::from_raw(record[ended::OWNER] as i32));
            owner.is_ok_and(|owner| !is_followed(owner))
        };
        // What could not be removed only takes room.
        let _ = self.ended.remove_all(&self.ended.keys().into_iter().filter(is_over).collect::<Vec<_>>());
    }

    fn read(&self) {
        let mut seen = self.seen.borrow_mut();
        // An error would be a lack of memory.
        let made = self.watch.read().unwrap_or_else(|_| Made { lost: true, ..Made::default() });
        if made.lost {
            seen.lost_ns = Some(now_ns());
        }
        seen.made.extend(made.files.into_iter().map(|(maker, name)| (name, maker)));
        if seen.made.len() > MANY {
            seen.made.retain(|name, _| exists(name));
        }
    }
}

/// Whether there is a file of this name in the directory.
fn exists(name: &[u8]) -> bool {
    Path::new(DIRECTORY).join(OsStr::from_bytes(name)).symlink_metadata().is_ok()
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.map_or(0, |now| now.as_nanos() as u64)
}
