//! Descriptors that a process leaves open, of files (open file descriptions) that were made in its window.
//! Its own table says which are open; the kernel side's account, which of their files the test has made.

mod calls;
mod describe;
pub(super) mod stack;

use std::collections::BTreeMap;

use leakcheck_common::{file, process};
use nix::unistd::Pid;

use super::Threads;
use super::places::Places;
use crate::model::Descriptor;
use crate::snapshot::Loss;
use crate::trace::{FileRecord, Files, Process, ProcessRecord, Steering};

/// The descriptors of a process that are its test's.
pub struct Opened<'a> {
    files: &'a Files,
    process: Pid,
    /// By the addresses of their files: the numbers, and who made it.
    by_file: BTreeMap<u64, (Vec<u32>, FileRecord)>,
}

impl<'a> Opened<'a> {
    /// Lists them. None where there are none, or nothing is known of them; what was not seen is added to
    /// `losses`.
    pub fn of(
        steering: &'a Steering,
        process: &Process,
        counters: &ProcessRecord,
        losses: &mut Vec<Loss>,
    ) -> Option<Self> {
        let files = steering.kernel()?.files()?.as_ref().ok()?;
        if counters[process::FILES] == 0 || !process.seeks.files {
            return None;
        }
        if counters[process::LOST_FILES] > 0 {
            losses.push(Loss::Files { count: counters[process::LOST_FILES] });
        }
        let open = match files.open(process.pid) {
            Ok(open) => open,
            Err(reason) => {
                losses.push(Loss::Descriptors { reason });
                return None;
            }
        };
        let pid = process.pid;
        let mut by_file = BTreeMap::new();
        for (number, file) in open {
            // What another process has made and sent here is that one's.
            let made_here = |record: &FileRecord| record[file::MAKER] as u32 == pid.as_raw().cast_unsigned();
            if let Some(record) = files.record(file).filter(made_here) {
                let (numbers, _) = by_file.entry(file).or_insert_with(|| (Vec::new(), record));
                numbers.push(number);
            }
        }
        (!by_file.is_empty()).then_some(Self { files, process: pid, by_file })
    }

    /// Says what they are and where they come from, and forgets them.
    pub fn describe(self, places: &mut Places<'_>, threads: &Threads) -> Vec<Descriptor<usize>> {
        let describer = describe::Describer::new(self.process);
        let describe = |(numbers, record): &(Vec<u32>, FileRecord)| {
            let frames = stack::unwind(record, &mut |address| places.row(address));
            let stack = places.add(frames);
            let mut numbers = numbers.clone();
            numbers.sort_unstable();
            numbers.dedup();
            let (kind, description) = describer.describe(numbers[0]);
            let held_by = threads.running(self.process, (record[file::MAKER] >> 32) as i32);
            Descriptor {
                held_by,
                once: false,
                numbers,
                kind,
                description,
                call: calls::name(record[file::CALL]),
                stack: Some(stack),
            }
        };
        let mut descriptors: Vec<_> = self.by_file.values().map(describe).collect();
        descriptors.sort_by(|one, other| one.numbers.cmp(&other.numbers));
        // The process is kept: until it goes on, no file that is open can lose its address to another one.
        self.files.forget(&self.by_file.into_keys().collect::<Vec<_>>());
        descriptors
    }
}
