//! The kernel side's account of IPC objects: the calls that have made them; and whether tests get an IPC
//! namespace of their own.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::MapData;
use leakcheck_common::{file, ipc};
use nix::unistd::Pid;

use super::object::{Programs, load_other};
use super::table::{Table, take};
use crate::model::Availability;
use crate::sys::{self, Mount, ProgramKind};

/// The words of a record.
type IpcRecord = [u64; ipc::WORDS];

/// The program at the probes.
pub const PROGRAM: &str = "ipc";

/// The table.
pub struct IpcCalls {
    records: Table<[u64; 2], IpcRecord>,
    /// Held because the programs use it.
    _empty: MapData,
}

/// A call that has made an object.
pub struct IpcCall {
    /// The object's kind, as in [`ipc`].
    pub kind: u64,
    /// Hash of the object's name, or its id.
    pub which: u64,
    /// The name without a slash, in bytes; empty without one.
    pub name: Vec<u8>,
    /// When it began, `CLOCK_MONOTONIC` in nanoseconds.
    pub time_ns: u64,
    /// It was `open` itself, not a function for such objects.
    pub is_open: bool,
    /// It was a process that descends from the test.
    pub is_descendants: bool,
    /// Where it was called.
    pub place: Box<[u64; file::WORDS]>,
}

impl IpcCalls {
    /// Takes the table, and loads the program, which is what is returned with it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn new(
        programs: &Programs,
        tables: &mut HashMap<String, MapData>,
    ) -> Result<(Self, OwnedFd), String> {
        let program = load_other(programs, ProgramKind::Uprobe, PROGRAM)?;
        // Last: where that fails the table stays open, since another program names it.
        let records = Table::take_with_spare(tables, "IPC").map_err(|error| error.to_string())?;
        Ok((Self { records, _empty: take(tables, "EMPTY_IPC") }, program))
    }

    /// What a process has made and not removed.
    pub fn of(&self, process: Pid) -> Vec<IpcCall> {
        let made = self.keys(process).filter(|key| key[0] >> 32 & ipc::CALLING == 0);
        let call = |key: [u64; 2]| {
            let record = self.records.get(&key).ok()?;
            let bytes: Vec<u8> =
                record[ipc::NAME..][..ipc::NAME_WORDS].iter().flat_map(|word| word.to_ne_bytes()).collect();
            Some(IpcCall {
                kind: key[0] >> 32,
                which: key[1],
                name: bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_owned(),
                time_ns: record[ipc::TIME],
                is_open: record[ipc::EXCLUSIVE] == ipc::BY_OPEN,
                is_descendants: record[ipc::EXCLUSIVE] == ipc::BY_DESCENDANT,
                place: Box::new(record[ipc::PLACE..].try_into().expect("the record ends with it")),
            })
        };
        made.filter_map(call).collect()
    }

    /// Removes everything that is recorded of a process.
    pub(super) fn forget(&self, process: Pid) {
        // What could not be removed only takes room.
        let _ = self.records.remove_all(&self.keys(process).collect::<Vec<_>>());
    }

    fn keys(&self, process: Pid) -> impl Iterator<Item = [u64; 2]> {
        let process = process.as_raw().cast_unsigned();
        self.records.keys().into_iter().filter(move |key| key[0] as u32 == process)
    }
}

/// Whether tests can be given IPC namespaces, and these be looked at; a thread of its own tries it.
pub fn namespaces() -> Availability {
    let attempt = || -> Result<(), String> {
        let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        let own = sys::ipc_namespace(Pid::this()).map_err(failed("the kernel has no IPC namespaces"))?;
        sys::leave_ipc_namespace().map_err(failed("the kernel refuses a private IPC namespace"))?;
        sys::in_ipc_namespace(own.as_fd(), || ())
            .map_err(failed("the kernel does not let an IPC namespace be entered"))?;
        std::fs::metadata("/proc/sysvipc/shm").map_err(failed("/proc/sysvipc cannot be read"))?;
        Mount::of_queues().map_err(failed("POSIX message queues cannot be listed")).map(drop)
    };
    match std::thread::spawn(attempt).join() {
        Ok(Ok(())) => Availability::Checked,
        Ok(Err(reason)) => Availability::Unavailable { reason },
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
