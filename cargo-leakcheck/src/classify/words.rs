//! Reads memory as references to blocks.
//!
//! A reference is *disguised* when it is
//! - an aligned word in a block with any of its low 3 bits set that is, without them, the start of
//!   that block (a tag is smaller than the alignment, and that is no larger than the block),
//! - an aligned word whose upper 16 bits do not continue bit 47, which no address has, and whose lower
//!   48 bits are an address in a block, or the start of one but for the low 3 bits,
//! - a word at an unaligned place that is the start of a block (packed structures).
//!
//! Any other aligned word with an address in a block is a *full* reference.

use super::index::Index;
use crate::snapshot::{Block, Memory, Root, Snapshot};

/// Bytes of a word and of its alignment.
const WORD: usize = size_of::<u64>();
/// Bits below a pointer's alignment, free for tags.
const LOW_TAG: u64 = 7;
/// Bits of an address.
const ADDRESS_BITS: u32 = 48;

/// A snapshot's memory, read word by word.
pub(super) struct Words<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) roots: &'a [Root],
    heap: &'a [Memory],
    index: Index,
}

/// Bytes and the address they were at.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    address: u64,
    bytes: &'a [u8],
}

impl<'a> From<&'a Memory> for Bytes<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self { address: memory.address, bytes: &memory.bytes }
    }
}

impl<'a> Words<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let Snapshot { blocks, roots, heap, .. } = snapshot;
        Self { blocks, roots, heap, index: Index::new(blocks) }
    }

    /// The contents of a block, in pieces where neighbouring memory was copied in pieces; what was not
    /// copied is left out.
    pub(super) fn contents(&self, block: usize) -> impl Iterator<Item = Bytes<'a>> + use<'a> {
        let Block { address, size, .. } = self.blocks[block];
        let end = address.saturating_add(size);
        let first = self.heap.partition_point(|memory| memory.address + memory.bytes.len() as u64 <= address);
        self.heap[first..].iter().take_while(move |memory| memory.address < end).map(move |memory| {
            let from = address.saturating_sub(memory.address) as usize;
            let to = memory.bytes.len().min((end - memory.address) as usize);
            Bytes { address: memory.address + from as u64, bytes: &memory.bytes[from..to] }
        })
    }

    /// Calls `found` with the target of each full reference.
    pub(super) fn full(&self, memory: Bytes<'_>, mut found: impl FnMut(usize)) {
        for word in aligned(memory) {
            if let Some((block, start)) = self.index.containing(word)
                && !is_tagged(word, start)
            {
                found(block);
            }
        }
    }

    /// Calls `found` with the target of each reference, full or disguised.
    pub(super) fn any(&self, memory: Bytes<'_>, mut found: impl FnMut(usize)) {
        for word in aligned(memory) {
            if let Some((block, _)) = self.index.containing(word) {
                found(block);
            } else if let Some(address) = without_high_tag(word) {
                let block = self.index.containing(address).map(|(block, _)| block);
                block.or_else(|| self.index.starting_at(address & !LOW_TAG)).into_iter().for_each(&mut found);
            }
        }
        // Eight times as many words: the order of the tests matters.
        for (offset, bytes) in memory.bytes.array_windows::<WORD>().enumerate() {
            let word = u64::from_le_bytes(*bytes);
            if self.index.is_near(word)
                && !(memory.address + offset as u64).is_multiple_of(WORD as u64)
                && let Some(block) = self.index.starting_at(word)
            {
                found(block);
            }
        }
    }
}

/// Whether an address in a block is its start with a tag in the low bits.
fn is_tagged(address: u64, start: u64) -> bool {
    address != start && address & !LOW_TAG == start
}

/// The address in the lower bits of a word that is no address as a whole.
fn without_high_tag(word: u64) -> Option<u64> {
    let unused = u64::BITS - ADDRESS_BITS;
    let continued = ((word << unused) as i64 >> unused) as u64;
    (word != continued).then_some(word << unused >> unused)
}

fn aligned(memory: Bytes<'_>) -> impl Iterator<Item = u64> {
    let skip = (memory.address.wrapping_neg() % WORD as u64) as usize;
    let (words, _) = memory.bytes.get(skip..).unwrap_or_default().as_chunks::<WORD>();
    words.iter().map(|&bytes| u64::from_le_bytes(bytes))
}
