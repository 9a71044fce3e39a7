//! References to blocks: a graph in compressed rows, 6 bytes a reference.

/// A reference to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference(u32);

impl Reference {
    /// One to the block with this number, which is below [`super::Blocks::MAX`].
    pub fn new(block: usize, disguised: bool) -> Self {
        Self((block as u32) << 1 | u32::from(disguised))
    }

    /// The block.
    pub fn block(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether a program must undo something to use it.
    pub fn is_disguised(self) -> bool {
        self.0 & 1 != 0
    }
}

/// What the contents of blocks refer to, in parts of [`References::PART`] blocks, which can be read at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References(Vec<Rows>);

/// What the contents of some blocks refer to, which are numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Where the references of each block end in `all`; of blocks behind the last that has any,
    /// nothing.
    ends: Vec<u64>,
    all: Vec<Reference>,
    /// For each of them the word of its block that it is, by its number; [`FAR`] for those further in, and for those
    /// that are no words of it.
    words: Vec<u16>,
}

/// The number of no word.
const FAR: u16 = u16::MAX;

impl Rows {
    /// Adds one of a block, which is so many bytes in; blocks come in their order.
    pub fn push(&mut self, block: usize, offset: u64, reference: Reference) {
        if self.ends.len() <= block {
            self.ends.resize(block + 1, self.all.len() as u64);
        }
        self.all.push(reference);
        let word = if offset.is_multiple_of(8) { u16::try_from(offset / 8).unwrap_or(FAR) } else { FAR };
        self.words.push(word);
        self.ends[block] = self.all.len() as u64;
    }

    fn row(&self, block: usize) -> std::ops::Range<usize> {
        let end = |block: usize| self.ends.get(block).map(|end| *end as usize);
        let start = if block == 0 { 0 } else { end(block - 1).unwrap_or(self.all.len()) };
        start..end(block).unwrap_or(self.all.len())
    }
}

impl References {
    /// Blocks of a part; the last one may have fewer. In tests few, so that those have several parts.
    pub const PART: usize = if cfg!(test) { 3 } else { 1 << 16 };

    /// Of all parts, in their order.
    pub fn of_parts(parts: Vec<Rows>) -> Self {
        Self(parts)
    }

    /// Those of a block, by their places in it.
    pub fn of(&self, block: usize) -> &[Reference] {
        self.row(block).map_or(&[], |(rows, row)| &rows.all[row])
    }

    /// How many bytes into a block the first word is that refers to another one, if that is known.
    pub fn offset(&self, block: usize, to: usize) -> Option<u64> {
        let place = self.of(block).iter().position(|reference| reference.block() == to)?;
        let (rows, row) = self.row(block)?;
        let word = rows.words[row][place];
        (word != FAR).then_some(u64::from(word) * 8)
    }

    fn row(&self, block: usize) -> Option<(&Rows, std::ops::Range<usize>)> {
        let rows = self.0.get(block / Self::PART)?;
        Some((rows, rows.row(block % Self::PART)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_their_parts() {
        let reference = |block| Reference::new(block, block == 7);
        let (mut first, mut later) = (Rows::default(), Rows::default());
        first.push(1, 16, reference(5));
        first.push(1, 20, reference(6));
        later.push(0, 8 << 16, reference(7));
        later.push(0, 8, reference(9));
        let part = References::PART;
        let whole = References::of_parts(vec![first, Rows::default(), later]);
        let counts: Vec<usize> = (0..4 * part).map(|block| whole.of(block).len()).collect();
        let mut expected = vec![0; 4 * part];
        (expected[1], expected[2 * part]) = (2, 2);
        assert_eq!(counts, expected);
        let last = whole.of(2 * part)[0];
        assert_eq!((last.block(), last.is_disguised()), (7, true));
        // Too far in, there, and not at all.
        assert_eq!([7, 9, 5].map(|to| whole.offset(2 * part, to)), [None, Some(8), None]);
        assert_eq!([5, 6].map(|to| whole.offset(1, to)), [Some(16), None]);
    }
}
