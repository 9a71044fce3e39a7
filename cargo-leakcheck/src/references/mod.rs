//! Which words of a process's memory are references to blocks. Pure: bytes in, references out.
//!
//! - A **full** reference is an aligned word with the address of any byte of a block. Inner pointers
//!   count: Rust has them everywhere (`Arc::into_raw`, slices, iterators). A block of size 0 is taken
//!   to have one byte. The address behind a block's last byte is no reference to it.
//! - A **disguised** reference is a word that a program must undo something to use:
//!   - an aligned word in a block with any of its low 3 bits set that is, without them, the start of
//!     that block (a tag is smaller than the alignment, and that is no larger than the block),
//!   - an aligned word whose upper 16 bits do not continue bit 47, which no address has, and whose lower
//!     48 bits are an address in a block, or the start of one but for the low 3 bits,
//!   - a word at an unaligned place that is the start of a block (packed structures).
//!
//! Memory is read once, in pieces that stay in the cache: `filter.rs` passes over what cannot be a
//! reference, `index.rs` finds the blocks of the rest. Many look-ups are made one after the other, with
//! nothing between them, so that the processor waits for what they read at once.

mod filter;
mod index;
mod pieces;

#[cfg(test)]
mod tests;

use crate::parallel;
use crate::snapshot::{Blocks, Place, Reference, References, Rows};
use filter::Filter;
use index::Index;
use pieces::Pieces;

/// Bytes of a word and of its alignment.
const WORD: usize = size_of::<u64>();
/// Bits below a pointer's alignment, free for tags.
const LOW_TAG: u64 = 7;
/// The bits of an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// Finds references to blocks, which ascend and do not overlap.
pub struct Finder<'a> {
    places: &'a [Place],
    filter: Filter,
    index: Index<'a>,
}

/// A word that may be a reference, and where it is.
#[derive(Clone, Copy, Default)]
struct Candidate {
    place: u64,
    word: u64,
}

impl Candidate {
    fn is_aligned(self) -> bool {
        self.place.is_multiple_of(WORD as u64)
    }

    /// What it refers to if it is a reference.
    fn address(self) -> u64 {
        if self.is_aligned() { self.word & ADDRESS } else { self.word }
    }
}

/// Candidates that are looked up together.
const BATCH: usize = 128;
/// So many blocks are worth a thread.
const WORTH_SHARING: usize = 1 << 20;

impl<'a> Finder<'a> {
    /// Prepares to find references to `blocks`.
    pub fn new(blocks: &'a Blocks) -> Self {
        let places = blocks.places();
        let (filter, index) =
            parallel::both(places.len() >= WORTH_SHARING, || Filter::new(places), || Index::new(places));
        Self { places, filter, index }
    }

    /// Calls `found` with the place of each reference in `bytes`, which are those at `address`; places
    /// ascend.
    fn references(&self, address: u64, bytes: &[u8], mut found: impl FnMut(u64, Reference)) {
        let mut batch = [Candidate::default(); BATCH];
        let mut count = 0;
        self.filter.candidates(address, bytes, |candidate| {
            batch[count] = candidate;
            count += 1;
            if count == BATCH {
                self.resolve(&batch, &mut found);
                count = 0;
            }
        });
        self.resolve(&batch[..count], &mut found);
    }

    fn resolve(&self, batch: &[Candidate], found: &mut impl FnMut(u64, Reference)) {
        let mut blocks = [None; BATCH];
        for (block, candidate) in blocks.iter_mut().zip(batch) {
            *block = self.index.containing(candidate.address());
        }
        for (block, candidate) in blocks.iter().zip(batch) {
            if let Some(reference) = self.reference(*candidate, *block) {
                found(candidate.place, reference);
            }
        }
    }

    /// What a candidate is, whose address is in `block`.
    fn reference(&self, candidate: Candidate, block: Option<usize>) -> Option<Reference> {
        let (word, address) = (candidate.word, candidate.address());
        if !candidate.is_aligned() {
            let block = block.filter(|block| self.places[*block].start == address)?;
            return Some(Reference::new(block, true));
        }
        if word == address {
            let block = block?;
            let is_tagged = address & LOW_TAG != 0 && address & !LOW_TAG == self.places[block].start;
            return Some(Reference::new(block, is_tagged));
        }
        // What continues bit 47 is an address of the kernel's.
        if word as i64 >> 47 == -1 {
            return None;
        }
        let block = block.or_else(|| self.index.starting_at(address & !LOW_TAG))?;
        Some(Reference::new(block, true))
    }
}

/// Reads the contents of a part of the blocks.
pub struct Contents<'a> {
    finder: &'a Finder<'a>,
    pieces: Pieces,
    places: &'a [Place],
    /// The first block that does not end before what was read.
    block: usize,
    rows: Rows,
}

impl<'a> Contents<'a> {
    /// Of the part with a number.
    pub fn of(finder: &'a Finder<'a>, part: usize) -> Self {
        let places = finder.places.chunks(References::PART).nth(part).unwrap_or_default();
        Self { finder, pieces: Pieces::default(), places, block: 0, rows: Rows::default() }
    }

    /// Reads the memory at an address; behind what was read before. What lies outside of the part's blocks may be
    /// among it, what is missing refers to nothing.
    pub fn read(&mut self, address: u64, bytes: &[u8]) {
        let Self { finder, pieces, places, block, rows } = self;
        pieces.read(address, bytes, |address, bytes| {
            finder.references(address, bytes, |place, reference| {
                while places.get(*block).is_some_and(|own| own.end() <= place) {
                    *block += 1;
                }
                if let Some(own) = places.get(*block)
                    && own.start <= place
                    && place + WORD as u64 <= own.end()
                {
                    rows.push(*block, place - own.start, reference);
                }
            });
        });
    }

    /// What they refer to.
    pub fn finish(self) -> Rows {
        self.rows
    }
}

/// Reads memory that is no block's.
pub struct Memory<'a> {
    finder: &'a Finder<'a>,
    pieces: Pieces,
    /// With the places of their words.
    references: Vec<(Reference, u64)>,
    /// Which of several places counts.
    which: Which,
}

/// Which of several places that refer to one block counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last: at the upper end of a stack are variables of the thread, in its frames copies of them.
    Last,
}

/// So many references are brought down to one of each.
const MANY: usize = 1 << 16;

impl<'a> Memory<'a> {
    /// Nothing read so far.
    pub fn new(finder: &'a Finder<'a>, which: Which) -> Self {
        Self { finder, pieces: Pieces::default(), references: Vec::new(), which }
    }

    /// Reads the memory at an address; behind what was read before.
    pub fn read(&mut self, address: u64, bytes: &[u8]) {
        let Self { finder, pieces, references, which } = self;
        pieces.read(address, bytes, |address, bytes| {
            finder.references(address, bytes, |place, reference| references.push((reference, place)));
        });
        if references.len() >= MANY && references.len() == references.capacity() {
            distinct(references, *which);
        }
    }

    /// What it refers to, each once, and where the word is that does.
    pub fn finish(mut self) -> (Vec<Reference>, Vec<u64>) {
        distinct(&mut self.references, self.which);
        self.references.into_iter().unzip()
    }
}

fn distinct(references: &mut Vec<(Reference, u64)>, which: Which) {
    references.sort_unstable();
    references.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same && which == Which::Last {
            *kept = *next;
        }
        is_same
    });
}
