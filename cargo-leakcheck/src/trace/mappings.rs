//! The kernel side's account of mappings: the calls that have made them, and where such mappings have ended.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use aya::maps::MapData;
use leakcheck_common::{file, mapping, unmapped};
use nix::unistd::Pid;

use super::object::{Programs, load_other};
use super::table::{Table, take};
use crate::sys::ProgramKind;

/// The program at the probes.
pub const PROGRAM: &str = "mapping";

/// `MAP_ANONYMOUS` of `sys/mman.h`.
const ANONYMOUS: u64 = 0x20;

/// The tables.
pub struct MapCalls {
    mapped: Table<[u64; 2], [u64; mapping::WORDS]>,
    unmapped: Table<[u64; 2], [u64; unmapped::WORDS]>,
    /// Held because the programs use it.
    _empty: MapData,
}

/// A change of what is mapped.
pub struct MapCall {
    /// When the call was back, `CLOCK_MONOTONIC` in nanoseconds.
    pub time_ns: u64,
    /// Which thread's it was; 0 where that does not matter.
    pub thread: u64,
    /// Where it begins.
    pub address: u64,
    /// Its size, whole pages; 0 where the call that has made it does not say that.
    pub bytes: u64,
    /// What has made it; none where what was mapped has ended.
    pub made: Option<Made>,
}

/// What has made a mapping.
pub struct Made {
    /// The call, a `site` constant.
    pub call: u64,
    /// It was to be memory without a file.
    pub is_anonymous: bool,
    /// Where it was called.
    pub place: Box<[u64; file::WORDS]>,
}

impl MapCalls {
    /// Takes the tables, and loads the program, which is what is returned with it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn new(
        programs: &Programs,
        tables: &mut HashMap<String, MapData>,
    ) -> Result<(Self, OwnedFd), String> {
        let text = |error: crate::error::Error| error.to_string();
        let mapped = Table::take_with_spare(tables, "MAPPINGS").map_err(text)?;
        let unmapped = Table::take(tables, "UNMAPPED").map_err(text)?;
        let program = load_other(programs, ProgramKind::Uprobe, PROGRAM)?;
        Ok((Self { mapped, unmapped, _empty: take(tables, "EMPTY_MAPPING") }, program))
    }

    /// What is known of a process, in no order. Empty where it has made nothing that is still known.
    pub fn of(&self, process: Pid) -> Vec<MapCall> {
        let mapped = keys(&self.mapped, process).filter_map(|key| {
            let record = self.mapped.get(&key).ok()?;
            let place: [u64; file::WORDS] =
                record[mapping::PLACE..].try_into().expect("the record ends with it");
            let call = record[mapping::CALL];
            Some(MapCall {
                time_ns: record[mapping::TIME],
                thread: place[file::MAKER] >> 32,
                address: key[1],
                bytes: record[mapping::BYTES],
                made: Some(Made {
                    call: call & 0xffff_ffff,
                    is_anonymous: (call >> 32) & ANONYMOUS != 0,
                    place: Box::new(place),
                }),
            })
        });
        let mut calls: Vec<MapCall> = mapped.collect();
        if calls.is_empty() {
            return calls;
        }
        calls.extend(keys(&self.unmapped, process).filter_map(|key| {
            let [time_ns, bytes, thread] = self.unmapped.get(&key).ok()?;
            Some(MapCall { time_ns, thread, address: key[1], bytes, made: None })
        }));
        calls
    }

    /// Removes everything that is recorded of a process.
    pub(super) fn forget(&self, process: Pid) {
        // What could not be removed only takes room.
        let _ = self.mapped.remove_all(&keys(&self.mapped, process).collect::<Vec<_>>());
        let _ = self.unmapped.remove_all(&keys(&self.unmapped, process).collect::<Vec<_>>());
    }
}

/// The keys of a process: its number and a thread's in the upper half, and an address.
fn keys<V: aya::Pod>(table: &Table<[u64; 2], V>, process: Pid) -> impl Iterator<Item = [u64; 2]> {
    let process = u64::from(process.as_raw().cast_unsigned());
    table.keys().into_iter().filter(move |key| key[0] & 0xffff_ffff == process)
}
