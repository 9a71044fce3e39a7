//! Finds the block at an address.

use crate::snapshot::Block;

/// Blocks whose starts are further apart than this go into different regions, so that the table of a
/// region stays in proportion to its blocks however far apart the heaps of a process are.
const REGION_GAP: u64 = 1 << 20;

/// The blocks' addresses, cut into regions of neighbours. Each region is cut into buckets about as
/// wide as its blocks are apart: a look-up is one read of the bucket table and a search among the few
/// blocks of a bucket.
pub(super) struct Index {
    /// Start and size of the blocks, ascending. A block of 0 bytes has size 1 here: its address is in it.
    blocks: Vec<(u64, u64)>,
    /// Lowest address in any block.
    low: u64,
    /// Bytes from there to the end of the last block.
    span: u64,
    regions: Vec<Region>,
    /// The tables of all regions: for each bucket the first block in or behind it, and one entry more.
    buckets: Vec<u32>,
}

struct Region {
    /// Start of the first block.
    start: u64,
    /// Width of a bucket, as a power of two.
    shift: u32,
    /// Where the region's table is, without the one entry more.
    table: std::ops::Range<usize>,
}

impl Index {
    /// `blocks` ascend and do not overlap; there are fewer than 2^32 of them.
    pub(super) fn new(blocks: &[Block]) -> Self {
        let blocks: Vec<_> = blocks.iter().map(|block| (block.address, block.size.max(1))).collect();
        let low = blocks.first().map_or(0, |first| first.0);
        let span = blocks.last().map_or(0, |last| last.0.saturating_add(last.1) - low);
        let mut index = Self { blocks, low, span, regions: Vec::new(), buckets: Vec::new() };
        let mut first = 0;
        for end in 1..=index.blocks.len() {
            if end == index.blocks.len() || index.blocks[end].0 - index.blocks[end - 1].0 > REGION_GAP {
                index.add_region(first, end);
                first = end;
            }
        }
        index
    }

    fn add_region(&mut self, first: usize, end: usize) {
        let members = &self.blocks[first..end];
        let start = members[0].0;
        let span = members[members.len() - 1].0 - start;
        let distance = span / members.len() as u64;
        let shift = u64::BITS - distance.leading_zeros();
        let table = self.buckets.len()..self.buckets.len() + (span >> shift) as usize + 1;
        let mut next = first;
        for bucket in 0..=table.len() as u64 {
            while next < end && (self.blocks[next].0 - start) >> shift < bucket {
                next += 1;
            }
            self.buckets.push(next as u32);
        }
        self.regions.push(Region { start, shift, table });
    }

    /// Whether an address is between the first and the last block: the quick answer for most words.
    #[inline]
    pub(super) fn is_near(&self, address: u64) -> bool {
        address.wrapping_sub(self.low) < self.span
    }

    /// The block that has a byte at this address, and its start.
    #[inline]
    pub(super) fn containing(&self, address: u64) -> Option<(usize, u64)> {
        if !self.is_near(address) {
            return None;
        }
        let block = self.last_from(address);
        let (start, size) = self.blocks[block];
        (address - start < size).then_some((block, start))
    }

    /// The block that starts at this address.
    #[inline]
    pub(super) fn starting_at(&self, address: u64) -> Option<usize> {
        self.containing(address).filter(|&(_, start)| start == address).map(|(block, _)| block)
    }

    /// The last block that starts at or before an address, which is not before the first block.
    fn last_from(&self, address: u64) -> usize {
        let region = &self.regions[self.regions.partition_point(|region| region.start <= address) - 1];
        let bucket = ((address - region.start) >> region.shift).min(region.table.len() as u64 - 1);
        let entry = region.table.start + bucket as usize;
        let (first, end) = (self.buckets[entry] as usize, self.buckets[entry + 1] as usize);
        first + self.blocks[first..end].partition_point(|block| block.0 <= address) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(ranges: &[(u64, u64)]) -> Vec<Block> {
        let block = |&(address, size)| Block {
            address,
            size,
            stack: None,
            in_window: true,
            runtime: false,
            time: 0,
            thread: 0,
        };
        ranges.iter().map(block).collect()
    }

    #[test]
    fn finds_what_a_plain_search_finds() {
        // Neighbours, a block wider than a region's gap, empty ones, and heaps 128 TiB apart.
        let mut ranges = vec![(0x1000, 8), (0x1008, 8), (0x1010, 0), (0x1018, 1), (0x5000, 3 << 20)];
        ranges.extend((0..100).map(|i| (0x5555_0000_0000 + i * i * 16, 16)));
        ranges.extend([(0x7fff_0000_0000, 1), (0x7fff_f000_0000, 0x1000)]);
        let index = Index::new(&blocks(&ranges));
        for &(start, size) in &ranges {
            for address in [start - 1, start, start + size / 2, start + size, start + size + 1, start + 4096]
            {
                let expected = ranges.iter().position(|&(s, n)| s <= address && address < s + n.max(1));
                assert_eq!(index.containing(address).map(|(block, _)| block), expected, "{address:#x}");
                let expected = ranges.iter().position(|&(s, _)| s == address);
                assert_eq!(index.starting_at(address), expected, "{address:#x}");
            }
        }
        assert_eq!(index.containing(0), None);
        assert_eq!(index.containing(u64::MAX), None);
    }

    #[test]
    fn no_blocks_no_answer() {
        assert_eq!(Index::new(&[]).containing(0), None);
    }
}
