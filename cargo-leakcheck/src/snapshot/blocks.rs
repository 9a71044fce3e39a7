//! Blocks in columns: 29 bytes a block, however many there are.

/// An allocated block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address the allocator returned.
    pub address: u64,
    /// Requested size in bytes; may be 0.
    pub size: u64,
    /// Index of its call stack; none outside the window, or when the stack was lost.
    pub stack: Option<usize>,
    /// Whether it was allocated inside the window and counts.
    pub in_window: bool,
    /// Owned by the C library or the loader for a thread's own needs (the dtv): never a finding.
    pub runtime: bool,
    /// Order of allocation, by the clock of the recorder: nanoseconds of `CLOCK_MONOTONIC`, or the time
    /// stamp counter.
    pub time: u64,
}

const IN_WINDOW: u8 = 1;
const RUNTIME: u8 = 2;
/// The number of no call stack.
const NO_STACK: u32 = u32::MAX;

/// Blocks, numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    places: Vec<Place>,
    times: Vec<u64>,
    stacks: Vec<u32>,
    flags: Vec<u8>,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub start: u64,
    /// Its size in bytes; may be 0.
    pub size: u64,
}

impl Place {
    /// Behind its last byte.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Whether an address is in it. A block of 0 bytes has its own address in it.
    pub fn has(self, address: u64) -> bool {
        address >= self.start && address - self.start < self.size.max(1)
    }
}

impl Blocks {
    /// Blocks that have a number at most, so that a reference to one, with a bit of its own, fits into
    /// 32 bits.
    pub const MAX: usize = (u32::MAX >> 1) as usize;

    /// Adds a block; whether it has found a number.
    #[must_use]
    pub fn push(&mut self, block: &Block) -> bool {
        if self.len() == Self::MAX {
            return false;
        }
        self.places.push(Place { start: block.address, size: block.size });
        self.times.push(block.time);
        self.stacks.push(block.stack.and_then(|stack| u32::try_from(stack).ok()).unwrap_or(NO_STACK));
        let flag = |set, flag| if set { flag } else { 0 };
        self.flags.push(flag(block.in_window, IN_WINDOW) | flag(block.runtime, RUNTIME));
        true
    }

    /// Adds others; how many of them have found no number.
    #[must_use]
    pub fn append(&mut self, mut others: Self) -> u64 {
        let room = Self::MAX - self.len();
        let over = others.len().saturating_sub(room);
        self.places.extend(others.places.drain(..).take(room));
        self.times.extend(others.times.drain(..).take(room));
        self.stacks.extend(others.stacks.drain(..).take(room));
        self.flags.extend(others.flags.drain(..).take(room));
        over as u64
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where they are, in their order.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The call stack of a block.
    pub fn stack(&self, block: usize) -> Option<usize> {
        Some(self.stacks[block]).filter(|stack| *stack != NO_STACK).map(|stack| stack as usize)
    }

    /// When a block was allocated.
    pub fn time(&self, block: usize) -> u64 {
        self.times[block]
    }

    /// Whether a block can be a finding.
    pub fn is_reported(&self, block: usize) -> bool {
        self.flags[block] == IN_WINDOW
    }

    /// Whether any was allocated inside the window.
    pub fn any_in_window(&self) -> bool {
        self.flags.iter().any(|flags| flags & IN_WINDOW != 0)
    }

    /// Whether any can be a finding.
    pub fn any_reported(&self) -> bool {
        self.flags.contains(&IN_WINDOW)
    }

    /// Says that a block is the C library's own.
    pub fn set_runtime(&mut self, block: usize) {
        self.flags[block] |= RUNTIME;
    }

    /// Gives every block another call stack.
    pub fn map_stacks(&mut self, stack: impl Fn(usize) -> Option<usize>) {
        for old in self.stacks.iter_mut().filter(|old| **old != NO_STACK) {
            *old = stack(*old as usize).map_or(NO_STACK, |new| new as u32);
        }
    }

    /// Forgets the blocks of some call stacks; where they were.
    pub fn forget(&mut self, is_forgotten: impl Fn(usize) -> bool) -> Vec<Place> {
        let is_kept = |stack: &u32| *stack == NO_STACK || !is_forgotten(*stack as usize);
        let kept: Vec<bool> = self.stacks.iter().map(is_kept).collect();
        let forgotten = self.places.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(place, _)| *place);
        let forgotten = forgotten.collect();
        keep(&mut self.places, &kept);
        keep(&mut self.times, &kept);
        keep(&mut self.stacks, &kept);
        keep(&mut self.flags, &kept);
        forgotten
    }

    /// Brings them into ascending order; of several at one address the last one added remains.
    pub fn sort(&mut self) {
        if self.move_runs() {
            return;
        }
        let mut order: Vec<(u64, u32)> = self.places.iter().map(|place| place.start).zip(0..).collect();
        // Allocators hand out ascending addresses for long: the runs are there already.
        order.sort_by_key(|(address, _)| *address);
        order.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                *kept = *next;
            }
            same
        });
        reorder(&mut self.places, &order);
        reorder(&mut self.times, &order);
        reorder(&mut self.stacks, &order);
        reorder(&mut self.flags, &order);
    }

    /// Moves ascending runs to where they belong, if there are few and each has a place between two
    /// others; whether that is all there was to do. It takes no memory.
    fn move_runs(&mut self) -> bool {
        const FEW: usize = 16;
        let mut begin = 0;
        for _ in 0..FEW {
            let ascends = |pair: &[Place]| pair[0].start < pair[1].start;
            let run = self.places[begin..].windows(2).position(|pair| !ascends(pair));
            let end = run.map_or(self.len(), |last| begin + last + 1);
            if let (Some(first), Some(last)) = (self.places.get(begin), self.places[..end].last()) {
                let to = self.places[..begin].partition_point(|place| place.start < first.start);
                if to < begin && self.places[to].start <= last.start {
                    return false;
                }
                let length = end - begin;
                self.places[to..end].rotate_right(length);
                self.times[to..end].rotate_right(length);
                self.stacks[to..end].rotate_right(length);
                self.flags[to..end].rotate_right(length);
            }
            if end == self.len() {
                return true;
            }
            begin = end;
        }
        false
    }

    /// The block that starts at an address, where they ascend.
    pub fn starting_at(&self, address: u64) -> Option<usize> {
        self.places.binary_search_by_key(&address, |place| place.start).ok()
    }

    /// The block that an address lies in, where they ascend.
    pub fn containing(&self, address: u64) -> Option<usize> {
        let after = self.places.partition_point(|place| place.start <= address);
        after.checked_sub(1).filter(|block| self.places[*block].has(address))
    }
}

fn keep<T>(column: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    column.retain(|_| kept.next().is_none_or(|kept| *kept));
}

fn reorder<T: Copy>(column: &mut Vec<T>, order: &[(u64, u32)]) {
    *column = order.iter().map(|(_, place)| column[*place as usize]).collect();
}

impl FromIterator<Block> for Blocks {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> Self {
        let mut all = Self::default();
        blocks.into_iter().for_each(|block| assert!(all.push(&block), "more than {} blocks", Self::MAX));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: u64, time: u64) -> Block {
        Block { address, size: 8, stack: Some(time as usize), in_window: time != 3, runtime: false, time }
    }

    #[test]
    fn all_columns_are_sorted_and_the_last_of_an_address_remains() {
        let sorted = |given: &[Block]| {
            let mut blocks: Blocks = given.iter().cloned().collect();
            blocks.sort();
            blocks
        };
        let given = [block(0x50, 1), block(0x10, 2), block(0x20, 3), block(0x10, 4), block(0x60, 5)];
        let blocks = sorted(&given);
        let expected = [block(0x10, 4), block(0x20, 3), block(0x50, 1), block(0x60, 5)];
        assert_eq!(blocks, expected.iter().cloned().collect());
        // Runs that fit between others, and one that does not.
        let [a, b, c, d] = expected;
        for given in
            [[&c, &d, &a, &b], [&d, &a, &b, &c], [&a, &c, &b, &d], [&b, &d, &a, &c], [&d, &c, &b, &a]]
        {
            assert_eq!(sorted(&given.map(Clone::clone)), blocks);
        }
        assert_eq!(blocks.starting_at(0x20), Some(1));
        assert_eq!(blocks.containing(0x57), Some(2));
        assert_eq!(blocks.containing(0x58), None);
        assert!(blocks.is_reported(0) && !blocks.is_reported(1));
    }

    #[test]
    fn blocks_are_added_behind_others() {
        let all: Vec<Block> = (1..6).map(|n| block(n << 4, n)).collect();
        for middle in [0, 2, 5] {
            let [mut first, later]: [Blocks; 2] =
                [&all[..middle], &all[middle..]].map(|part| part.iter().cloned().collect());
            assert_eq!(first.append(later), 0);
            assert_eq!(first, all.iter().cloned().collect());
        }
    }

    #[test]
    fn blocks_of_some_call_stacks_are_forgotten() {
        let none = Block { stack: None, ..block(0x60, 9) };
        let all = [block(0x10, 1), block(0x20, 2), block(0x30, 1), block(0x40, 4), none.clone()];
        let mut blocks: Blocks = all.iter().cloned().collect();
        let places = [0x10, 0x30].map(|start| Place { start, size: 8 });
        assert_eq!(blocks.forget(|stack| stack == 1), places);
        assert_eq!(blocks, [block(0x20, 2), block(0x40, 4), none].into_iter().collect());
    }

    #[test]
    fn a_block_without_bytes_has_its_address() {
        let place = Place { start: 0x10, size: 0 };
        assert!(place.has(0x10) && !place.has(0x11) && !place.has(0xf));
        assert!(!Place { start: u64::MAX - 1, size: u64::MAX }.has(0));
    }
}
