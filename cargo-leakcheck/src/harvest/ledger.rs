//! The ledger of a process, read out of its memory (`leakcheck_preload::layout`). The process could
//! have written anything there: nothing is believed but sizes that the memory really has.

use std::ops::Range;

use leakcheck_common::{bad_free, block as common};
use leakcheck_preload::accounts::{Account, Accounts};
use leakcheck_preload::layout::{account, block, by_stack, control, length, place, stack, walk};
use leakcheck_preload::stacks;
use nix::unistd::Pid;

use super::pages::Pages;
use super::{at_peak, heap};
use crate::model::{Heap, Measure};
use crate::snapshot::Loss;
use crate::trace::{BadFreeRecord, BlockRecord, read, read_word, words, write};

/// Most frames that a call stack may have, whichever the recorder is. The ledger is compiled without
/// other crates and says it for itself.
const FRAMES: usize = leakcheck_common::MAX_FRAMES;
const _: () = assert!(FRAMES == leakcheck_preload::layout::MAX_FRAMES);

/// Bytes of a record of a block.
const RECORD: u64 = block::WORDS as u64 * 8;

/// A process's ledger.
pub struct Ledger {
    /// A copy of all control words.
    control: Vec<u64>,
    reader: Pid,
}

/// What a record says.
pub enum Entry {
    /// The address was allocated, and this is what is known of it.
    Block(u64, BlockRecord),
    /// A free of what was not allocated.
    BadFree(BadFreeRecord),
}

impl Ledger {
    /// Reads the ledger whose control words are at an address.
    ///
    /// # Errors
    /// What is there is no ledger.
    pub fn read(reader: Pid, address: u64) -> Result<Self, String> {
        let control = words(&read(reader, address, control::READ * 8));
        if control.len() != control::READ {
            return Err("the ledger cannot be read".to_owned());
        }
        if control[control::VERSION] != leakcheck_preload::layout::VERSION {
            return Err("the ledger found no memory".to_owned());
        }
        if control[control::WINDOW] == 0 && control[control::ALL] == 0 {
            return Err(format!(
                "the ledger found no window; one of the descriptors {:?} must be free and allowed (`ulimit -n`)",
                leakcheck_preload::layout::WINDOW_FDS
            ));
        }
        Ok(Self { control, reader })
    }

    /// Where its records of blocks are, in the order of their numbers.
    pub fn records(&self) -> Vec<Range<u64>> {
        let count = self.control[control::BLOCKS].min(u64::from(u32::MAX)) as usize;
        let (last, _) = place(count, block::FIRST);
        let chunks =
            self.control[control::BLOCK_CHUNKS..][..control::CHUNKS].iter().enumerate().take(last + 1);
        let ranges = chunks.map(|(chunk, &start)| {
            let first = block::FIRST * ((1 << chunk) - 1);
            let records = length(chunk, block::FIRST).min(count.saturating_sub(first)) as u64;
            start..start.saturating_add(records * RECORD)
        });
        ranges.collect()
    }

    /// Looks whether one of these records may be of a finding: a block of the window that is allocated, but for the canary, or
    /// a bad free. Also what there is of the canary.
    pub fn glance(&self, records: &[Range<u64>], canary: Option<u64>) -> (bool, Option<BlockRecord>) {
        const ALIVE: u64 = block::LIVE | block::WINDOW;
        let (mut may_be, mut of_canary) = (false, None);
        self.each(records, |record| {
            let (words, _) = record.as_chunks::<8>();
            let word = |word: usize| u64::from_ne_bytes(words[word]);
            let flags = word(block::FLAGS);
            if flags & (block::BAD_FREE | block::LIVE) == block::LIVE && canary == Some(word(block::ADDRESS))
            {
                of_canary = Entry::of(record).and_then(|entry| match entry {
                    Entry::Block(_, record) => Some(record),
                    Entry::BadFree(_) => None,
                });
            } else {
                may_be |= flags & ALIVE == ALIVE || flags & block::BAD_FREE != 0;
            }
        });
        (may_be, of_canary)
    }

    /// Calls `found` with what each of these records says.
    pub fn entries(&self, records: &[Range<u64>], mut found: impl FnMut(Entry)) {
        self.each(records, |record| Entry::of(record).into_iter().for_each(&mut found));
    }

    fn each(&self, records: &[Range<u64>], mut found: impl FnMut(&[u8; RECORD as usize])) {
        let mut pages = Pages::of(self.reader);
        for range in records {
            // What is missing was lost with the memory that was to hold it, and is counted.
            let _ = pages.read(range, |_, bytes| {
                let (records, _) = bytes.as_chunks();
                records.iter().for_each(&mut found);
            });
        }
    }

    /// The return addresses of a call stack, innermost first.
    pub fn stack(&self, number: u64) -> Option<Vec<u64>> {
        let (record, count) = self.stack_record(number)?;
        let frames = words(&read(self.reader, record + stack::FRAMES as u64 * 8, count * 8));
        (frames.len() == count).then_some(frames)
    }

    /// What the accounts of its threads come to; none where some are missing.
    pub fn heap(&self) -> Option<Heap> {
        let [live, most] = [0, 1].map(|word| self.control[control::SHARED + word] as i64);
        let count = usize::try_from(self.control[control::ACCOUNTS]).ok()?;
        let (mut accounts, mut rest) = (Vec::new(), count);
        for chunk in self.control[control::ACCOUNT_CHUNKS..][..control::CHUNKS].iter().zip(0..) {
            let (&start, number) = chunk;
            let of_chunk = length(number, account::FIRST).min(rest);
            let bytes = read(self.reader, start, of_chunk * account::WORDS * 8);
            let (found, _) = bytes.as_chunks::<{ account::WORDS * 8 }>();
            accounts.extend(found.iter().map(Account::of));
            rest -= of_chunk;
            if rest == 0 {
                break;
            }
        }
        let whole = accounts.len() == count && self.control[control::LOST_ACCOUNTS] == 0;
        whole.then(|| heap::of_ledger(Accounts::of(&accounts, live, most)))
    }

    /// What was alive at the peak, by the numbers of call stacks.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn at_peak(&self) -> Result<Vec<(u64, Measure)>, String> {
        let word = |word: usize| self.control[control::BY_STACK + word];
        if word(by_stack::STATE) != by_stack::ON {
            return Err("memory was allocated in a signal handler that interrupted an allocation, or a thread ended in one".into());
        }
        let mut all = Vec::new();
        // Number 0 means none.
        let (mut first, end) = (1, self.control[control::STACKS].min(u64::from(u32::MAX)) as usize);
        while first < end {
            let (chunk, index) = place(first, stack::FIRST);
            let Some(start) = self.control[control::STACK_CHUNKS..][..control::CHUNKS].get(chunk) else {
                break;
            };
            let count = (length(chunk, stack::FIRST) - index).min(end - first);
            let words = words(&read(self.reader, start.saturating_add(index as u64 * 8), count * 8));
            let found = stacks::at_peak(&words, word(by_stack::MAXIMA)).map(|at| {
                let measure = Measure { bytes: at.bytes, blocks: at.blocks };
                ((first + at.place) as u64, measure)
            });
            all.extend(found.filter(|(_, measure)| *measure != Measure::default()));
            first += count;
        }
        at_peak::checked(all, self.heap().filter(|_| self.losses().is_empty()))
    }

    /// Says what is alive of a call stack; whether it could be said.
    pub fn set_alive(&self, number: u64, alive: Measure) -> bool {
        let Some((record, frames)) = self.stack_record(number) else { return false };
        let at = record.wrapping_add((stack::FRAMES + frames + stack::BYTES) as u64 * 8);
        let words = [alive.bytes, alive.blocks].map(u64::to_ne_bytes);
        write(self.reader, at, words.as_flattened())
    }

    /// Where the record of a call stack is, and how many frames it has.
    fn stack_record(&self, number: u64) -> Option<(u64, usize)> {
        let (chunk, index) = place(usize::try_from(number).ok()?, stack::FIRST);
        let start = *self.control[control::STACK_CHUNKS..][..control::CHUNKS].get(chunk)?;
        let record = start.checked_add(index as u64 * 8)?;
        let head = words(&read(self.reader, record, stack::FRAMES * 8));
        Some((record, usize::try_from(*head.get(stack::COUNT)?).ok()?.min(FRAMES)))
    }

    /// Its own memory, which is full of addresses and refers to nothing; also on the stacks of threads
    /// that are kept in the middle of it, which have these thread pointers.
    pub fn memory(&self, threads: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let region = self.control[control::REGION]..self.control[control::REGION + 1];
        let chunks = |first: usize, bytes: usize| {
            let chunks = self.control[first..][..control::CHUNKS].iter().enumerate();
            chunks
                .filter(|(_, start)| **start != 0)
                .map(move |(chunk, &start)| start..start.saturating_add(length(chunk, bytes) as u64))
        };
        let blocks = chunks(control::BLOCK_CHUNKS, block::FIRST * block::WORDS * 8);
        let stacks = chunks(control::STACK_CHUNKS, stack::FIRST * 8);
        let accounts = chunks(control::ACCOUNT_CHUNKS, account::FIRST * account::WORDS * 8);
        let walks = chunks(control::WALK_CHUNKS, walk::FIRST * 8);
        let rooms = threads.filter_map(|pointer| self.room(pointer));
        let all =
            std::iter::once(region).chain(blocks).chain(stacks).chain(accounts).chain(walks).chain(rooms);
        all.filter(|range| range.start < range.end).collect()
    }

    /// Where a thread puts the frames of a call stack, if it is about to.
    fn room(&self, pointer: u64) -> Option<Range<u64>> {
        let word = pointer.wrapping_add(self.control[control::ROOM]);
        let start = read_word(self.reader, word).filter(|start| *start != 0)?;
        Some(start..start.saturating_add(FRAMES as u64 * 8))
    }

    /// What found no room in it.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (word, loss) in [
            (control::LOST_BLOCKS, (|count| Loss::LedgerBlocks { count }) as fn(u64) -> Loss),
            (control::LOST_STACKS, |count| Loss::LedgerStacks { count }),
            (control::NAMELESS, |count| Loss::Nameless { count }),
        ] {
            if self.control[word] > 0 {
                losses.push(loss(self.control[word]));
            }
        }
        losses
    }
}

/// Cuts the records in two of the same length.
pub fn halves(records: &[Range<u64>]) -> [Vec<Range<u64>>; 2] {
    let length = |range: &Range<u64>| (range.end - range.start) / RECORD;
    let mut rest = records.iter().map(length).sum::<u64>() / 2;
    let mut halves = [Vec::new(), Vec::new()];
    for range in records {
        let first = length(range).min(rest);
        rest -= first;
        let middle = range.start + first * RECORD;
        for (half, part) in halves.iter_mut().zip([range.start..middle, middle..range.end]) {
            half.extend((!part.is_empty()).then_some(part));
        }
    }
    halves
}

impl Entry {
    fn of(record: &[u8; RECORD as usize]) -> Option<Self> {
        let (words, _) = record.as_chunks::<8>();
        let [address, size, flags, time, stack] = std::array::from_fn(|word| u64::from_ne_bytes(words[word]));
        let lower = |word: u64| word & u64::from(u32::MAX);
        if flags & block::BAD_FREE != 0 {
            let mut words: BadFreeRecord = [0; bad_free::WORDS];
            words[bad_free::ADDRESS] = address;
            words[bad_free::DOUBLE] = u64::from(flags & block::DOUBLE != 0);
            words[bad_free::STACK] = lower(stack);
            // In the place of a size: the block's word of call stacks.
            words[bad_free::ALLOCATED] = lower(size);
            words[bad_free::FREED] = size >> 32;
            return Some(Self::BadFree(words));
        }
        let live = if flags & block::LIVE != 0 { common::FLAG_LIVE } else { 0 };
        let window = if flags & block::WINDOW != 0 { common::FLAG_WINDOW } else { 0 };
        let mut words: BlockRecord = [0; common::WORDS];
        words[common::SIZE] = size;
        words[common::FLAGS] = flags >> 32 << 32 | live | window;
        words[common::STACK] = lower(stack);
        words[common::TIME] = time;
        (address != 0).then_some(Self::Block(address, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each of them alone, in this process's memory.
    #[test]
    fn a_glance_sees_what_may_be_a_finding() {
        const CANARY: u64 = 0x50;
        let glance = |address: u64, flags: u64| {
            let record: [u64; block::WORDS] = [address, 8, flags, 0, 0, 0, 0, 0];
            let start = record.as_ptr() as u64;
            let ledger = Ledger { control: Vec::new(), reader: nix::unistd::getpid() };
            let of_it = start..start + RECORD;
            let (may_be, canary) = ledger.glance(std::slice::from_ref(&of_it), Some(CANARY));
            (may_be, canary.map(|record| record[common::FLAGS]))
        };
        let (live, window) = (block::LIVE, block::WINDOW);
        assert_eq!(glance(0x10, live | window), (true, None));
        assert_eq!(glance(0x10, live), (false, None));
        assert_eq!(glance(0x10, window), (false, None));
        assert_eq!(glance(0, 0), (false, None));
        assert_eq!(glance(0x10, block::BAD_FREE), (true, None));
        assert_eq!(glance(CANARY, block::BAD_FREE | block::DOUBLE), (true, None));
        assert_eq!(glance(CANARY, live | window), (false, Some(common::FLAG_LIVE | common::FLAG_WINDOW)));
        assert_eq!(glance(CANARY, 0), (false, None), "it was freed");
    }

    #[test]
    fn records_are_shared_evenly() {
        let range = |start: u64, records: u64| start..start + records * RECORD;
        let all = [range(0x1000, 1), range(0x8000, 2), range(0x4000, 4)];
        let (first, later) = (vec![range(0x1000, 1), range(0x8000, 2)], vec![range(0x4000, 4)]);
        assert_eq!(halves(&all), [first, later]);
        assert_eq!(halves(&all[2..]), [vec![range(0x4000, 2)], vec![range(0x4000 + 2 * RECORD, 2)]]);
        assert_eq!(halves(&[range(0x4000, 1)]), [vec![], vec![range(0x4000, 1)]]);
        assert_eq!(halves(&[]), [vec![], vec![]]);
    }
}
