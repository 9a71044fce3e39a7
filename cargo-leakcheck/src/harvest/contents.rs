//! Reads what blocks refer to, once and in the order of their addresses, without keeping what they
//! hold.

use std::cmp::Reverse;
use std::ops::Range;

use nix::unistd::Pid;

use super::pages::Pages;
use crate::parallel;
use crate::references::{Contents, Finder};
use crate::snapshot::{Blocks, Loss, Place, References, Rows};

/// Blocks closer to each other than this are read together.
const GAP: u64 = 4096;
/// Half of so many bytes is worth a thread.
const WORTH_SHARING: u64 = 32 << 20;

/// The references in all blocks; also what of their memory could not be read.
pub fn read(reader: Pid, blocks: &Blocks, finder: &Finder<'_>) -> (References, Vec<Loss>) {
    let (order, bytes) = largest_first(blocks.places());
    let jobs = if bytes < WORTH_SHARING { 1 } else { 2 };
    let mut parts: Vec<_> = parallel::map(&order, jobs, |&(part, places)| {
        let (rows, unread) = read_part(reader, places, Contents::of(finder, part));
        (part, rows, unread)
    });
    parts.sort_unstable_by_key(|(part, ..)| *part);
    let (rows, unread): (Vec<Rows>, Vec<_>) =
        parts.into_iter().map(|(_, rows, unread)| (rows, unread)).unzip();
    (References::of_parts(rows), unread.into_iter().flatten().collect())
}

/// The parts with their numbers, the largest first so that none is left to the end, and the bytes of all.
fn largest_first(places: &[Place]) -> (Vec<(usize, &[Place])>, u64) {
    let bytes = |places: &[Place]| places.iter().map(|place| place.size).fold(0, u64::saturating_add);
    let parts = places.chunks(References::PART).enumerate();
    let mut parts: Vec<_> = parts.map(|(part, places)| (bytes(places), part, places)).collect();
    let all = parts.iter().map(|(bytes, ..)| *bytes).fold(0, u64::saturating_add);
    parts.sort_by_key(|(bytes, ..)| Reverse(*bytes));
    (parts.into_iter().map(|(_, part, places)| (part, places)).collect(), all)
}

fn read_part(reader: Pid, places: &[Place], mut contents: Contents<'_>) -> (Rows, Vec<Loss>) {
    let mut pages = Pages::of(reader);
    let mut unread = Vec::new();
    let mut read = |range: Range<u64>| {
        if let Some(missing) = pages.read(&range, |address, bytes| contents.read(address, bytes)) {
            let bytes = missing.end - missing.start;
            unread.push(Loss::Memory { address: missing.start, bytes, name: "heap".into() });
        }
    };
    let mut range = 0..0_u64;
    for place in places {
        if place.start > range.end.saturating_add(GAP) {
            read(std::mem::replace(&mut range, place.start..place.end()));
        }
        range.end = range.end.max(place.end());
    }
    read(range);
    (contents.finish(), unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_is_the_first() {
        let sizes = [1, 1, 1, 0, 70, 0, 5, 5, 5, 9];
        let places = sizes.map(|size| Place { start: 0, size });
        let (parts, bytes) = largest_first(&places);
        let numbers: Vec<(usize, usize)> = parts.iter().map(|(part, places)| (*part, places.len())).collect();
        assert_eq!((numbers, bytes), (vec![(1, 3), (2, 3), (3, 1), (0, 3)], 97));
        assert_eq!(largest_first(&[u64::MAX; 2].map(|size| Place { start: 0, size })).1, u64::MAX);
    }
}
