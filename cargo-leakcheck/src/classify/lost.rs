//! Tells the roots of leaks from what hangs below them.
//!
//! Lost blocks that lead to each other are one group (a strongly connected component; mostly a
//! single block). A group is a leak root if it has a block that is reported and no other such group
//! leads to it. Of a leak root, the reported block that was allocated first (by time, then address)
//! is *definitely lost*; every other reported block is *indirectly lost*.
//!
//! Blocks that are not reported (outside the window, runtime) pass references on but own nothing:
//! a block that only they refer to is definitely lost, since otherwise a report would show blocks
//! below a root that is not in it.
//!
//! Each indirectly lost block is counted below exactly one root: the one allocated first of those
//! that lead to it. So what is below all roots adds up to what is indirectly lost.

use super::groups::Groups;
use super::reach::Reached;
use crate::model::Measure;
use crate::snapshot::Snapshot;

/// Calls `found` with each lost block that is reported, in no particular order: its number, that of the leak root it is
/// counted below, if it is indirectly lost, and what hangs below it, if it is definitely lost. The groups of lost
/// blocks, if there are any.
pub(super) fn lost(
    snapshot: &Snapshot,
    reached: &Reached,
    mut found: impl FnMut(usize, Option<usize>, Measure),
) -> Option<Groups> {
    let Snapshot { blocks, references, .. } = snapshot;
    let reported = |block: usize| reached.is_lost(block) && blocks.is_reported(block);
    if !(0..blocks.len()).any(reported) {
        return None;
    }
    // Blocks ascend by address, so their numbers do.
    let age = |block: usize| (blocks.time(block), block);
    let groups = Groups::of(blocks.len(), references, |block| reached.is_lost(block));
    let mut roots = leak_roots(snapshot, reached, &groups);
    roots.sort_unstable_by_key(|&root| age(root as usize));

    let mut claimed = vec![false; blocks.len()];
    let mut pending: Vec<u32> = Vec::new();
    for root in roots {
        let mut below = Measure::default();
        claimed[root as usize] = true;
        pending.push(root);
        while let Some(block) = pending.pop() {
            if block != root && reported(block as usize) {
                below.add(blocks.places()[block as usize].size);
                found(block as usize, Some(root as usize), Measure::default());
            }
            for target in references.of(block as usize).iter().map(|reference| reference.block()) {
                if reached.is_lost(target) && !std::mem::replace(&mut claimed[target], true) {
                    pending.push(target as u32);
                }
            }
        }
        found(root as usize, None, below);
    }
    Some(groups)
}

/// The reported block that was allocated first of each group that is a leak root.
fn leak_roots(snapshot: &Snapshot, reached: &Reached, groups: &Groups) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let Snapshot { blocks, references, .. } = snapshot;
    let mut first = vec![NONE; groups.count()];
    for &block in groups.order() {
        let first = &mut first[groups.group(block as usize)];
        let age = |block: u32| (blocks.time(block as usize), block);
        if blocks.is_reported(block as usize) && (*first == NONE || age(block) < age(*first)) {
            *first = block;
        }
    }
    // Sources come last in the order: going back, all that leads to a group has been seen before it.
    let mut below = vec![false; groups.count()];
    for &block in groups.order().iter().rev() {
        let group = groups.group(block as usize);
        if below[group] || first[group] != NONE {
            let targets = references.of(block as usize).iter().map(|reference| reference.block());
            for other in targets.filter(|target| reached.is_lost(*target)).map(|target| groups.group(target))
            {
                below[other] |= other != group;
            }
        }
    }
    let roots = first.into_iter().zip(below);
    roots.filter(|(first, below)| *first != NONE && !below).map(|(first, _)| first).collect()
}
