//! Sorts the blocks alive at a process's exit by what still refers to them. Pure: a [`Snapshot`] in,
//! [`Finding`]s out.
//!
//! # The graph
//! Nodes are all live blocks, those outside the window too: they pass references on but are never
//! findings, and neither are runtime blocks. What is a reference, full or disguised, is said in
//! `references/mod.rs`.
//!
//! # The kinds
//! 1. *Still reachable*: full references alone lead there from the roots. If they lead there from one
//!    running thread only, the finding is held by that thread.
//! 2. *Possibly lost*: of the rest, what any references lead to from the roots.
//! 3. *Lost*: all that remains. Here full and disguised references are the same thing, so that a lost
//!    tree with tagged links is one leak and not one a node. `lost.rs` says which block of a cycle
//!    or tree is the leak root and which are indirectly lost.

mod chain;
mod groups;
mod lost;
mod marks;
mod reach;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::model::{Finding, FindingKind, Measure};
use crate::snapshot::{BadFree, Before, Root, RootKind, Snapshot};

pub use marks::growth;
use marks::{Mark, Marked};
use reach::Reach;

/// Groups what is alive in the window by kind, call stack (an index into [`Snapshot::stacks`]),
/// holding thread, leak root's call stack and what the test's code says of them, and bad frees by call stack. Blocks without a call stack are one group.
///
/// The order is that of [`FindingKind`]; within a kind the largest comes first, by bytes, then by
/// blocks, then by index of the call stack. Equal snapshots give equal findings.
///
/// A bad free is a block of 0 bytes in its finding's measure.
pub fn classify(snapshot: &Snapshot) -> Vec<Finding<usize>> {
    let mut sums = Sums::new(Marked::of(snapshot));
    // Most tests leave nothing behind, and then nothing needs to be looked at.
    if snapshot.blocks.any_reported() {
        classify_blocks(snapshot, &mut sums);
    }
    for bad_free in &snapshot.bad_frees {
        sums.add_bad_free(bad_free);
    }
    sums.into_findings()
}

fn classify_blocks<'a>(snapshot: &'a Snapshot, sums: &mut Sums<'a>) {
    let blocks = &snapshot.blocks;
    let reached = reach::reach(snapshot);
    for (block, place) in blocks.places().iter().enumerate().filter(|(block, _)| blocks.is_reported(*block)) {
        let (kind, held_by) = match reached.of(block) {
            Reach::Nothing => continue,
            Reach::Shared => (FindingKind::StillReachable, None),
            Reach::Thread { root } => (FindingKind::StillReachable, thread_name(&snapshot.roots[root])),
            Reach::Disguised => (FindingKind::PossiblyLost, None),
        };
        sums.add((kind, blocks.stack(block), held_by, None), block, place.size);
    }
    let groups = lost::lost(snapshot, &reached, |block, root, below| {
        let kind = root.map_or(FindingKind::DefinitelyLost, |_| FindingKind::IndirectlyLost);
        let root = root.and_then(|root| blocks.stack(root));
        let finding = sums.add((kind, blocks.stack(block), None, root), block, blocks.places()[block].size);
        finding.below = finding.below + below;
    });
    chain::reachable(snapshot, &reached, sums);
    if let Some(groups) = groups {
        chain::cycles(snapshot, &reached, &groups, sums);
    }
}

fn thread_name(root: &Root) -> Option<&str> {
    match &root.kind {
        RootKind::Thread { name, .. } => Some(name),
        RootKind::Static | RootKind::Main | RootKind::FinishedThread => None,
    }
}

/// Kind, call stack, holding thread, and call stack of the leak root.
type Key<'a> = (FindingKind, Option<usize>, Option<&'a str>, Option<usize>);

/// Findings in the making.
struct Sums<'a> {
    marked: Marked<'a>,
    findings: Vec<Finding<usize>>,
    /// What the code says of each of them.
    marks: Vec<Mark>,
    /// For each of them the size of its largest block, and the first one that has it.
    largest: Vec<(u64, u32)>,
    by_key: HashMap<(Key<'a>, Mark), u32>,
    bad_frees: HashMap<(FindingKind, Option<usize>, Before<usize>), usize>,
    /// For each call stack, with none first, and each kind: the finding that was added to last. With few
    /// exceptions it is the only one.
    last: Vec<[Option<u32>; KINDS]>,
}

const KINDS: usize = FindingKind::UnknownFree as usize + 1;

impl<'a> Sums<'a> {
    fn new(marked: Marked<'a>) -> Self {
        Self {
            marked,
            findings: Vec::new(),
            marks: Vec::new(),
            largest: Vec::new(),
            by_key: HashMap::new(),
            bad_frees: HashMap::new(),
            last: Vec::new(),
        }
    }

    fn add(&mut self, key: Key<'a>, block: usize, bytes: u64) -> &mut Finding<usize> {
        let (kind, stack, held_by, root) = key;
        let mark = self.marked.mark(block);
        let slot = stack.map_or(0, |stack| stack + 1);
        if self.last.len() <= slot {
            self.last.resize(slot + 1, [None; KINDS]);
        }
        let last = &mut self.last[slot][kind as usize];
        let index = last.filter(|index| {
            let finding = &self.findings[*index as usize];
            (finding.held_by.as_deref(), finding.root) == (held_by, root)
                && self.marks[*index as usize] == mark
        });
        let index = index.unwrap_or_else(|| {
            *self.by_key.entry((key, mark)).or_insert_with(|| {
                self.findings.push(Finding {
                    kind,
                    measure: Measure::default(),
                    stack,
                    below: Measure::default(),
                    root,
                    held_by: held_by.map(str::to_owned),
                    before: Before::default(),
                    process: None,
                    origin: crate::model::Origin::default(),
                    in_code: self.marked.said(mark),
                });
                self.marks.push(mark);
                self.largest.push((bytes, block as u32));
                self.findings.len() as u32 - 1
            })
        });
        *last = Some(index);
        let largest = &mut self.largest[index as usize];
        if bytes > largest.0 {
            *largest = (bytes, block as u32);
        }
        let finding = &mut self.findings[index as usize];
        finding.measure.add(bytes);
        finding
    }

    /// The number of the finding that a block is in, where there is one.
    fn find(&self, key: Key<'a>, block: usize) -> Option<usize> {
        let (kind, stack, held_by, root) = key;
        let mark = self.marked.mark(block);
        let last = self.last.get(stack.map_or(0, |stack| stack + 1)).and_then(|of| of[kind as usize]);
        let index = last.filter(|index| {
            let finding = &self.findings[*index as usize];
            (finding.held_by.as_deref(), finding.root) == (held_by, root)
                && self.marks[*index as usize] == mark
        });
        index.or_else(|| self.by_key.get(&(key, mark)).copied()).map(|index| index as usize)
    }

    fn add_bad_free(&mut self, free: &BadFree) {
        let kind = if free.double { FindingKind::DoubleFree } else { FindingKind::UnknownFree };
        let index = *self.bad_frees.entry((kind, free.stack, free.before)).or_insert_with(|| {
            self.findings.push(Finding {
                kind,
                measure: Measure::default(),
                stack: free.stack,
                below: Measure::default(),
                root: None,
                held_by: None,
                before: free.before,
                process: None,
                origin: crate::model::Origin::default(),
                in_code: crate::model::InCode::default(),
            });
            self.marks.push(Mark::default());
            self.findings.len() - 1
        });
        self.findings[index].measure.add(0);
    }

    fn into_findings(self) -> Vec<Finding<usize>> {
        use std::cmp::Reverse;
        let mut findings = self.findings;
        findings.sort_by(|a, b| {
            let key =
                |f: &Finding<usize>| (f.kind, Reverse(f.measure.bytes), Reverse(f.measure.blocks), f.stack);
            let rest = |f: &'_ Finding<usize>| (f.held_by.clone(), f.before, f.root, f.in_code.clone());
            key(a).cmp(&key(b)).then_with(|| rest(a).cmp(&rest(b)))
        });
        findings
    }
}
