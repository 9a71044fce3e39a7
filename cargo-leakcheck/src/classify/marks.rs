//! What a test's code has said of blocks: which are ignored, with what hangs below them, and which are whose scope's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::model::InCode;
use crate::snapshot::{Marks, Snapshot};

/// What is said of a block: numbers in [`Marks::ignored`] and [`Marks::scopes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    ignored: Option<u32>,
    scope: Option<u32>,
}

/// What is said of the blocks of a snapshot.
pub(super) struct Marked<'a> {
    marks: &'a Marks,
    /// The blocks that are ignored, and by which of the places that say so.
    ignored: HashMap<usize, u32>,
}

impl<'a> Marked<'a> {
    /// All that full references lead to from an ignored block is ignored with it; of several places the first counts.
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let marks = &snapshot.marks;
        let mut ignored = HashMap::new();
        for (number, (block, _)) in (0..).zip(&marks.ignored) {
            let mut pending = vec![*block];
            while let Some(block) = pending.pop() {
                if let Entry::Vacant(entry) = ignored.entry(block) {
                    entry.insert(number);
                    let references = snapshot.references.of(block).iter();
                    let full = references.filter(|reference| !reference.is_disguised());
                    pending.extend(full.map(|reference| reference.block()));
                }
            }
        }
        Self { marks, ignored }
    }

    /// What is said of a block.
    pub(super) fn mark(&self, block: usize) -> Mark {
        if self.marks.is_empty() {
            return Mark::default();
        }
        Mark { ignored: self.ignored.get(&block).copied(), scope: self.marks.in_scope.get(&block).copied() }
    }

    /// The same in words.
    pub(super) fn said(&self, mark: Mark) -> InCode {
        InCode {
            ignored: mark.ignored.map(|number| self.marks.ignored[number as usize].1.clone()),
            scope: mark.scope.map(|number| self.marks.scopes[number as usize].clone()),
        }
    }
}
