//! The ways to blocks, of heaps whose ways are plain to see.

use super::Heap;
use crate::model::{FindingKind, Held, HeldBy, Step, Through};
use crate::snapshot::{Part, RootKind, Snapshot, Storage};

/// The way of the finding with a call stack.
fn way(snapshot: &Snapshot, stack: usize) -> Vec<Step<usize>> {
    let findings = super::super::classify(snapshot);
    findings.into_iter().find(|finding| finding.stack == Some(stack)).unwrap().origin.chain
}

fn block(stack: usize, bytes: u64, offset: Option<u64>) -> Step<usize> {
    Step::Block(Through { stack: Some(stack), bytes, type_name: None, offset })
}

fn root(by: HeldBy, thread: Option<&str>, offset: u64) -> Step<usize> {
    Step::Root(Held { by, thread: thread.map(str::to_owned), offset, ..Held::default() })
}

#[test]
fn the_shortest_way_from_a_static() {
    let mut heap = Heap::default();
    let [table, near, far, last] = [64, 32, 24, 16].map(|size| heap.block(size));
    heap.write(table + 8, near);
    heap.write(table + 40, far);
    heap.write(near + 16, far + 8);
    heap.write(far, last);
    heap.root(RootKind::Static, &[0, table]);
    let snapshot = heap.snapshot();
    let start = root(HeldBy::Static, None, 0x7fff_0000_0008);
    assert_eq!(way(&snapshot, 0), [start.clone(), block(0, 64, None)]);
    let expected = [start, block(0, 64, Some(40)), block(2, 24, Some(0)), block(3, 16, None)];
    assert_eq!(way(&snapshot, 3), expected);
}

/// Of several blocks of one finding, the way to the largest; of those as large, to the nearest.
#[test]
fn the_largest_block_has_the_way() {
    let mut heap = Heap::default();
    let [small, first, second] = [8, 48, 48].map(|size| heap.block(size));
    heap.0.blocks.iter_mut().for_each(|block| block.stack = Some(7));
    heap.write(second + 40, first);
    heap.root(RootKind::Static, &[small, second]);
    let start = root(HeldBy::Static, None, 0x7fff_0000_0008);
    assert_eq!(way(&heap.snapshot(), 7), [start, block(7, 48, None)]);
}

#[test]
fn statics_come_before_threads_and_full_references_alone_lead_on() {
    let mut heap = Heap::default();
    let [block_of_both, tagged] = [32, 16].map(|size| heap.block(size));
    heap.write(block_of_both, tagged | 1);
    heap.thread(5, "worker", &[block_of_both, tagged]);
    heap.root(RootKind::Static, &[block_of_both]);
    let mut snapshot = heap.snapshot();
    snapshot.roots[0].part = Part::Stack;
    assert_eq!(way(&snapshot, 0)[0], root(HeldBy::Static, None, 0x7fff_0000_0000));
    assert_eq!(way(&snapshot, 1), [root(HeldBy::Stack, Some("worker"), 0), block(1, 16, None)]);
    snapshot.roots[0].part = Part::Registers;
    assert_eq!(way(&snapshot, 1)[0], root(HeldBy::Registers, Some("worker"), 0));
    // The same place in the thread's own variables, and behind those.
    snapshot.roots[0].part = Part::Stack;
    let storage =
        |end: u64| Storage { range: end - 8..end, descriptor: end..end + 64, thread: Some("worker".into()) };
    snapshot.storage = vec![storage(0x7fff_0000_0010)];
    assert_eq!(way(&snapshot, 1)[0], root(HeldBy::ThreadLocal, Some("worker"), 0x7fff_0000_0008));
    snapshot.storage = vec![storage(0x7fff_0000_0000)];
    assert_eq!(way(&snapshot, 1)[0], root(HeldBy::ThreadDescriptor, Some("worker"), 0));
}

#[test]
fn a_long_way_is_cut_in_the_middle() {
    let mut heap = Heap::default();
    let list: Vec<u64> = (0..100).map(|_| heap.block(16)).collect();
    for pair in list.windows(2) {
        heap.write(pair[0] + 8, pair[1]);
    }
    heap.root(RootKind::Static, &[list[0]]);
    let way = way(&heap.snapshot(), 99);
    assert_eq!(way.len(), 32);
    // A root, 15 blocks, what is left out, 15 blocks.
    assert_eq!(way[15], block(14, 16, Some(8)));
    assert_eq!(way[16], Step::More(70));
    assert_eq!(way[17], block(85, 16, Some(8)));
    assert_eq!(way[31], block(99, 16, None));
}

#[test]
fn the_way_around_a_lost_cycle() {
    let mut heap = Heap::default();
    let [first, second, third, apart, only] = [40, 48, 56, 64, 72].map(|size| heap.block(size));
    heap.write(first + 16, second);
    heap.write(second + 24, third);
    heap.write(third + 32, first);
    // A shorter way around, and something that hangs below.
    heap.write(second + 40, first + 8);
    heap.write(second, apart);
    heap.write(only + 64, only);
    let snapshot = heap.snapshot();
    assert_eq!(way(&snapshot, 0), [block(0, 40, Some(16)), block(1, 48, Some(40))]);
    assert_eq!(way(&snapshot, 4), [block(4, 72, Some(64))]);
    // Nothing leads back to what hangs below, nor is it a root.
    assert_eq!(way(&snapshot, 3), []);
    let findings = super::super::classify(&snapshot);
    let roots = findings.iter().filter(|finding| finding.kind == FindingKind::DefinitelyLost);
    assert_eq!(roots.count(), 2);
}
