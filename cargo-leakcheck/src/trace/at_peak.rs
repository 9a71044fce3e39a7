//! What the kernel side knows of the peak, by call stacks.

use leakcheck_common::{LOG_STACKS, process, stack};
use nix::unistd::Pid;

use super::kernel::{Kernel, ProcessRecord, block_key, key};
use crate::model::Measure;
use aya::maps::MapError;

impl Kernel {
    /// Lets it be counted by call stacks from now on what is alive of a process.
    ///
    /// # Errors
    /// The process is not followed.
    pub fn count_by_stack(&mut self, pid: Pid) -> Result<(), MapError> {
        let mut record = self.process(pid)?;
        record[process::BY_STACK] = 1;
        self.processes.insert(key(pid), &record)
    }

    /// What was alive of each call stack at the process's peak, by their hashes; none where that is not known.
    pub fn at_peak(&self, pid: Pid, counters: &ProcessRecord) -> Option<Vec<(u64, Measure)>> {
        if counters[process::BY_STACK] != 1 || counters[process::LOST_PEAKS] != 0 {
            return None;
        }
        let hashes = self.logged(pid, LOG_STACKS, counters[process::LOGGED_STACKS]);
        let all = hashes.into_iter().filter_map(|hash| {
            let record = self.stacks.get(&block_key(pid, hash)).ok()?;
            let is_old = record[stack::MAXIMUM] == counters[process::MAXIMA];
            let [bytes, blocks] = if is_old {
                [record[stack::OLD_BYTES], record[stack::OLD_BLOCKS]]
            } else {
                [record[stack::BYTES], record[stack::BLOCKS]]
            };
            Some((hash, Measure { bytes, blocks }))
        });
        Some(all.filter(|(_, measure)| *measure != Measure::default()).collect())
    }
}
