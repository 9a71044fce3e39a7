//! Follows references from the roots.

use std::collections::BTreeMap;

use super::is_reported;
use super::words::Words;
use crate::snapshot::RootKind;

/// What leads to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing that starts at a root.
    Nothing,
    /// Full references from one running thread only: that of `Snapshot::roots[root]`, its first.
    Thread {
        /// Index of the root.
        root: usize,
    },
    /// Full references, from several threads or from what is no thread's own.
    Shared,
    /// References of which at least one is disguised.
    Disguised,
}

/// What leads to each block.
pub(super) fn reach(words: &Words<'_>) -> Vec<Reach> {
    let mut search = Search { words, reached: vec![Reach::Nothing; words.blocks.len()], pending: Vec::new() };
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, root) in words.roots.iter().enumerate() {
        match root.kind {
            RootKind::Thread { id, .. } => threads.entry(id).or_default().push(index),
            RootKind::Static | RootKind::Main | RootKind::FinishedThread => {
                search.follow_full(index, Reach::Shared)
            }
        }
    }
    for roots in threads.into_values() {
        for &root in &roots {
            search.follow_full(root, Reach::Thread { root: roots[0] });
        }
    }
    let unseen = |(block, &reach)| is_reported(block) && reach == Reach::Nothing;
    if words.blocks.iter().zip(&search.reached).any(unseen) {
        search.follow_disguised();
    }
    search.reached
}

struct Search<'a> {
    words: &'a Words<'a>,
    reached: Vec<Reach>,
    pending: Vec<usize>,
}

impl Search<'_> {
    /// Marks what full references lead to from a root. A block is passed at most twice: when first
    /// found, and when a second thread turns out to hold it.
    fn follow_full(&mut self, root: usize, from: Reach) {
        let Self { words, reached, pending } = self;
        let mut visit = |block: usize, pending: &mut Vec<usize>| {
            reached[block] = match reached[block] {
                Reach::Nothing => from,
                Reach::Thread { .. } if reached[block] != from => Reach::Shared,
                _ => return,
            };
            pending.push(block);
        };
        words.full((&words.roots[root].memory).into(), |block| visit(block, pending));
        while let Some(block) = pending.pop() {
            for piece in words.contents(block) {
                words.full(piece, |block| visit(block, pending));
            }
        }
    }

    /// Marks what is left and disguised references lead to, and everything below that. Full ones are
    /// followed again, to no effect where they have been followed before.
    fn follow_disguised(&mut self) {
        let Self { words, reached, pending } = self;
        pending.extend((0..reached.len()).filter(|&block| reached[block] != Reach::Nothing));
        let mut visit = |block: usize, pending: &mut Vec<usize>| {
            if reached[block] == Reach::Nothing {
                reached[block] = Reach::Disguised;
                pending.push(block);
            }
        };
        for root in words.roots {
            words.any((&root.memory).into(), |block| visit(block, pending));
        }
        while let Some(block) = pending.pop() {
            for piece in words.contents(block) {
                words.any(piece, |block| visit(block, pending));
            }
        }
    }
}
