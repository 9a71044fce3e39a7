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

/// [`Reach`] in one byte, so that much of it stays in the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Nothing,
    Thread,
    Shared,
    Disguised,
}

/// What leads to each block.
pub(super) struct Reached {
    marks: Vec<Mark>,
    /// For blocks that one thread holds: the first root of that thread. Empty without such blocks.
    holders: Vec<u32>,
}

impl Reached {
    /// What leads to a block.
    pub(super) fn of(&self, block: usize) -> Reach {
        match self.marks[block] {
            Mark::Nothing => Reach::Nothing,
            Mark::Thread => Reach::Thread { root: self.holders[block] as usize },
            Mark::Shared => Reach::Shared,
            Mark::Disguised => Reach::Disguised,
        }
    }

    /// Whether nothing does.
    pub(super) fn is_lost(&self, block: usize) -> bool {
        self.marks[block] == Mark::Nothing
    }
}

/// Finds what leads to each block.
pub(super) fn reach(snapshot: &Snapshot) -> Reached {
    let blocks = &snapshot.blocks;
    let reached = Reached { marks: vec![Mark::Nothing; blocks.len()], holders: Vec::new() };
    let mut search = Search { snapshot, reached, pending: Vec::new() };
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, root) in snapshot.roots.iter().enumerate() {
        match root.kind {
            RootKind::Thread { id, .. } => threads.entry(id).or_default().push(index),
            RootKind::Static | RootKind::Main | RootKind::FinishedThread => search.follow_shared(index),
        }
    }
    if !threads.is_empty() {
        search.reached.holders = vec![0; blocks.len()];
    }
    for roots in threads.into_values() {
        for &root in &roots {
            search.follow_thread(root, roots[0] as u32);
        }
    }
    if (0..blocks.len()).any(|block| search.reached.is_lost(block) && blocks.is_reported(block)) {
        search.follow_disguised();
    }
    search.reached
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    reached: Reached,
    pending: Vec<u32>,
}

impl Search<'_> {
    /// Follows full references from a root that is no thread's own, before any that is.
    fn follow_shared(&mut self, root: usize) {
        let marks = &mut self.reached.marks;
        follow(self.snapshot, &[root], &mut self.pending, |reference| {
            let block = reference.block();
            let is_new = !reference.is_disguised() && marks[block] == Mark::Nothing;
            if is_new {
                marks[block] = Mark::Shared;
            }
            is_new
        });
    }

    /// Follows full references from a root of a thread whose first root is `holder`. A block is passed at
    /// most twice: when first found, and when a second thread turns out to hold it.
    fn follow_thread(&mut self, root: usize, holder: u32) {
        let Reached { marks, holders } = &mut self.reached;
        follow(self.snapshot, &[root], &mut self.pending, |reference| {
            let block = reference.block();
            marks[block] = match marks[block] {
                _ if reference.is_disguised() => return false,
                Mark::Nothing => Mark::Thread,
                Mark::Thread if holders[block] != holder => Mark::Shared,
                _ => return false,
            };
            holders[block] = holder;
            true
        });
    }

    /// Marks what is left and disguised references lead to, and everything below that.
    fn follow_disguised(&mut self) {
        let Self { snapshot, reached: Reached { marks, .. }, pending } = self;
        // From what full references lead to, only disguised ones can lead further.
        let leads_on = |block: &usize| {
            let mut references = snapshot.references.of(*block).iter();
            references.any(|reference| reference.is_disguised() && marks[reference.block()] == Mark::Nothing)
        };
        let reached = (0..marks.len()).filter(|block| marks[*block] != Mark::Nothing);
        pending.extend(reached.filter(leads_on).map(|block| block as u32));
        let roots: Vec<usize> = (0..snapshot.roots.len()).collect();
        follow(snapshot, &roots, pending, |reference| {
            let is_new = marks[reference.block()] == Mark::Nothing;
            if is_new {
                marks[reference.block()] = Mark::Disguised;
            }
            is_new
        });
    }
}

/// Passes what some roots and the blocks that are pending refer to, and from there on what `visit` says
/// is worth it.
fn follow(
    snapshot: &Snapshot,
    roots: &[usize],
    pending: &mut Vec<u32>,
    mut visit: impl FnMut(Reference) -> bool,
) {
    let mut pass = |references: &[Reference], pending: &mut Vec<u32>| {
        let new = references.iter().filter(|reference| visit(**reference));
        pending.extend(new.map(|reference| reference.block() as u32));
    };
    for &root in roots {
        pass(&snapshot.roots[root].references, pending);
    }
    while let Some(block) = pending.pop() {
        pass(snapshot.references.of(block as usize), pending);
    }
}
