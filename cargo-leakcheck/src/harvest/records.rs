//! What a recorder has written down of a process, whichever it is.

use std::collections::HashMap;
use std::ops::Range;

use leakcheck_common::{CANARY_SIZE, bad_free, block, process};
use nix::unistd::Pid;

use super::is_live;
use super::ledger::Ledger;
use crate::snapshot::Loss;
use crate::trace::{BlockRecord, Kernel, Process, ProcessRecord};

/// The records of one process.
pub enum Records<'a> {
    /// In the tables of the kernel side.
    Kernel { kernel: &'a Kernel, pid: Pid, counters: ProcessRecord },
    /// In the process itself.
    Ledger(Ledger),
}

impl<'a> Records<'a> {
    /// Finds them. `reader` is a thread through which the process's memory can be read.
    ///
    /// # Errors
    /// Why there are none.
    pub fn of(
        kernel: Option<&'a Kernel>,
        process: &Process,
        counters: ProcessRecord,
        reader: Pid,
    ) -> Result<Self, String> {
        match (process.control, kernel) {
            (Some(address), _) => Ledger::read(reader, address).map(Self::Ledger),
            (None, Some(kernel)) => Ok(Self::Kernel { kernel, pid: process.pid, counters }),
            (None, None) => Err("nothing has recorded".to_owned()),
        }
    }

    /// Whether the canary was seen, at the address that `malloc` returned for it.
    pub fn has_canary(&self, address: u64) -> bool {
        let record = match self {
            Self::Kernel { kernel, pid, .. } => kernel.block(*pid, address),
            Self::Ledger(ledger) => {
                ledger.blocks.iter().find(|(found, _)| *found == address).map(|(_, record)| *record)
            }
        };
        record.is_some_and(|record| record[block::SIZE] == CANARY_SIZE && is_live(&record))
    }

    /// Whether anything is in them that may be a finding.
    pub fn is_worth_reading(&self) -> bool {
        match self {
            Self::Kernel { counters, .. } => {
                counters[process::WINDOW_LIVE] != 0 || counters[process::BAD_FREES] != 0
            }
            Self::Ledger(ledger) => {
                let counts =
                    |record: &BlockRecord| is_live(record) && record[block::FLAGS] & block::FLAG_WINDOW != 0;
                !ledger.bad_frees.is_empty() || ledger.blocks.iter().any(|(_, record)| counts(record))
            }
        }
    }

    /// Every address that was ever allocated, with its last record.
    pub fn blocks(&mut self) -> HashMap<u64, BlockRecord> {
        match self {
            Self::Kernel { kernel, pid, counters } => {
                let addresses = kernel.addresses(*pid, counters).into_iter();
                addresses.filter_map(|address| Some((address, kernel.block(*pid, address)?))).collect()
            }
            Self::Ledger(ledger) => std::mem::take(&mut ledger.blocks).into_iter().collect(),
        }
    }

    /// Frees of what was not allocated: address, whether it had been freed before, call stack. A block
    /// that found no room is freed as one that never was.
    pub fn bad_frees(&self) -> Vec<(u64, bool, u64)> {
        let (frees, lost): (Vec<(u64, bool, u64)>, bool) = match self {
            Self::Kernel { kernel, pid, counters } => {
                let records = kernel.bad_frees(*pid, counters).into_iter();
                let free = |record: [u64; bad_free::WORDS]| {
                    (record[bad_free::ADDRESS], record[bad_free::DOUBLE] != 0, record[bad_free::STACK])
                };
                (records.map(free).collect(), counters[process::LOST_BLOCKS] != 0)
            }
            Self::Ledger(ledger) => (ledger.bad_frees.clone(), !ledger.losses().is_empty()),
        };
        frees.into_iter().filter(|(_, double, _)| *double || !lost).collect()
    }

    /// The return addresses of a call stack, innermost first.
    pub fn stack(&self, key: u64) -> Option<Vec<u64>> {
        match self {
            Self::Kernel { kernel, pid, .. } => kernel.stack(*pid, key),
            Self::Ledger(ledger) => ledger.stack(key),
        }
    }

    /// Memory of the process that is the recorder's.
    pub fn memory(&self) -> Vec<Range<u64>> {
        match self {
            Self::Kernel { .. } => Vec::new(),
            Self::Ledger(ledger) => ledger.memory(),
        }
    }

    /// What the recorder could not write down.
    pub fn losses(&self) -> Vec<Loss> {
        let Self::Kernel { counters, .. } = self else {
            let Self::Ledger(ledger) = self else { return Vec::new() };
            return ledger.losses();
        };
        let mut losses = Vec::new();
        let mut lost = |word: usize, loss: fn(u64) -> Loss| {
            if counters[word] > 0 {
                losses.push(loss(counters[word]));
            }
        };
        lost(process::LOST_BLOCKS, |count| Loss::Blocks { count });
        lost(process::LOST_STACKS, |count| Loss::Stacks { count });
        lost(process::UNREAD_STACKS, |count| Loss::UnreadStacks { count });
        lost(process::LOST_FREES, |count| Loss::BadFrees { count });
        lost(process::LOST_RESULTS, |count| Loss::Results { count });
        lost(process::LOST_LOG, |count| Loss::Log { count });
        losses
    }
}
