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

use super::is_reported;
use super::reach::Reach;
use super::words::Words;
use crate::model::{FindingKind, Measure};

/// A lost block that is reported.
pub(super) struct Lost {
    /// Its index.
    pub(super) block: usize,
    /// Definitely or indirectly lost.
    pub(super) kind: FindingKind,
    /// What hangs below it, if it is definitely lost.
    pub(super) below: Measure,
}

/// The lost blocks that are reported, in no particular order.
pub(super) fn lost(words: &Words<'_>, reached: &[Reach]) -> Vec<Lost> {
    let reported = |block: &usize| reached[*block] == Reach::Nothing && is_reported(&words.blocks[*block]);
    if !(0..reached.len()).any(|block| reported(&block)) {
        return Vec::new();
    }
    let graph = Graph::new(words, reached);
    // Blocks ascend by address, so nodes do.
    let age = |node: usize| (words.blocks[graph.blocks[node]].time, node);
    let mut roots = graph.leak_roots(|node| reported(&graph.blocks[node]).then(|| age(node)));
    roots.sort_by_key(|&root| age(root));

    let mut lost = Vec::new();
    let mut claimed = vec![false; graph.blocks.len()];
    let mut pending = Vec::new();
    for root in roots {
        let mut below = Measure::default();
        claimed[root] = true;
        pending.push(root);
        while let Some(node) = pending.pop() {
            let block = graph.blocks[node];
            if node != root && reported(&block) {
                below.add(words.blocks[block].size);
                lost.push(Lost { block, kind: FindingKind::IndirectlyLost, below: Measure::default() });
            }
            for &target in graph.targets(node) {
                if !std::mem::replace(&mut claimed[target as usize], true) {
                    pending.push(target as usize);
                }
            }
        }
        lost.push(Lost { block: graph.blocks[root], kind: FindingKind::DefinitelyLost, below });
    }
    lost
}

/// The references among lost blocks. Nodes are numbered in the order of the blocks.
struct Graph {
    /// The block of each node.
    blocks: Vec<usize>,
    /// Where the targets of each node end in `targets`.
    ends: Vec<usize>,
    targets: Vec<u32>,
}

impl Graph {
    fn new(words: &Words<'_>, reached: &[Reach]) -> Self {
        let mut nodes = vec![None; reached.len()];
        let mut blocks = Vec::new();
        for block in (0..reached.len()).filter(|&block| reached[block] == Reach::Nothing) {
            nodes[block] = Some(blocks.len() as u32);
            blocks.push(block);
        }
        let mut ends = Vec::with_capacity(blocks.len());
        let mut targets: Vec<u32> = Vec::new();
        for &block in &blocks {
            for piece in words.contents(block) {
                words.any(piece, |target| targets.extend(nodes[target]));
            }
            ends.push(targets.len());
        }
        Self { blocks, ends, targets }
    }

    fn targets(&self, node: usize) -> &[u32] {
        let start = if node == 0 { 0 } else { self.ends[node - 1] };
        &self.targets[start..self.ends[node]]
    }

    /// The first node of each leak root by `age`, which only nodes that are reported have.
    fn leak_roots<A: Ord + Copy>(&self, age: impl Fn(usize) -> Option<A>) -> Vec<usize> {
        let Groups { of, order, count } = self.groups();
        let mut first: Vec<Option<(A, usize)>> = vec![None; count];
        for node in 0..of.len() {
            let first = &mut first[of[node] as usize];
            if let Some(age) = age(node)
                && first.is_none_or(|(other, _)| age < other)
            {
                *first = Some((age, node));
            }
        }
        // Sources come last in the order: going back, all that leads to a group has been seen before it.
        let mut below = vec![false; count];
        for &node in order.iter().rev() {
            let group = of[node as usize] as usize;
            if below[group] || first[group].is_some() {
                for &target in self.targets(node as usize) {
                    let other = of[target as usize] as usize;
                    below[other] |= other != group;
                }
            }
        }
        first
            .iter()
            .zip(below)
            .filter(|(_, below)| !below)
            .filter_map(|(first, _)| Some(first.as_ref()?.1))
            .collect()
    }

    /// Tarjan's algorithm, with a stack of its own: a lost list may have a million nodes.
    fn groups(&self) -> Groups {
        const UNSEEN: u32 = u32::MAX;
        let count = self.blocks.len();
        let mut groups = Groups { of: vec![UNSEEN; count], order: Vec::with_capacity(count), count: 0 };
        // When a node was seen first, and the earliest seen node known to be in its group.
        let (mut seen, mut low) = (vec![UNSEEN; count], vec![UNSEEN; count]);
        let mut clock = 0;
        let mut open: Vec<u32> = Vec::new();
        let mut calls: Vec<(usize, usize)> = Vec::new();
        for start in 0..count {
            if seen[start] == UNSEEN {
                calls.push((start, 0));
            }
            // Each entry is a node and how many of its targets have been looked at.
            while let Some(&(node, done)) = calls.last() {
                if done == 0 {
                    (seen[node], low[node]) = (clock, clock);
                    clock += 1;
                    open.push(node as u32);
                } else {
                    // Back from the target, or it was seen before; groups that are closed do not matter.
                    let target = self.targets(node)[done - 1] as usize;
                    if groups.of[target] == UNSEEN {
                        low[node] = low[node].min(low[target]);
                    }
                }
                if let Some(&target) = self.targets(node).get(done) {
                    calls.last_mut().expect("just looked at").1 += 1;
                    if seen[target as usize] == UNSEEN {
                        calls.push((target as usize, 0));
                    }
                    continue;
                }
                calls.pop();
                if low[node] == seen[node] {
                    let first = open.iter().rposition(|&member| member as usize == node).expect("it is open");
                    for member in open.drain(first..) {
                        groups.of[member as usize] = groups.count as u32;
                        groups.order.push(member);
                    }
                    groups.count += 1;
                }
            }
        }
        groups
    }
}

/// Nodes that lead to each other.
struct Groups {
    /// The group of each node.
    of: Vec<u32>,
    /// All nodes, group by group; references lead from later groups to earlier ones.
    order: Vec<u32>,
    /// Number of groups.
    count: usize,
}
