//! Finds the block at an address.

use std::ops::Range;

use crate::snapshot::Place;

/// Blocks whose starts are further apart than this go into different regions, so that the table of a
/// region stays in proportion to its blocks however far apart the heaps of a process are.
const REGION_GAP: u64 = 1 << 20;

/// The blocks' places, cut into regions of neighbours. Each region is cut into buckets about as wide as
/// its blocks are apart: a look-up is one read of the bucket table and a search among the few
/// blocks of a bucket.
pub(super) struct Index<'a> {
    places: &'a [Place],
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
    table: Range<usize>,
}

/// Where to search for an address: the blocks of its bucket.
#[derive(Clone, Copy, Default)]
pub(super) struct Spot {
    first: u32,
    end: u32,
}

impl<'a> Index<'a> {
    /// `places` ascend and do not overlap; there are fewer than 2^32 of them.
    pub(super) fn new(places: &'a [Place]) -> Self {
        let mut index = Self { places, regions: Vec::new(), buckets: Vec::new() };
        let mut first = 0;
        for end in 1..=places.len() {
            if end == places.len() || places[end].start - places[end - 1].start > REGION_GAP {
                index.add_region(first, end);
                first = end;
            }
        }
        index
    }

    fn add_region(&mut self, first: usize, end: usize) {
        let members = &self.places[first..end];
        let start = members[0].start;
        let span = members[members.len() - 1].start - start;
        let distance = span / members.len() as u64;
        let shift = u64::BITS - distance.leading_zeros();
        let table = self.buckets.len()..self.buckets.len() + (span >> shift) as usize + 1;
        // A bucket without blocks has the next one's first; so has the entry behind the last.
        for (block, place) in (first..).zip(members) {
            let bucket = table.start + ((place.start - start) >> shift) as usize;
            if self.buckets.len() <= bucket {
                self.buckets.resize(bucket + 1, block as u32);
            }
        }
        self.buckets.push(end as u32);
        self.regions.push(Region { start, shift, table });
    }

    /// Where to search for an address.
    #[inline]
    pub(super) fn spot(&self, address: u64) -> Spot {
        let after = self.regions.partition_point(|region| region.start <= address);
        let Some(region) = after.checked_sub(1).map(|region| &self.regions[region]) else {
            return Spot::default();
        };
        let bucket = ((address - region.start) >> region.shift).min(region.table.len() as u64 - 1);
        let entry = region.table.start + bucket as usize;
        Spot { first: self.buckets[entry], end: self.buckets[entry + 1] }
    }

    /// Brings what a search looks at into the cache: a processor waits for all of it at once.
    #[inline]
    pub(super) fn touch(&self, spots: &[Spot]) {
        let starts =
            spots.iter().map(|spot| self.places.get(spot.first as usize).map_or(0, |place| place.start));
        std::hint::black_box(starts.fold(0, |all, start| all ^ start));
    }

    /// The block that has a byte at an address, whose spot is given.
    #[inline]
    pub(super) fn containing(&self, spot: Spot, address: u64) -> Option<usize> {
        let members = &self.places[spot.first as usize..spot.end as usize];
        let after = spot.first as usize + members.partition_point(|place| place.start <= address);
        after.checked_sub(1).filter(|block| self.places[*block].has(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_plain_search_finds() {
        // Neighbours, a block wider than a region's gap, empty ones, and heaps 128 TiB apart.
        let mut ranges = vec![(0x1000, 8), (0x1008, 8), (0x1010, 0), (0x1018, 1), (0x5000, 3 << 20)];
        ranges.extend((0..100).map(|i| (0x5555_0000_0000 + i * i * 16, 16)));
        ranges.extend([(0x7fff_0000_0000, 1), (0x7fff_f000_0000, 0x1000)]);
        let places: Vec<Place> = ranges.iter().map(|&(start, size)| Place { start, size }).collect();
        let index = Index::new(&places);
        let found = |address| index.containing(index.spot(address), address);
        for &(start, size) in &ranges {
            for address in [start - 1, start, start + size / 2, start + size, start + size + 1, start + 4096]
            {
                let expected = ranges.iter().position(|&(s, n)| s <= address && address < s + n.max(1));
                assert_eq!(found(address), expected, "{address:#x}");
            }
        }
        assert_eq!(found(0), None);
        assert_eq!(found(u64::MAX), None);
    }

    #[test]
    fn no_blocks_no_answer() {
        let index = Index::new(&[]);
        assert_eq!(index.containing(index.spot(0), 0), None);
    }
}
