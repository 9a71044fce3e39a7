//! Sorts the blocks alive at a process's exit by what still refers to them. Pure: a [`Snapshot`] in,
//! [`Finding`]s out.
//!
//! # The graph
//! Nodes are all live blocks, those outside the window too: they pass references on but are never
//! findings, and neither are runtime blocks. References are found conservatively, by looking at the
//! bytes of the roots and of the blocks:
//! - a **full** reference is an aligned word with the address of any byte of a block. Inner pointers
//!   count: Rust has them everywhere (`Arc::into_raw`, slices, iterators). A block of size 0 is taken
//!   to have one byte. The address behind a block's last byte is no reference to it.
//! - a **disguised** reference is a word that a program must undo something to use: `words.rs`
//!   has the list.
//!
//! # The kinds
//! 1. *Still reachable*: full references alone lead there from the roots. If they lead there from one
//!    running thread only, the finding is held by that thread.
//! 2. *Possibly lost*: of the rest, what any references lead to from the roots.
//! 3. *Lost*: all that remains. Here full and disguised references are the same thing, so that a lost
//!    tree with tagged links is one leak and not one a node. `lost.rs` says which block of a cycle
//!    or tree is the leak root and which are indirectly lost.

mod index;
mod lost;
mod reach;
mod words;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::model::{Finding, FindingKind, Measure};
use crate::snapshot::{Block, Root, RootKind, Snapshot};

use reach::Reach;
use words::Words;

/// Groups what is alive in the window by kind, call stack (an index into [`Snapshot::stacks`]) and
/// holding thread, and bad frees by call stack. Blocks without a call stack are one group.
///
/// The order is that of [`FindingKind`]; within a kind the largest comes first, by bytes, then by
/// blocks, then by index of the call stack. Equal snapshots give equal findings.
///
/// A bad free is a block of 0 bytes in its finding's measure.
pub fn classify(snapshot: &Snapshot) -> Vec<Finding<usize>> {
    let mut groups = Groups::default();
    // Most tests leave nothing behind, and then nothing needs to be looked at.
    if snapshot.blocks.iter().any(is_reported) {
        classify_blocks(snapshot, &mut groups);
    }
    for bad_free in &snapshot.bad_frees {
        let kind = if bad_free.double { FindingKind::DoubleFree } else { FindingKind::UnknownFree };
        groups.add(kind, bad_free.stack, None, 0);
    }
    groups.into_findings()
}

/// Whether a block can be a finding.
fn is_reported(block: &Block) -> bool {
    block.in_window && !block.runtime
}

fn classify_blocks<'a>(snapshot: &'a Snapshot, groups: &mut Groups<'a>) {
    let words = Words::new(snapshot);
    let reached = reach::reach(&words);
    for (block, reach) in snapshot.blocks.iter().zip(&reached).filter(|(block, _)| is_reported(block)) {
        let (kind, held_by) = match *reach {
            Reach::Nothing => continue,
            Reach::Shared => (FindingKind::StillReachable, None),
            Reach::Thread { root } => (FindingKind::StillReachable, thread_name(&snapshot.roots[root])),
            Reach::Disguised => (FindingKind::PossiblyLost, None),
        };
        groups.add(kind, block.stack, held_by, block.size);
    }
    for lost in lost::lost(&words, &reached) {
        let block = &snapshot.blocks[lost.block];
        let finding = groups.add(lost.kind, block.stack, None, block.size);
        finding.below = finding.below + lost.below;
    }
}

fn thread_name(root: &Root) -> Option<&str> {
    match &root.kind {
        RootKind::Thread { name, .. } => Some(name),
        RootKind::Static | RootKind::Main | RootKind::FinishedThread => None,
    }
}

/// Kind, call stack and holding thread.
type Key<'a> = (FindingKind, Option<usize>, Option<&'a str>);

/// Findings in the making.
#[derive(Default)]
struct Groups<'a>(HashMap<Key<'a>, Finding<usize>>);

impl<'a> Groups<'a> {
    fn add(
        &mut self,
        kind: FindingKind,
        stack: Option<usize>,
        held_by: Option<&'a str>,
        bytes: u64,
    ) -> &mut Finding<usize> {
        let finding = self.0.entry((kind, stack, held_by)).or_insert_with(|| Finding {
            kind,
            measure: Measure::default(),
            stack,
            below: Measure::default(),
            held_by: held_by.map(str::to_owned),
        });
        finding.measure.add(bytes);
        finding
    }

    fn into_findings(self) -> Vec<Finding<usize>> {
        use std::cmp::Reverse;
        let mut findings: Vec<_> = self.0.into_values().collect();
        findings.sort_by(|a, b| {
            let key =
                |f: &Finding<usize>| (f.kind, Reverse(f.measure.bytes), Reverse(f.measure.blocks), f.stack);
            key(a).cmp(&key(b)).then_with(|| a.held_by.cmp(&b.held_by))
        });
        findings
    }
}
