//! Follows references from the roots.

use std::collections::BTreeMap;

use crate::snapshot::{Reference, RootKind, Snapshot};

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

/// [`Reach`] in 4 bytes: the index of a root, or one of these.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u32);

const NOTHING: Mark = Mark(u32::MAX);
const SHARED: Mark = Mark(u32::MAX - 1);
const DISGUISED: Mark = Mark(u32::MAX - 2);

/// What leads to each block.
pub(super) struct Reached(Vec<Mark>);

impl Reached {
    /// What leads to a block.
    pub(super) fn of(&self, block: usize) -> Reach {
        match self.0[block] {
            NOTHING => Reach::Nothing,
            SHARED => Reach::Shared,
            DISGUISED => Reach::Disguised,
            Mark(root) => Reach::Thread { root: root as usize },
        }
    }

    /// Whether nothing does.
    pub(super) fn is_lost(&self, block: usize) -> bool {
        self.0[block] == NOTHING
    }
}

/// Finds what leads to each block.
pub(super) fn reach(snapshot: &Snapshot) -> Reached {
    let blocks = &snapshot.blocks;
    let mut search = Search { snapshot, reached: vec![NOTHING; blocks.len()], pending: Vec::new() };
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, root) in snapshot.roots.iter().enumerate() {
        match root.kind {
            RootKind::Thread { id, .. } => threads.entry(id).or_default().push(index),
            RootKind::Static | RootKind::Main | RootKind::FinishedThread => search.follow_full(index, SHARED),
        }
    }
    for roots in threads.into_values() {
        for &root in &roots {
            search.follow_full(root, Mark(roots[0] as u32));
        }
    }
    if (0..blocks.len()).any(|block| search.reached[block] == NOTHING && blocks.is_reported(block)) {
        search.follow_disguised();
    }
    Reached(search.reached)
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    reached: Vec<Mark>,
    pending: Vec<u32>,
}

impl Search<'_> {
    /// Marks what full references lead to from a root. A block is passed at most twice: when first
    /// found, and when a second thread turns out to hold it.
    fn follow_full(&mut self, root: usize, from: Mark) {
        let Self { snapshot, reached, pending } = self;
        let mut visit = |references: &[Reference], pending: &mut Vec<u32>| {
            for reference in references.iter().filter(|reference| !reference.is_disguised()) {
                let mark = &mut reached[reference.block()];
                *mark = match *mark {
                    NOTHING => from,
                    SHARED => continue,
                    other if other != from => SHARED,
                    _ => continue,
                };
                pending.push(reference.block() as u32);
            }
        };
        visit(&snapshot.roots[root].references, pending);
        while let Some(block) = pending.pop() {
            visit(snapshot.references.of(block as usize), pending);
        }
    }

    /// Marks what is left and disguised references lead to, and everything below that.
    fn follow_disguised(&mut self) {
        let Self { snapshot, reached, pending } = self;
        // From what full references lead to, only disguised ones can lead further.
        let leads_on = |block: &usize| {
            let mut references = snapshot.references.of(*block).iter();
            references.any(|reference| reference.is_disguised() && reached[reference.block()] == NOTHING)
        };
        let reached_blocks = (0..reached.len()).filter(|block| reached[*block] != NOTHING);
        pending.extend(reached_blocks.filter(leads_on).map(|block| block as u32));
        let mut visit = |references: &[Reference], pending: &mut Vec<u32>| {
            for reference in references {
                let mark = &mut reached[reference.block()];
                if *mark == NOTHING {
                    *mark = DISGUISED;
                    pending.push(reference.block() as u32);
                }
            }
        };
        for root in &snapshot.roots {
            visit(&root.references, pending);
        }
        while let Some(block) = pending.pop() {
            visit(snapshot.references.of(block as usize), pending);
        }
    }
}
