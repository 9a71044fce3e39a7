//! References to blocks: a graph in compressed rows, 4 bytes a reference.

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
}

impl References {
    /// Adds one of a block; blocks come in their order.
    pub fn push(&mut self, block: usize, reference: Reference) {
        if self.ends.len() <= block {
            self.ends.resize(block + 1, self.all.len() as u64);
        }
        self.all.push(reference);
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
    }

    /// Those of a block, by their places in it.
    pub fn of(&self, block: usize) -> &[Reference] {
        let end = |block: usize| self.ends.get(block).map(|end| *end as usize);
        let start = if block == 0 { 0 } else { end(block - 1).unwrap_or(self.all.len()) };
        &self.all[start..end(block).unwrap_or(self.all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_and_appended() {
        let reference = |block| Reference::new(block, block == 7);
        let mut first = References::default();
        first.push(1, reference(5));
        first.push(1, reference(6));
        let mut later = References::default();
        later.push(3, reference(7));
        for mut whole in [first.clone(), References::default()] {
            let had = if whole == first { 2 } else { 0 };
            whole.append(later.clone());
            let counts: Vec<usize> = (0..6).map(|block| whole.of(block).len()).collect();
            assert_eq!(counts, [0, had, 0, 1, 0, 0]);
            assert!(whole.of(3)[0].is_disguised());
            assert_eq!(whole.of(3)[0].block(), 7);
        }
        assert_eq!(first.of(1), [reference(5), reference(6)]);
    }
}
