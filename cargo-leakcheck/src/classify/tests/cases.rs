//! What Rust and C programs leave behind, by hand: which kind a block is of.

use super::{Heap, finding, hanging, leak_root};
use crate::model::{Finding, FindingKind::*, Measure};
use crate::snapshot::RootKind;

/// Makes a word of a block's address.
type Disguise = fn(u64) -> u64;

#[test]
fn leaked_box() {
    let mut heap = Heap::default();
    heap.block(4096);
    heap.root(RootKind::Main, &[0, 0x1234, u64::MAX]);
    heap.check(&[finding(DefinitelyLost, 0, 4096, 1)]);
}

#[test]
fn rc_that_holds_itself() {
    let mut heap = Heap::default();
    let node = heap.block(136);
    heap.write(node + 16, node);
    heap.check(&[finding(DefinitelyLost, 0, 136, 1)]);
}

#[test]
fn rc_cycle_of_two_is_reported_under_the_older() {
    let mut heap = Heap::default();
    let younger = heap.block(32);
    heap.last().time = 5000;
    let older = heap.block(48);
    heap.write(younger + 16, older);
    heap.write(older + 24, younger);
    heap.check(&[leak_root(1, 48, (32, 1)), hanging(0, 1, 32, 1)]);
}

#[test]
fn blocks_of_one_time_go_by_address() {
    let mut heap = Heap::default();
    let (a, b) = (heap.block(16), heap.block(16));
    heap.0.blocks[1].time = heap.0.blocks[0].time;
    heap.write(a, b);
    heap.write(b, a);
    heap.check(&[leak_root(0, 16, (16, 1)), hanging(1, 0, 16, 1)]);
}

#[test]
fn list_with_a_lost_head() {
    let mut heap = Heap::default();
    let nodes: Vec<_> = (0..4).map(|_| heap.block(24)).collect();
    for pair in nodes.windows(2) {
        heap.write(pair[0] + 8, pair[1]);
    }
    for block in &mut heap.0.blocks {
        block.stack = Some(7);
    }
    heap.check(&[leak_root(7, 24, (72, 3)), hanging(7, 7, 72, 3)]);
}

#[test]
fn tree_below_a_cycle_and_a_shared_leaf() {
    let mut heap = Heap::default();
    let [young, old, left, right, leaf] = [64, 64, 32, 32, 8].map(|size| heap.block(size));
    heap.0.blocks[0].time = 9000;
    // `young` and `old` are two roots; `old` is a cycle with `left`. Both lead to the leaf.
    heap.write(young, right);
    heap.write(right, leaf);
    heap.write(old, left);
    heap.write(left, old);
    heap.write(left + 8, leaf);
    heap.check(&[
        leak_root(0, 64, (32, 1)),
        leak_root(1, 64, (40, 2)),
        hanging(2, 1, 32, 1),
        hanging(3, 0, 32, 1),
        // Below the older of both.
        hanging(4, 1, 8, 1),
    ]);
}

#[test]
fn lost_tree_with_tagged_links_has_one_root() {
    let mut heap = Heap::default();
    let [root, tagged, packed] = [32, 32, 32].map(|size| heap.block(size));
    heap.write(root, tagged | 1);
    heap.write(tagged + 3, packed);
    heap.check(&[leak_root(0, 32, (64, 2)), hanging(1, 0, 32, 1), hanging(2, 0, 32, 1)]);
}

#[test]
fn statics_and_what_they_lead_to_are_reachable() {
    for kind in [RootKind::Static, RootKind::Main, RootKind::FinishedThread] {
        let mut heap = Heap::default();
        let [vec, string] = [240, 10].map(|size| heap.block(size));
        heap.write(vec + 232, string);
        heap.root(kind, &[0, vec]);
        heap.check(&[finding(StillReachable, 0, 240, 1), finding(StillReachable, 1, 10, 1)]);
    }
}

#[test]
fn inner_pointers_are_references_and_the_end_is_none() {
    for (offset, kind) in [
        (16, StillReachable),
        (9, StillReachable),
        (99, StillReachable),
        (100, DefinitelyLost),
        (-1, DefinitelyLost),
    ] {
        let mut heap = Heap::default();
        let arc = heap.block(100);
        heap.root(RootKind::Static, &[arc.wrapping_add_signed(offset)]);
        heap.check(&[finding(kind, 0, 100, 1)]);
    }
}

#[test]
fn disguised_words() {
    const HIGH: u64 = 0xabcd << 48;
    let cases: [(u64, Disguise); _] = [
        (100, |p| p | 1),
        (8, |p| p | 7),
        (100, |p| p | 7),
        (9, |p| p | 3),
        (100, |p| p | HIGH),
        (100, |p| p | 0xffff << 48),
        (100, |p| (p + 20) | HIGH),
        (100, |p| p | HIGH | 2),
        (1, |p| p | HIGH | 2),
    ];
    for (size, disguise) in cases {
        let mut heap = Heap::default();
        let block = heap.block(size);
        let word = disguise(block);
        heap.root(RootKind::Static, &[word]);
        heap.check(&[finding(PossiblyLost, 0, size, 1)]);
    }
}

#[test]
fn words_that_only_look_disguised() {
    let cases: [(u64, Disguise, _); _] = [
        // An unaligned inner pointer further in.
        (100, |p| p + 17, StillReachable),
        // Behind a small block.
        (4, |p| p + 5, DefinitelyLost),
        // The end of a block with tag bits is not its start.
        (100, |p| (p + 104) | 0xabcd << 48, DefinitelyLost),
        // An address of the kernel.
        (100, |p| p | 0xffff << 48 | 1 << 47, DefinitelyLost),
    ];
    for (size, make, kind) in cases {
        let mut heap = Heap::default();
        let block = heap.block(size);
        let word = make(block);
        heap.root(RootKind::Static, &[word]);
        heap.check(&[finding(kind, 0, size, 1)]);
    }
}

#[test]
fn packed_structure() {
    let mut heap = Heap::default();
    let [packed, start, inner] = [40, 50, 60].map(|size| heap.block(size));
    heap.write(packed + 1, start);
    heap.write(packed + 11, inner + 8);
    heap.root(RootKind::Static, &[packed]);
    // An unaligned inner pointer is too easily met by chance.
    heap.check(&[
        finding(DefinitelyLost, 2, 60, 1),
        finding(PossiblyLost, 1, 50, 1),
        finding(StillReachable, 0, 40, 1),
    ]);
}

#[test]
fn below_a_possibly_lost_block_all_is_possibly_lost() {
    let mut heap = Heap::default();
    let [node, next, last] = [32, 24, 16].map(|size| heap.block(size));
    heap.write(node, next);
    heap.write(next, last | 1);
    heap.root(RootKind::Static, &[node | 1]);
    heap.check(&[
        finding(PossiblyLost, 0, 32, 1),
        finding(PossiblyLost, 1, 24, 1),
        finding(PossiblyLost, 2, 16, 1),
    ]);
}

#[test]
fn blocks_held_by_threads() {
    let mut heap = Heap::default();
    let [one, below, two, both, shared] = [90, 80, 70, 60, 50].map(|size| heap.block(size));
    heap.write(one, below);
    heap.thread(11, "poller", &[one, both, shared]);
    heap.thread(12, "worker", &[both]);
    heap.thread(12, "worker", &[two]);
    heap.thread(11, "poller", &[below]);
    heap.root(RootKind::Static, &[shared]);
    let held = |stack, bytes, name: Option<&str>| Finding {
        held_by: name.map(str::to_owned),
        ..finding(StillReachable, stack, bytes, 1)
    };
    heap.check(&[
        held(0, 90, Some("poller")),
        held(1, 80, Some("poller")),
        held(2, 70, Some("worker")),
        held(3, 60, None),
        held(4, 50, None),
    ]);
}

#[test]
fn what_a_second_thread_holds_it_holds_with_all_below() {
    let mut heap = Heap::default();
    let [top, middle, bottom] = [48, 32, 16].map(|size| heap.block(size));
    heap.write(top, middle);
    heap.write(middle, bottom);
    heap.thread(1, "a", &[top]);
    heap.thread(2, "b", &[middle]);
    heap.check(&[
        Finding { held_by: Some("a".to_owned()), ..finding(StillReachable, 0, 48, 1) },
        finding(StillReachable, 1, 32, 1),
        finding(StillReachable, 2, 16, 1),
    ]);
}

#[test]
fn a_list_of_a_million_nodes() {
    const NODES: u64 = 1_000_000;
    let mut heap = Heap::default();
    let nodes: Vec<_> = (0..NODES).map(|_| heap.block(16)).collect();
    for (memory, next) in heap.0.heap.iter_mut().zip(&nodes[1..]) {
        memory.bytes[..8].copy_from_slice(&next.to_le_bytes());
    }
    for block in &mut heap.0.blocks {
        block.stack = Some(0);
    }
    heap.check(&[
        leak_root(0, 16, ((NODES - 1) * 16, NODES - 1)),
        hanging(0, 0, (NODES - 1) * 16, NODES - 1),
    ]);
    heap.root(RootKind::Static, &[nodes[0]]);
    heap.check(&[finding(StillReachable, 0, NODES * 16, NODES)]);
    // Below what is possibly lost: the second way through the graph.
    heap.0.roots.clear();
    heap.root(RootKind::Static, &[nodes[0] | 1]);
    heap.check(&[Finding {
        measure: Measure { bytes: NODES * 16, blocks: NODES },
        ..finding(PossiblyLost, 0, 0, 0)
    }]);
}
