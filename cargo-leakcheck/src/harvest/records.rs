//! What a recorder has written down of a process, whichever it is.

use std::collections::HashMap;
use std::ops::Range;

use leakcheck_common::{CANARY_SIZE, bad_free, block, process};
use nix::unistd::Pid;

use super::ledger::{self, Entry, Ledger};
use super::lost::lost;
use super::stacks::Keys;
use super::{at_peak, heap};
use crate::model;
use crate::parallel;
use crate::snapshot::{BadFree, Before, Block, Blocks, Loss};
use crate::trace::{BadFreeRecord, BlockRecord, Heap, Kernel, Process, ProcessRecord};

/// So many bytes of records are looked at before they are taken, since most tests leave nothing.
const WORTH_A_GLANCE: u64 = 256 << 10;
/// So many bytes of records are worth a thread.
const WORTH_SHARING: u64 = 16 << 20;

/// The records of one process.
pub enum Records<'a> {
    /// In the tables of the kernel side.
    Kernel { kernel: &'a Kernel, pid: Pid, counters: &'a ProcessRecord },
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
        counters: &'a ProcessRecord,
        reader: Pid,
    ) -> Result<Self, String> {
        match (process.control, kernel) {
            (Some(address), _) => Ledger::read(reader, address).map(Self::Ledger),
            (None, Some(kernel)) => Ok(Self::Kernel { kernel, pid: process.pid, counters }),
            (None, None) => Err("nothing has recorded".to_owned()),
        }
    }

    /// Reads them. `canary` is a block that is nobody's; what `interrupted` says of addresses is newer than
    /// what their records do. `heap` says whether freed memory is to be known, `keeps_threads` whether who has allocated blocks is.
    pub fn read(
        &self,
        canary: Option<u64>,
        interrupted: &[(u64, BlockRecord)],
        heap: Heap,
        keeps_threads: bool,
    ) -> Recorded {
        let keeps_ranges = heap == Heap::Other;
        let mut recorded = Recorded { canary, keeps_ranges, keeps_threads, ..Recorded::default() };
        match self {
            Self::Kernel { kernel, pid, counters } => {
                let canary = canary.and_then(|address| Some((address, kernel.block(*pid, address)?)));
                canary.into_iter().for_each(|(address, record)| recorded.add(address, &record));
                // Where none of its counters says so, there is nothing that may be a finding.
                let counts = counters[process::WINDOW_LIVE] != 0 || counters[process::BAD_FREES] != 0;
                if counts || !interrupted.is_empty() {
                    for address in kernel.addresses(*pid, counters) {
                        let record = kernel.block(*pid, address);
                        record.into_iter().for_each(|record| recorded.add(address, &record));
                    }
                }
                kernel.bad_frees(*pid, counters).iter().for_each(|record| recorded.add_bad_free(record));
                recorded.forget_unknown_frees(counters[process::LOST_BLOCKS] != 0);
            }
            Self::Ledger(ledger) => {
                let records = ledger.records();
                let bytes: u64 = records.iter().map(|range| range.end - range.start).sum();
                // Who has allocated blocks is asked of all of them.
                let may_be = bytes > WORTH_A_GLANCE || !interrupted.is_empty() || keeps_threads;
                let glance = (!may_be).then(|| ledger.glance(&records, canary));
                if let Some((false, of_canary)) = glance {
                    canary.zip(of_canary).iter().for_each(|(address, record)| recorded.add(*address, record));
                } else if bytes < WORTH_SHARING {
                    recorded = recorded.with(ledger, &records);
                } else {
                    let [first, later] = ledger::halves(&records);
                    let later = || recorded.like().with(ledger, &later);
                    let (later, first) = parallel::both(true, later, || recorded.like().with(ledger, &first));
                    recorded = first;
                    recorded.append(later);
                }
                recorded.forget_unknown_frees(!ledger.losses().is_empty());
            }
        }
        interrupted.iter().for_each(|(address, record)| recorded.add(*address, record));
        recorded
    }

    /// Calls `found` with the address and the record of each block of the window that is allocated now.
    pub fn alive(&self, mut found: impl FnMut(u64, &BlockRecord)) {
        const ALIVE: u64 = block::FLAG_LIVE | block::FLAG_WINDOW;
        let mut add = |address: u64, record: &BlockRecord| {
            if record[block::FLAGS] & ALIVE == ALIVE {
                found(address, record);
            }
        };
        match self {
            Self::Kernel { counters, .. } if counters[process::WINDOW_LIVE] == 0 => {}
            Self::Kernel { kernel, pid, counters } => {
                let addresses = kernel.addresses(*pid, counters).into_iter();
                let blocks = addresses.filter_map(|address| Some((address, kernel.block(*pid, address)?)));
                blocks.for_each(|(address, record)| add(address, &record));
            }
            Self::Ledger(ledger) => ledger.entries(&ledger.records(), |entry| {
                if let Entry::Block(address, record) = entry {
                    add(address, &record);
                }
            }),
        }
    }

    /// What was alive at the peak of what was allocated in the window, by the keys of call stacks.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn at_peak(&self) -> Result<Vec<(u64, model::Measure)>, String> {
        match self {
            Self::Kernel { kernel, pid, counters } => {
                let all = kernel.at_peak(*pid, counters).ok_or("too many threads were at it at once")?;
                at_peak::checked(all, self.heap(false).filter(|_| self.losses().is_empty()))
            }
            Self::Ledger(ledger) => ledger.at_peak(),
        }
    }

    /// The return addresses of a call stack, innermost first.
    pub fn stack(&self, key: u64) -> Option<Vec<u64>> {
        match self {
            Self::Kernel { kernel, pid, .. } => kernel.stack(*pid, key),
            Self::Ledger(ledger) => ledger.stack(key),
        }
    }

    /// Memory of the process that is the recorder's; `threads` are the pointers of its threads.
    pub fn memory(&self, threads: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        match self {
            Self::Kernel { .. } => Vec::new(),
            Self::Ledger(ledger) => ledger.memory(threads),
        }
    }

    /// What was allocated in the window, whether it is still there or not; none where that is not known. `canary`
    /// says that the canary is among it.
    pub fn heap(&self, canary: bool) -> Option<model::Heap> {
        let heap = match self {
            Self::Kernel { counters, .. } => heap::of_kernel(counters),
            Self::Ledger(ledger) => ledger.heap(),
        };
        heap.map(|heap| if canary { heap::without_canary(heap) } else { heap })
    }

    /// What the recorder could not write down.
    pub fn losses(&self) -> Vec<Loss> {
        let Self::Kernel { counters, .. } = self else {
            let Self::Ledger(ledger) = self else { return Vec::new() };
            return ledger.losses();
        };
        let mut losses = Vec::new();
        let mut add =
            |word: usize, what, loss: fn(u64) -> Loss| losses.extend(lost(counters[word], what, loss));
        add(process::LOST_BLOCKS, "block", |count| Loss::Blocks { count });
        add(process::LOST_STACKS, "call stack", |count| Loss::Stacks { count });
        add(process::UNREAD_STACKS, "call stack", |count| Loss::UnreadStacks { count });
        add(process::LOST_FREES, "bad free", |count| Loss::BadFrees { count });
        add(process::LOST_RESULTS, "result", |count| Loss::Results { count });
        add(process::LOST_LOG, "record", |count| Loss::Log { count });
        losses
    }
}

/// What was read of them.
#[derive(Default)]
pub struct Recorded {
    /// The blocks that are allocated, but for the canary, as they come. Their call stacks are numbers of
    /// keys.
    pub blocks: Blocks,
    /// By which threads they were allocated, by their addresses, where that is to be known.
    pub threads: HashMap<u64, u32>,
    /// Addresses that were allocated and are not any more, as they come.
    pub freed: Vec<u64>,
    /// The memory that they were, where the heap is not known.
    pub freed_ranges: Vec<Range<u64>>,
    /// Frees of what was not allocated; call stacks as those of blocks.
    pub bad_frees: Vec<BadFree>,
    /// The keys of call stacks.
    pub keys: Keys,
    /// Whether the canary was seen, at the address that `malloc` returned for it.
    pub has_canary: bool,
    /// Whether it was allocated in the window: where everything counts, it is there before the program runs.
    pub counts_canary: bool,
    canary: Option<u64>,
    keeps_ranges: bool,
    keeps_threads: bool,
    unnumbered: u64,
}

impl Recorded {
    /// Nothing, of the same process.
    fn like(&self) -> Self {
        let Self { canary, keeps_ranges, keeps_threads, .. } = *self;
        Self { canary, keeps_ranges, keeps_threads, ..Self::default() }
    }

    /// With what records of a ledger say.
    fn with(mut self, ledger: &Ledger, records: &[Range<u64>]) -> Self {
        ledger.entries(records, |entry| match entry {
            Entry::Block(address, record) => self.add(address, &record),
            Entry::BadFree(record) => self.add_bad_free(&record),
        });
        self
    }

    /// Adds what later records say.
    fn append(&mut self, mut later: Self) {
        let numbers: Vec<Option<usize>> = later.keys.all().iter().map(|key| self.keys.number(*key)).collect();
        later.blocks.map_stacks(|stack| numbers[stack]);
        self.unnumbered += later.unnumbered + self.blocks.append(later.blocks);
        self.bad_frees.extend(later.bad_frees.into_iter().map(|mut free| {
            free.stack = free.stack.and_then(|stack| numbers[stack]);
            free.before = free.before.map(|stack| numbers[stack]);
            free
        }));
        self.threads.extend(later.threads);
        self.freed.append(&mut later.freed);
        self.freed_ranges.append(&mut later.freed_ranges);
        self.has_canary |= later.has_canary;
        self.counts_canary |= later.counts_canary;
    }

    fn add(&mut self, address: u64, record: &BlockRecord) {
        let flags = record[block::FLAGS];
        if flags & block::FLAG_LIVE == 0 {
            self.freed.push(address);
            if self.keeps_ranges {
                self.freed_ranges.push(address..address.saturating_add(record[block::SIZE]));
            }
        } else if self.canary == Some(address) {
            self.has_canary = record[block::SIZE] == CANARY_SIZE;
            self.counts_canary = flags & block::FLAG_WINDOW != 0;
        } else {
            let block = Block {
                address,
                size: record[block::SIZE],
                stack: self.keys.number(record[block::STACK]),
                in_window: flags & block::FLAG_WINDOW != 0,
                runtime: false,
                time: record[block::TIME],
            };
            if self.keeps_threads {
                self.threads.insert(address, (flags >> 32) as u32);
            }
            self.unnumbered += u64::from(!self.blocks.push(&block));
        }
    }

    /// Takes the blocks of some call stacks, by their numbers, as if they were not allocated any more.
    pub fn forget(&mut self, is_forgotten: impl Fn(usize) -> bool) {
        let forgotten = self.blocks.forget(is_forgotten);
        self.freed.extend(forgotten.iter().map(|place| place.start));
        if self.keeps_ranges {
            self.freed_ranges.extend(forgotten.iter().map(|place| place.start..place.end()));
        }
    }

    /// Whether there is nothing that may be a finding.
    pub fn has_nothing(&self) -> bool {
        !self.blocks.any_in_window() && self.bad_frees.is_empty()
    }

    fn add_bad_free(&mut self, record: &BadFreeRecord) {
        let [stack, allocated, freed] = [bad_free::STACK, bad_free::ALLOCATED, bad_free::FREED]
            .map(|word| self.keys.number(record[word]));
        self.bad_frees.push(BadFree {
            address: record[bad_free::ADDRESS],
            double: record[bad_free::DOUBLE] != 0,
            stack,
            before: Before { allocated, freed },
        });
    }

    /// A block that found no room is freed as one that never was.
    fn forget_unknown_frees(&mut self, lost: bool) {
        self.bad_frees.retain(|free| free.double || !lost);
    }

    /// What could not be taken of them.
    pub fn losses(&self) -> Option<Loss> {
        (self.unnumbered > 0).then_some(Loss::Unnumbered { count: self.unnumbered })
    }
}
