//! Memory that the allocator uses: no root, for free memory holds stale words.

use std::ops::Range;

use nix::unistd::Pid;

use super::layout::overlap;
use crate::snapshot::{Blocks, Mapping};
use crate::trace::read_word;

/// glibc's other arenas than the first start at multiples of this (malloc/arena.c, `HEAP_MAX_SIZE`).
const ARENA: u64 = 64 << 20;

/// Addresses that were ever allocated.
pub struct Addresses<'a> {
    /// Those that still are, in ascending order.
    pub blocks: &'a Blocks,
    /// Those that are not any more, in ascending order.
    pub freed: &'a [u64],
    /// The canary's.
    pub canary: Option<u64>,
    /// All memory that they ever were, where that is asked for.
    pub ranges: &'a [Range<u64>],
}

impl Addresses<'_> {
    /// The first one from `start` on, and whether it is allocated.
    fn from(&self, start: u64) -> Option<(u64, bool)> {
        let places = self.blocks.places();
        let block = places.get(places.partition_point(|place| place.start < start)).map(|place| place.start);
        let freed = self.freed.get(self.freed.partition_point(|address| *address < start)).copied();
        let canary = self.canary.filter(|address| *address >= start);
        let live = block.into_iter().chain(canary).min();
        match (live, freed) {
            (Some(live), Some(freed)) if freed < live => Some((freed, false)),
            (Some(live), _) => Some((live, true)),
            (None, freed) => Some((freed?, false)),
        }
    }
}

/// The parts of a mapping that the allocator uses: chunks that it mapped one by one, and arenas.
pub fn allocator_parts(reader: Pid, mapping: &Mapping, addresses: &Addresses<'_>) -> Vec<Range<u64>> {
    const MAPPED: u64 = 2;
    const OTHER_ARENA: u64 = 4;
    if !mapping.path.is_empty() {
        return Vec::new();
    }
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut next = mapping.range.start;
    loop {
        let Some((address, live)) = addresses.from(next).filter(|(address, _)| *address < mapping.range.end)
        else {
            return parts;
        };
        // malloc/malloc.c: a chunk's size is in front of it, and the unused part before an aligned
        // mapped chunk in front of that.
        let header = address
            .checked_sub(16)
            .and_then(|header| Some((header, read_word(reader, header)?, read_word(reader, header + 8)?)));
        let part = match header {
            Some((header, before, size)) if size & MAPPED != 0 && size & !7 < mapping.range.end => {
                header.saturating_sub(before)..header.saturating_add(size & !7)
            }
            // A block that is gone may have taken its mapping along, and this is what came there since.
            Some((_, _, size)) if !live && size & OTHER_ARENA == 0 => {
                next = address + 1;
                continue;
            }
            _ => address / ARENA * ARENA..(address / ARENA + 1) * ARENA,
        };
        let part = overlap(&part, &mapping.range).unwrap_or(address..address + 1);
        next = part.end.max(address + 1);
        parts.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Block;

    #[test]
    fn the_next_address_is_allocated_if_any_there_is() {
        let block =
            |address| Block { address, size: 8, stack: None, in_window: true, runtime: false, time: 0 };
        let blocks = [block(0x20), block(0x40)].into_iter().collect();
        // 0x40 was freed, and is the rest of a `realloc` that was cut short.
        let addresses =
            Addresses { blocks: &blocks, freed: &[0x10, 0x30, 0x40], canary: Some(0x50), ranges: &[] };
        let all = [(0x10, false), (0x20, true), (0x30, false), (0x40, true), (0x50, true)];
        let mut start = 0;
        for expected in all {
            assert_eq!(addresses.from(start), Some(expected));
            start = expected.0 + 1;
        }
        assert_eq!(addresses.from(start), None);
    }
}
