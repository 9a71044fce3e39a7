//! The kernel side's account of processes and threads that tests have started.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use aya::maps::{Array, Map, MapData};
use leakcheck_common::{layout, started};
use nix::unistd::Pid;

use super::btf::{Btf, Parameter};
use super::files::FileRecord;
use super::object::{Programs, attach_other};
use super::table::{Table, take};

/// Tracepoints with their programs, and the arguments of each that the program reads.
const TRACEPOINTS: [(&str, &str, &[Parameter]); 3] = [
    ("sched_process_fork", "start", &[Parameter::Pointer, Parameter::Pointer]),
    ("sched_process_exit", "finish", &[]),
    ("sched_process_free", "release", &[Parameter::Pointer]),
];

/// The table.
pub struct Started {
    records: Table<u32, FileRecord>,
    /// Held because the programs use it.
    _layout: Array<MapData, [u64; layout::WORDS]>,
}

/// A process or thread that a test has started.
#[derive(Clone, Copy)]
pub struct Task {
    /// Its id.
    pub id: Pid,
    /// It is a thread of the test's own process.
    pub is_thread: bool,
    key: u32,
}

impl Started {
    /// Loads the programs and lets them run; what is returned with it ends that when it is closed.
    ///
    /// # Errors
    /// Why it cannot be: something that this kernel has not, or has otherwise.
    pub fn new(
        programs: &Programs,
        types: &Btf<'_>,
        tables: &mut HashMap<String, MapData>,
    ) -> Result<(Self, Vec<OwnedFd>), String> {
        let words = read_layout(types)?;
        let mut layout =
            Array::try_from(Map::Array(take(tables, "LAYOUT"))).map_err(|error| error.to_string())?;
        layout.set(0, words, 0).map_err(|error| error.to_string())?;
        let links = TRACEPOINTS
            .iter()
            .map(|(tracepoint, program, wanted)| attach_other(programs, types, tracepoint, program, wanted));
        let links = links.collect::<Result<_, _>>()?;
        // Last: where something fails the table stays open, since another program names it.
        let records = Table::take_with_spare(tables, "STARTED").map_err(|error| error.to_string())?;
        Ok((Self { records, _layout: layout }, links))
    }

    /// What a test's process and its descendants have started, and can still be waited for.
    pub fn of(&self, owner: Pid) -> Vec<Task> {
        let tasks = self.records.keys().into_iter().filter_map(|key| {
            let record = self.records.get(&key).ok()?;
            task(key, &record).filter(|_| record[started::OWNER] as u32 == owner.as_raw().cast_unsigned())
        });
        tasks.collect()
    }

    /// Where it was started; none where its id is no longer its own.
    pub fn record(&self, of: Task) -> Option<FileRecord> {
        let record = self.records.get(&of.key).ok()?;
        task(of.key, &record).is_some_and(|now| now.id == of.id).then_some(record)
    }
}

fn task(key: u32, record: &FileRecord) -> Option<Task> {
    let id = i32::try_from(record[started::OWNER] >> 32).ok().filter(|id| *id != 0)?;
    Some(Task { id: Pid::from_raw(id), is_thread: record[started::IS_THREAD] != 0, key })
}

/// Where the kernel's own types have what is needed of them.
fn read_layout(types: &Btf<'_>) -> Result<[u64; layout::WORDS], String> {
    let mut words = [0; layout::WORDS];
    for (word, structure, members) in [
        (layout::TASK_ID, "task_struct", &["pid"][..]),
        (layout::TASK_PROCESS, "task_struct", &["tgid"]),
        (layout::TASK_NUMBERS, "task_struct", &["thread_pid"]),
        (layout::LEVEL, "pid", &["level"]),
        (layout::NUMBERS, "pid", &["numbers"]),
        (layout::NUMBER, "upid", &["nr"]),
        (layout::NUMBER_NAMESPACE, "upid", &["ns"]),
        (layout::NAMESPACE_INODE, "pid_namespace", &["ns", "inum"]),
    ] {
        let place = types.member(structure, members);
        let unknown = || format!("the kernel's types (BTF) have no {structure}.{}", members.join("."));
        words[word] = u64::from(place.ok_or_else(unknown)?);
    }
    let size = types.size("upid").ok_or("the kernel's types (BTF) have no upid")?;
    words[layout::NUMBER_SIZE] = u64::from(size);
    Ok(words)
}
