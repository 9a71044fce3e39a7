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

/// The tables.
pub struct MapCalls {
    mapped: Table<[u64; 2], [u64; mapping::WORDS]>,
    unmapped: Table<[u64; 2], [u64; unmapped::WORDS]>,
    /// Held because the programs use it.
    _empty: MapData,
}

/// A change of what is mapped.
pub struct MapCall {
    /// When it was there or was no more, `CLOCK_MONOTONIC` in nanoseconds.
    pub time_ns: u64,
    /// Where it begins.
    pub address: u64,
    /// Its size, whole pages; 0 where the call that has made it does not say that.
    pub bytes: u64,
    /// The call that has made it, a `site` constant, and its place; none where what was mapped has ended.
    pub made: Option<(u64, Box<[u64; file::WORDS]>)>,
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
        let mapped = Table::take(tables, "MAPPINGS").map_err(text)?;
        let unmapped = Table::take(tables, "UNMAPPED").map_err(text)?;
        let program = load_other(programs, ProgramKind::Uprobe, PROGRAM)?;
        Ok((Self { mapped, unmapped, _empty: take(tables, "EMPTY_MAPPING") }, program))
    }

    /// What is known of a process, in no order. Empty where it has made nothing that is still known.
    pub fn of(&self, process: Pid) -> Vec<MapCall> {
        let mapped = keys(&self.mapped, process).filter_map(|key| {
            let record = self.mapped.get(&key).ok()?;
            let place = record[mapping::PLACE..].try_into().expect("the record ends with it");
            Some(MapCall {
                time_ns: record[mapping::TIME],
                address: key[1],
                bytes: record[mapping::BYTES],
                made: Some((record[mapping::CALL], Box::new(place))),
            })
        });
        let mut calls: Vec<MapCall> = mapped.collect();
        if calls.is_empty() {
            return calls;
        }
        calls.extend(keys(&self.unmapped, process).filter_map(|key| {
            let [time_ns, bytes] = self.unmapped.get(&key).ok()?;
            Some(MapCall { time_ns, address: key[1], bytes, made: None })
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

fn keys<V: aya::Pod>(table: &Table<[u64; 2], V>, process: Pid) -> impl Iterator<Item = [u64; 2]> {
    let process = u64::from(process.as_raw().cast_unsigned());
    table.keys().into_iter().filter(move |key| key[0] == process)
}
