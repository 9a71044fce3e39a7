//! What a test's code says of blocks.

use std::sync::Arc;

use super::{Heap, classified, finding, hanging, leak_root};
use crate::classify::growth;
use crate::model::FindingKind::*;
use crate::model::{Finding, Grown, Growth, InCode, Measure, Scope};
use crate::snapshot::{RootKind, Snapshot};

/// The snapshot, in which a block is to be ignored.
fn ignoring(heap: &Heap, address: u64, place: &str) -> Snapshot {
    let mut snapshot = heap.snapshot();
    let block = snapshot.blocks.starting_at(address).unwrap();
    snapshot.marks.ignored.push((block, place.into()));
    snapshot
}

fn ignored(finding: Finding<usize>, place: &str) -> Finding<usize> {
    Finding { in_code: InCode { ignored: Some(place.into()), scope: None }, ..finding }
}

/// A root that leads to a block, which leads to another one.
fn tree() -> (Heap, [u64; 3]) {
    let mut heap = Heap::default();
    let blocks = [16, 32, 48].map(|size| heap.block(size));
    heap.write(blocks[0], blocks[1]);
    heap.write(blocks[1], blocks[2]);
    (heap, blocks)
}

#[test]
fn what_hangs_below_is_ignored_with_it_and_what_is_above_is_not() {
    let (heap, [root, middle, _]) = tree();
    let all = [leak_root(0, 16, (80, 2)), hanging(2, 0, 48, 1), hanging(1, 0, 32, 1)];
    assert_eq!(classified(&heap.snapshot()), all);
    let [top, leaf, inner] = all.clone();
    assert_eq!(
        classified(&ignoring(&heap, middle, "a:1")),
        [top, ignored(leaf, "a:1"), ignored(inner, "a:1")]
    );
    assert_eq!(classified(&ignoring(&heap, root, "a:1")), all.map(|finding| ignored(finding, "a:1")));
}

#[test]
fn a_cycle_is_ignored_by_any_of_its_blocks_and_the_first_place_counts() {
    let mut heap = Heap::default();
    let [first, second] = [32, 48].map(|size| heap.block(size));
    heap.write(first, second);
    heap.write(second, first);
    let mut snapshot = ignoring(&heap, second, "a:2");
    snapshot.marks.ignored.push((0, "a:1".into()));
    let expected = [leak_root(0, 32, (48, 1)), hanging(1, 0, 48, 1)];
    assert_eq!(classified(&snapshot), expected.map(|finding| ignored(finding, "a:2")));
}

/// Tag bits: whoever has them may mean something else.
#[test]
fn disguised_references_excuse_nothing() {
    let mut heap = Heap::default();
    let [first, second] = [32, 48].map(|size| heap.block(size));
    heap.write(first, second | 1);
    let expected = [ignored(leak_root(0, 32, (48, 1)), "a:1"), hanging(1, 0, 48, 1)];
    assert_eq!(classified(&ignoring(&heap, first, "a:1")), expected);
}

#[test]
fn what_is_reachable_can_be_ignored_as_well() {
    let (mut heap, [root, _, leaf]) = tree();
    heap.root(RootKind::Static, &[root]);
    let found = classified(&ignoring(&heap, leaf, "a:1"));
    let reachable = |stack, bytes| finding(StillReachable, stack, bytes, 1);
    assert_eq!(found, [ignored(reachable(2, 48), "a:1"), reachable(1, 32), reachable(0, 16)]);
}

#[test]
fn blocks_of_one_stack_are_told_apart_by_their_scopes() {
    let mut heap = Heap::default();
    for size in [16, 32, 64, 128] {
        heap.block(size);
        heap.last().stack = Some(0);
    }
    let mut snapshot = heap.snapshot();
    let scope = |name: &str| Arc::new(Scope { name: name.into(), limited: None });
    snapshot.marks.scopes = vec![scope("a"), scope("b")];
    snapshot.marks.in_scope = [(0, 0), (1, 1), (3, 0)].into();
    let of = |name: Option<&str>, bytes, blocks| {
        let in_code = InCode { ignored: None, scope: name.map(scope) };
        Finding { in_code, ..finding(DefinitelyLost, 0, bytes, blocks) }
    };
    let expected = [of(Some("a"), 144, 2), of(None, 64, 1), of(Some("b"), 32, 1)];
    assert_eq!(classified(&snapshot), expected);
}

/// In each of three iterations 24 bytes with 8 below, which are ignored, and 5 that are not.
#[test]
fn what_is_ignored_does_not_grow() {
    let mut heap = Heap::default();
    let mut roots = Vec::new();
    for iteration in 1..=3 {
        let [root, leaf, _] = [(24, 0), (8, 1), (5, 0)].map(|(size, stack)| {
            let block = heap.block(size);
            (heap.last().time, heap.last().stack) = (iteration * 10, Some(stack));
            block
        });
        heap.write(root, leaf);
        roots.push(root);
    }
    let mut snapshot = heap.snapshot();
    for root in roots {
        let block = snapshot.blocks.starting_at(root).unwrap();
        snapshot.marks.ignored.push((block, "a:1".into()));
    }
    snapshot.iterations = vec![10, 20, 30];
    let measures = |all: [(u64, u64); 3]| all.map(|(bytes, blocks)| Measure { bytes, blocks }).to_vec();
    let grown = |stack, bytes: [u64; 3]| Grown { bytes: bytes.to_vec(), stack: Some(stack) };
    let all = Growth {
        iterations: 3,
        warmup: 1,
        alive: measures([(37, 3), (74, 6), (111, 9)]),
        grown: vec![grown(0, [29, 58, 87]), grown(1, [8, 16, 24])],
        ..Growth::default()
    };
    snapshot.left.growth = Some(all.clone());
    let rest = Growth {
        alive: measures([(5, 1), (10, 2), (15, 3)]),
        grown: vec![grown(0, [5, 10, 15])],
        ..all.clone()
    };
    assert_eq!(growth(&snapshot), Some(rest));
    snapshot.marks.ignored.clear();
    assert_eq!(growth(&snapshot), Some(all));
}
