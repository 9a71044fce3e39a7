//! What the ledger's call stacks say of the peak (see [`by_stack`](crate::layout::by_stack)).

use crate::layout::{MAX_FRAMES, stack};

/// What was alive of a call stack at the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtPeak {
    /// The place of the stack's first word.
    pub place: usize,
    /// Bytes that were alive.
    pub bytes: u64,
    /// In how many blocks.
    pub blocks: u64,
}

/// Of the call stacks in words from a record's beginning on, as far as they are records; `maxima` is the number of the last
/// maximum, which was the peak.
pub fn at_peak(words: &[u64], maxima: u64) -> impl Iterator<Item = AtPeak> {
    let mut place = 0;
    std::iter::from_fn(move || {
        // What is left of a chunk that the next record did not fit into is zeros.
        let frames = usize::try_from(*words.get(place + stack::COUNT)?).ok()?;
        let behind = stack::FRAMES + frames;
        let found =
            (1..=MAX_FRAMES).contains(&frames).then(|| words.get(place..)?.get(behind..)).flatten()?;
        let &[bytes, blocks, old_bytes, old_blocks, maximum, ..] = found else { return None };
        let (bytes, blocks) = if maximum == maxima { (old_bytes, old_blocks) } else { (bytes, blocks) };
        let at = AtPeak { place, bytes, blocks };
        place += behind + stack::BEHIND;
        Some(at)
    })
}

const _: () = assert!(
    stack::BYTES == 0
        && stack::BLOCKS == 1
        && stack::OLD_BYTES == 2
        && stack::OLD_BLOCKS == 3
        && stack::MAXIMUM == 4
        && stack::BEHIND == 5
);
