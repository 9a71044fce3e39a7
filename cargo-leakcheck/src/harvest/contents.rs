//! Reads what blocks refer to, once and in the order of their addresses, without keeping what they
//! hold.

use std::ops::Range;

use nix::unistd::Pid;

use super::pages::Pages;
use crate::references::{Contents, Finder};
use crate::snapshot::{Blocks, Loss, Place, References};

/// Blocks closer to each other than this are read together.
const GAP: u64 = 4096;
/// Half of so many bytes is worth a thread.
const WORTH_SHARING: u64 = 32 << 20;

/// The references in all blocks; also what of their memory could not be read.
pub fn read(reader: Pid, blocks: &Blocks, finder: &Finder<'_>) -> (References, Vec<Loss>) {
    let places = blocks.places();
    let half = half(places);
    let one = |blocks: Range<usize>| read_some(reader, places, blocks, finder);
    std::thread::scope(|scope| {
        let later = (half < places.len()).then(|| scope.spawn(|| one(half..places.len())));
        let (mut references, mut unread) = one(0..half);
        if let Some(later) = later {
            let later = later.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            references.append(later.0);
            unread.extend(later.1);
        }
        (references, unread)
    })
}

/// The first block that another thread reads; none where it is not worth it.
fn half(places: &[Place]) -> usize {
    let sizes = || places.iter().map(|place| place.size);
    let total = sizes().fold(0, u64::saturating_add);
    if total < WORTH_SHARING {
        return places.len();
    }
    let mut before = 0_u64;
    let half = sizes().position(|size| {
        before = before.saturating_add(size);
        before >= total / 2
    });
    half.unwrap_or(places.len())
}

fn read_some(
    reader: Pid,
    places: &[Place],
    blocks: Range<usize>,
    finder: &Finder<'_>,
) -> (References, Vec<Loss>) {
    let mut pages = Pages::of(reader);
    let mut contents = Contents::from(finder, blocks.start);
    let mut unread = Vec::new();
    let mut read = |range: Range<u64>| {
        if let Some(missing) = pages.read(&range, |address, bytes| contents.read(address, bytes)) {
            let bytes = missing.end - missing.start;
            unread.push(Loss::Memory { address: missing.start, bytes, name: "heap".into() });
        }
    };
    let mut range = 0..0_u64;
    for place in &places[blocks] {
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
    fn work_is_shared_by_bytes() {
        let places =
            |sizes: &[u64]| -> Vec<Place> { sizes.iter().map(|&size| Place { start: 0, size }).collect() };
        assert_eq!(half(&places(&[100, 100])), 2);
        assert_eq!(half(&places(&[16 << 20, 1 << 20, 20 << 20, 1 << 20])), 2);
        assert_eq!(half(&places(&[u64::MAX, u64::MAX])), 0);
    }
}
