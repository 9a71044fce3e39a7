//! glibc's main arena: the one part of static data that refers to the heap without keeping anything
//! alive. Its `top` points behind the last block, which may still be inside of it: a block may use
//! the first word of the next chunk's header.

/// Words in the arena's bin list (malloc/malloc.c, `NBINS * 2 - 2`).
const BINS: usize = 254;
/// Words of the arena before them: mutex, flags, ten fast bins, `top`, `last_remainder`.
const BEFORE: usize = 14;
/// An empty bin's two words point 16 bytes in front of themselves; most bins are empty, always.
const ENOUGH: usize = 48;

/// Blanks the main arena in the C library's static data, which starts at `address`.
pub fn blank(address: u64, bytes: &mut [u8]) {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8")))
        .collect();
    let is_empty_bin = |index: usize| {
        let own = (address + index as u64 * 8).wrapping_sub(16);
        words[index] == own && words.get(index + 1) == Some(&own)
    };
    let empty: Vec<usize> = (0..words.len()).filter(|index| is_empty_bin(*index)).collect();
    let Some(&last) = empty.last() else { return };
    let end = last + 2;
    let start = end.saturating_sub(BINS);
    if empty.iter().filter(|index| **index >= start).count() >= ENOUGH {
        let start = start.saturating_sub(BEFORE);
        bytes[start * 8..end * 8].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library's data: 100 words, the arena, 50 words; every word that is no empty bin is 7.
    fn data(address: u64, empty_bins: usize) -> Vec<u8> {
        let mut words = vec![7_u64; 100 + BEFORE + BINS + 50];
        let first = 100 + BEFORE;
        for bin in BINS / 2 - empty_bins..BINS / 2 {
            let index = first + bin * 2;
            words[index] = address + index as u64 * 8 - 16;
            words[index + 1] = words[index];
        }
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn the_arena_and_nothing_else_is_blanked() {
        let mut bytes = data(0x7000, 100);
        blank(0x7000, &mut bytes);
        let kept = |word: usize| bytes[word * 8] == 7;
        assert!(kept(99) && !kept(100) && !kept(100 + BEFORE) && !kept(100 + BEFORE + BINS - 1));
        assert!(kept(100 + BEFORE + BINS));
    }

    #[test]
    fn a_few_lists_that_are_empty_are_no_arena() {
        let mut bytes = data(0x7000, 20);
        let before = bytes.clone();
        blank(0x7000, &mut bytes);
        assert_eq!(bytes, before);
    }
}
