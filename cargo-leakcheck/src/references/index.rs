//! Finds the block at an address.

use std::ops::Range;

use crate::snapshot::Place;

/// Blocks whose starts are further apart than this go into different regions, so that the table of a
/// region stays in proportion to its blocks however far apart the heaps of a process are.
const REGION_GAP: u64 = 1 << 20;

/// The blocks' places, cut into regions of neighbours. A look-up must not have to look at the places,
/// which are no longer in the cache when there are millions.
pub(super) struct Index<'a> {
    places: &'a [Place],
    regions: Vec<Region>,
    /// The tables of all regions with [`Table::Cells`].
    cells: Vec<Cell>,
    /// The tables of all regions with [`Table::Buckets`].
    buckets: Vec<u32>,
}

struct Region {
    /// Where the first cell or bucket begins: at or before the first block.
    start: u64,
    table: Table,
}

enum Table {
    /// For blocks that begin at multiples of [`GRAIN`], as those of most allocators do, and are not far
    /// apart: what is known of each grain.
    Cells(Range<usize>),
    /// For others: buckets about as wide as the blocks are apart. The table has for each bucket the first
    /// block in or behind it, and one entry more, which is not in the range.
    Buckets {
        /// Width of a bucket, as a power of two.
        shift: u32,
        entries: Range<usize>,
    },
}

/// What begins and what lies in so many bytes, a bit for each grain.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// A block begins with the grain.
    starts: u64,
    /// All of the grain is in a block.
    inside: u64,
    /// Blocks before the cell.
    before: u32,
}

/// Bytes of a grain, as a power of two: what glibc aligns blocks to.
const GRAIN: u32 = 4;
/// Bytes of a cell, as a power of two.
const CELL: u32 = GRAIN + u64::BITS.ilog2();
/// Bytes that a block may take on average for cells, which then take 12 bytes a block: further apart,
/// buckets are as fast.
const DENSE: u64 = 512;

impl<'a> Index<'a> {
    /// `places` ascend and do not overlap; there are fewer than 2^32 of them.
    pub(super) fn new(places: &'a [Place]) -> Self {
        let mut index = Self { places, regions: Vec::new(), cells: Vec::new(), buckets: Vec::new() };
        let mut first = 0;
        let mut aligned = true;
        for end in 1..=places.len() {
            aligned &= places[end - 1].start.is_multiple_of(1 << GRAIN);
            if end == places.len() || places[end].start - places[end - 1].start > REGION_GAP {
                let members = first..end;
                let span = places[end - 1].end() - places[first].start;
                let region = if aligned && span / members.len() as u64 <= DENSE {
                    index.cells(members, span)
                } else {
                    index.buckets(members)
                };
                index.regions.push(region);
                (first, aligned) = (end, true);
            }
        }
        index
    }

    fn cells(&mut self, members: Range<usize>, span: u64) -> Region {
        let start = self.places[members.start].start;
        let first = self.cells.len();
        let table = first..first + (span >> CELL) as usize + 1;
        self.cells.resize(table.end, Cell::default());
        let cells = &mut self.cells[first..];
        let place_of = |offset: u64| ((offset >> CELL) as usize, offset >> GRAIN & 63);
        for block in members.clone() {
            let (cell, bit) = place_of(self.places[block].start - start);
            cells[cell].starts |= 1 << bit;
            // A process that has written over its records may have blocks that overlap.
            let next = if block + 1 < members.end { self.places[block + 1].start } else { u64::MAX };
            let end = (self.places[block].end().min(next) - start) >> GRAIN << GRAIN;
            let mut from = self.places[block].start - start;
            while from < end {
                let (cell, bit) = place_of(from);
                let count = ((end - from) >> GRAIN).min(64 - bit);
                cells[cell].inside |= u64::MAX >> (64 - count) << bit;
                from += count << GRAIN;
            }
        }
        let mut before = members.start as u32;
        for cell in cells {
            cell.before = before;
            before += cell.starts.count_ones();
        }
        Region { start, table: Table::Cells(table) }
    }

    fn buckets(&mut self, members: Range<usize>) -> Region {
        let start = self.places[members.start].start;
        let span = self.places[members.end - 1].start - start;
        let distance = span / members.len() as u64;
        let shift = u64::BITS - distance.leading_zeros();
        let entries = self.buckets.len()..self.buckets.len() + (span >> shift) as usize + 1;
        // A bucket without blocks has the next one's first; so has the entry behind the last.
        for block in members.clone() {
            let bucket = entries.start + ((self.places[block].start - start) >> shift) as usize;
            if self.buckets.len() <= bucket {
                self.buckets.resize(bucket + 1, block as u32);
            }
        }
        self.buckets.push(members.end as u32);
        Region { start, table: Table::Buckets { shift, entries } }
    }

    /// The block that has a byte at an address.
    #[inline]
    pub(super) fn containing(&self, address: u64) -> Option<usize> {
        let after = self.regions.partition_point(|region| region.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        let offset = address - region.start;
        let after = match &region.table {
            Table::Cells(table) => {
                let cell = self.cells[table.clone()].get((offset >> CELL) as usize)?;
                let bit = offset >> GRAIN & 63;
                let after = cell.before + (cell.starts << (63 - bit)).count_ones();
                if cell.inside >> bit & 1 != 0 {
                    return Some(after as usize - 1);
                }
                after as usize
            }
            Table::Buckets { shift, entries } => {
                let bucket = ((offset >> shift) as usize).min(entries.len() - 1);
                let entry = entries.start + bucket;
                let (first, end) = (self.buckets[entry] as usize, self.buckets[entry + 1] as usize);
                first + self.places[first..end].partition_point(|place| place.start <= address)
            }
        };
        after.checked_sub(1).filter(|block| self.places[*block].has(address))
    }

    /// The block that starts at an address.
    #[inline]
    pub(super) fn starting_at(&self, address: u64) -> Option<usize> {
        self.containing(address).filter(|block| self.places[*block].start == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranges: &[(u64, u64)]) -> Vec<bool> {
        let places: Vec<Place> = ranges.iter().map(|&(start, size)| Place { start, size }).collect();
        let index = Index::new(&places);
        for &(start, size) in ranges {
            for address in (start - 17..start + 33).chain(start + size - 1..start + size + 17).chain([
                start + size / 2,
                start + 1024,
                start + 4096,
            ]) {
                let expected = ranges.iter().position(|&(s, n)| s <= address && address < s + n.max(1));
                assert_eq!(index.containing(address), expected, "{address:#x}");
                let expected = ranges.iter().position(|&(s, _)| s == address);
                assert_eq!(index.starting_at(address), expected, "{address:#x}");
            }
        }
        assert_eq!(index.containing(0), None);
        assert_eq!(index.containing(u64::MAX), None);
        index.regions.iter().map(|region| matches!(region.table, Table::Cells(_))).collect()
    }

    #[test]
    fn finds_what_a_plain_search_finds() {
        // Neighbours, a block wider than a region's gap, empty ones, and heaps 128 TiB apart.
        let mut ranges = vec![(0x1000, 8), (0x1008, 8), (0x1010, 0), (0x1018, 1), (0x5000, 3 << 20)];
        ranges.extend((0..100).map(|i| (0x5555_0000_0000 + i * i * 16, 16)));
        ranges.extend([(0x7fff_0000_0000, 1), (0x7fff_f000_0000, 0x1000)]);
        // Unaligned; too far apart on average; dense; too large.
        assert_eq!(check(&ranges), [false, false, true, false]);
    }

    #[test]
    fn finds_blocks_of_any_size_side_by_side() {
        let mut start = 0x1000_u64;
        let ranges: Vec<(u64, u64)> = (0..300)
            .map(|i: u64| {
                let range = (start, [24, 0, 16, 1, 1000, 64, 15, 3000, 33][i as usize % 9]);
                start = (start + range.1.max(1) + [0, 8][i as usize % 2]).next_multiple_of(16);
                range
            })
            .collect();
        assert_eq!(check(&ranges), [true]);
        let odd: Vec<(u64, u64)> = ranges.iter().map(|(start, size)| (start + 8, *size)).collect();
        assert_eq!(check(&odd), [false]);
    }

    #[test]
    fn no_blocks_no_answer() {
        assert_eq!(Index::new(&[]).containing(0), None);
    }
}
