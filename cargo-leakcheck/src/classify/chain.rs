//! Why a block is still there: the shortest way to it from the roots, and the shortest way around a lost cycle. For one
//! block of each finding, the largest of it; of several as large, the nearest.

use std::collections::HashMap;

use super::Sums;
use super::groups::Groups;
use super::reach::{Reach, Reached};
use crate::model::{FindingKind, Held, HeldBy, Step, Through};
use crate::snapshot::{Part, Reference, Root, RootKind, Snapshot};

/// Steps of a way at most.
const STEPS: usize = 32;
/// Blocks that are looked at for a way around a cycle.
const CYCLE: usize = 1 << 17;

/// How a block was reached: a number of [`Search::starts`] with this bit, or a block's plus 1.
const START: u32 = 1 << 31;

struct Search {
    /// For each block how it was reached first; 0 for none.
    from: Vec<u32>,
    /// References of roots that were the first to reach a block: root and place.
    starts: Vec<(usize, u64)>,
    reached: Vec<u32>,
    /// Findings that have no way yet.
    wanted: usize,
}

/// Adds the ways to what is still reachable to its findings. Only as much of the graph is searched as that takes.
pub(super) fn reachable<'a>(snapshot: &'a Snapshot, reached: &Reached, sums: &mut Sums<'a>) {
    let Snapshot { blocks, references, roots, .. } = snapshot;
    let wanted = sums.findings.iter().filter(|it| it.kind == FindingKind::StillReachable).count();
    if wanted == 0 {
        return;
    }
    let mut search = Search { from: vec![0; blocks.len()], starts: Vec::new(), reached: Vec::new(), wanted };
    // Where several lead to a block, what is for good comes first.
    let (data, threads): (Vec<usize>, Vec<usize>) =
        (0..roots.len()).partition(|root| roots[*root].part == Part::Data);
    for root in data.into_iter().chain(threads) {
        for (reference, place) in roots[root].references.iter().zip(&roots[root].places) {
            if search.is_new(*reference) {
                let from = START | search.starts.len() as u32;
                search.starts.push((root, *place));
                search.reach(reference.block(), from, snapshot, reached, sums);
            }
        }
    }
    let mut done = 0;
    while search.wanted > 0
        && let Some(&block) = search.reached.get(done)
    {
        done += 1;
        for reference in references.of(block as usize) {
            if search.is_new(*reference) {
                search.reach(reference.block(), block + 1, snapshot, reached, sums);
                if search.wanted == 0 {
                    return;
                }
            }
        }
    }
}

/// The finding that a still reachable block is in.
fn finding_of<'a>(snapshot: &'a Snapshot, reached: &Reached, sums: &Sums<'a>, block: usize) -> Option<usize> {
    if !snapshot.blocks.is_reported(block) {
        return None;
    }
    let held_by = match reached.of(block) {
        Reach::Shared => None,
        Reach::Thread { root } => super::thread_name(&snapshot.roots[root]),
        Reach::Nothing | Reach::Disguised => return None,
    };
    sums.find((FindingKind::StillReachable, snapshot.blocks.stack(block), held_by, None), block)
}

impl Search {
    fn is_new(&self, reference: Reference) -> bool {
        !reference.is_disguised() && self.from[reference.block()] == 0
    }

    /// Comes to a block for the first time.
    fn reach<'a>(
        &mut self,
        block: usize,
        from: u32,
        snapshot: &'a Snapshot,
        reached: &Reached,
        sums: &mut Sums<'a>,
    ) {
        self.from[block] = from;
        self.reached.push(block as u32);
        if let Some(finding) = finding_of(snapshot, reached, sums, block)
            && sums.findings[finding].origin.chain.is_empty()
            && sums.largest[finding].0 == snapshot.blocks.places()[block].size
        {
            sums.findings[finding].origin.chain = self.way_to(snapshot, block);
            self.wanted -= 1;
        }
    }

    fn way_to(&self, snapshot: &Snapshot, block: usize) -> Vec<Step<usize>> {
        let mut way = vec![block];
        let mut from = self.from[block];
        while from & START == 0 {
            way.push(from as usize - 1);
            from = self.from[from as usize - 1];
        }
        way.reverse();
        let (root, place) = self.starts[(from & !START) as usize];
        let root = Step::Root(held(snapshot, &snapshot.roots[root], place));
        [root].into_iter().chain(steps(snapshot, &way, None)).collect()
    }
}

/// The steps through blocks, each of which refers to the next one, and the last to `back`.
fn steps(snapshot: &Snapshot, way: &[usize], back: Option<usize>) -> Vec<Step<usize>> {
    let Snapshot { blocks, references, .. } = snapshot;
    let next = way.iter().skip(1).copied().map(Some).chain([back]);
    let step = |(&block, next): (&usize, Option<usize>)| {
        Step::Block(Through {
            stack: blocks.stack(block),
            bytes: blocks.places()[block].size,
            type_name: None,
            offset: next.and_then(|next| references.offset(block, next)),
        })
    };
    // A root comes before them.
    let (first, last) = (STEPS / 2 - 1, STEPS / 2 - 1);
    if way.len() <= first + last {
        return way.iter().zip(next).map(step).collect();
    }
    let next: Vec<_> = next.collect();
    let end = way.len() - last;
    let before = way[..first].iter().zip(next[..first].iter().copied()).map(step);
    let after = way[end..].iter().zip(next[end..].iter().copied()).map(step);
    before.chain([Step::More((end - first) as u64)]).chain(after).collect()
}

/// What holds a block by a word at a place of a root.
fn held(snapshot: &Snapshot, root: &Root, place: u64) -> Held {
    let thread = match &root.kind {
        RootKind::Thread { name, .. } => Some(name.clone()),
        RootKind::Static | RootKind::Main | RootKind::FinishedThread => None,
    };
    if root.part == Part::Registers {
        return Held { by: HeldBy::Registers, thread, ..Held::default() };
    }
    if root.kind == RootKind::FinishedThread {
        return Held { by: HeldBy::ThreadDescriptor, ..Held::default() };
    }
    for storage in &snapshot.storage {
        let thread = storage.thread.clone();
        if storage.range.contains(&place) {
            return Held { by: HeldBy::ThreadLocal, thread, offset: place, ..Held::default() };
        }
        if storage.descriptor.contains(&place) {
            return Held { by: HeldBy::ThreadDescriptor, thread, ..Held::default() };
        }
    }
    match root.part {
        Part::Stack => Held { by: HeldBy::Stack, thread, ..Held::default() },
        Part::Data | Part::Registers => Held { by: HeldBy::Static, offset: place, ..Held::default() },
    }
}

/// Adds the ways around lost cycles to the findings of their leak roots.
pub(super) fn cycles(snapshot: &Snapshot, reached: &Reached, groups: &Groups, sums: &mut Sums<'_>) {
    for (finding, (_, root)) in sums.findings.iter_mut().zip(&sums.largest) {
        if finding.kind == FindingKind::DefinitelyLost {
            finding.origin.chain = around(snapshot, reached, groups, *root as usize);
        }
    }
}

/// The shortest way from a lost block to itself; nothing where there is none.
fn around(snapshot: &Snapshot, reached: &Reached, groups: &Groups, start: usize) -> Vec<Step<usize>> {
    let references = &snapshot.references;
    let mut from: HashMap<usize, usize> = HashMap::new();
    let mut pending = vec![start];
    let mut done = 0;
    while let Some(&block) = pending.get(done).filter(|_| pending.len() < CYCLE) {
        done += 1;
        for next in references.of(block).iter().map(|reference| reference.block()) {
            if next == start {
                let mut way = vec![block];
                while let Some(before) = way.last().and_then(|last| from.get(last)) {
                    way.push(*before);
                }
                way.reverse();
                return steps(snapshot, &way, Some(start));
            }
            if reached.is_lost(next)
                && groups.group(next) == groups.group(start)
                && let std::collections::hash_map::Entry::Vacant(entry) = from.entry(next)
            {
                entry.insert(block);
                pending.push(next);
            }
        }
    }
    Vec::new()
}
