//! What a test's code has said of blocks: which are ignored, with what hangs below them, and which are whose scope's.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::model::{Growth, InCode, Measure};
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

/// What a test's iterations have added, without what is ignored.
///
/// What is ignored and there at the exit was there after each iteration that has ended since it was allocated: where something
/// was alive that is no older.
pub fn growth(snapshot: &Snapshot) -> Option<Growth<usize>> {
    let Snapshot { blocks, iterations, .. } = snapshot;
    let mut growth = snapshot.left.growth.clone()?;
    for block in Marked::of(snapshot).ignored.into_keys().filter(|block| blocks.is_reported(*block)) {
        let (size, time, stack) = (blocks.places()[block].size, blocks.time(block), blocks.stack(block));
        let mut of_stack = growth.grown.iter_mut().find(|grown| stack.is_some() && grown.stack == stack);
        let alive = growth.alive.iter_mut().zip(iterations).enumerate();
        for (number, (alive, _)) in alive.filter(|(_, (_, newest))| time <= **newest) {
            *alive = alive.less(Measure { bytes: size, blocks: 1 });
            if let Some(bytes) = of_stack.as_mut().and_then(|grown| grown.bytes.get_mut(number)) {
                *bytes = bytes.saturating_sub(size);
            }
        }
    }
    let warmup = growth.warmup as usize;
    growth.grown.retain(|grown| grown.added_after(warmup) > 0);
    growth.grown.sort_by_key(|grown| Reverse(grown.added_after(warmup)));
    Some(growth)
}
