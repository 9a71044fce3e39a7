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

/// What the contents of blocks refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
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

impl References {
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

    /// Adds those of later blocks.
    pub fn append(&mut self, later: Self) {
        if self.all.is_empty() {
            *self = later;
            return;
        }
        let before = self.all.len() as u64;
        let first = self.ends.len();
        self.ends.extend(later.ends.iter().skip(first).map(|end| end + before));
        self.all.extend(later.all);
        self.words.extend(later.words);
    }

    /// Those of a block, by their places in it.
    pub fn of(&self, block: usize) -> &[Reference] {
        &self.all[self.row(block)]
    }

    /// How many bytes into a block the first word is that refers to another one, if that is known.
    pub fn offset(&self, block: usize, to: usize) -> Option<u64> {
        let place = self.of(block).iter().position(|reference| reference.block() == to)?;
        let word = self.words[self.row(block)][place];
        (word != FAR).then_some(u64::from(word) * 8)
    }

    fn row(&self, block: usize) -> std::ops::Range<usize> {
        let end = |block: usize| self.ends.get(block).map(|end| *end as usize);
        let start = if block == 0 { 0 } else { end(block - 1).unwrap_or(self.all.len()) };
        start..end(block).unwrap_or(self.all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_and_appended() {
        let reference = |block| Reference::new(block, block == 7);
        let mut first = References::default();
        first.push(1, 16, reference(5));
        first.push(1, 20, reference(6));
        let mut later = References::default();
        later.push(3, 8 << 16, reference(7));
        later.push(3, 8, reference(9));
        for mut whole in [first.clone(), References::default()] {
            let had = if whole == first { 2 } else { 0 };
            whole.append(later.clone());
            let counts: Vec<usize> = (0..6).map(|block| whole.of(block).len()).collect();
            assert_eq!(counts, [0, had, 0, 2, 0, 0]);
            assert!(whole.of(3)[0].is_disguised());
            assert_eq!(whole.of(3)[0].block(), 7);
            // Too far in, and there.
            assert_eq!([7, 9, 5].map(|to| whole.offset(3, to)), [None, Some(8), None]);
        }
        assert_eq!(first.of(1), [reference(5), reference(6)]);
        assert_eq!([5, 6].map(|to| first.offset(1, to)), [Some(16), None]);
    }
}
