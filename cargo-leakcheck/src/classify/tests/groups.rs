//! What is reported at all, under what, and in which order.

use super::image::Memory;
use super::{Heap, finding, hanging, leak_root};
use crate::model::{Finding, FindingKind::*};
use crate::snapshot::{BadFree, Before, RootKind};

#[test]
fn nothing_alive() {
    let mut heap = Heap::default();
    heap.check(&[]);
    heap.block(10);
    heap.last().in_window = false;
    heap.block(20);
    heap.last().runtime = true;
    heap.check(&[]);
}

#[test]
fn held_and_shared_blocks_of_one_stack_are_two_findings() {
    let mut heap = Heap::default();
    let [held, shared] = [10, 20].map(|size| heap.block(size));
    heap.0.blocks[1].stack = Some(0);
    heap.thread(1, "a", &[held]);
    heap.root(RootKind::Main, &[shared]);
    heap.check(&[
        finding(StillReachable, 0, 20, 1),
        Finding { held_by: Some("a".to_owned()), ..finding(StillReachable, 0, 10, 1) },
    ]);
}

#[test]
fn blocks_outside_the_window_pass_references_on() {
    let mut heap = Heap::default();
    let [outside, inside] = [64, 32].map(|size| heap.block(size));
    heap.0.blocks[0].in_window = false;
    heap.write(outside, inside);
    // Both lost: the report needs a root.
    heap.check(&[finding(DefinitelyLost, 1, 32, 1)]);
    heap.root(RootKind::Static, &[outside]);
    heap.check(&[finding(StillReachable, 1, 32, 1)]);
}

#[test]
fn a_lost_block_below_another_through_one_that_is_not_reported() {
    for runtime in [false, true] {
        let mut heap = Heap::default();
        let [top, between, bottom] = [64, 48, 32].map(|size| heap.block(size));
        heap.0.blocks[1].runtime = runtime;
        heap.0.blocks[1].in_window = runtime;
        heap.write(top, between);
        heap.write(between, bottom);
        heap.check(&[leak_root(0, 64, (32, 1)), hanging(2, 0, 32, 1)]);
    }
}

#[test]
fn a_cycle_is_not_reported_under_a_block_outside_the_window() {
    let mut heap = Heap::default();
    let [outside, inside] = [16, 32].map(|size| heap.block(size));
    heap.0.blocks[0].in_window = false;
    heap.write(outside, inside);
    heap.write(inside, outside);
    heap.check(&[finding(DefinitelyLost, 1, 32, 1)]);
}

#[test]
fn lost_stacks_are_one_group_and_missing_memory_has_no_references() {
    let mut heap = Heap::default();
    let [a, b, c] = [32, 16, 0].map(|size| heap.block(size));
    heap.write(a, b);
    heap.root(RootKind::Static, &[a, c]);
    for block in &mut heap.0.blocks {
        block.stack = None;
    }
    heap.0.heap.remove(0);
    let group = |kind, bytes, blocks| Finding { stack: None, ..finding(kind, 0, bytes, blocks) };
    heap.check(&[group(DefinitelyLost, 16, 1), group(StillReachable, 32, 2)]);
}

#[test]
fn a_block_copied_in_pieces() {
    let mut heap = Heap::default();
    let [first, last, holder] = [16, 24, 64].map(|size| heap.block(size));
    heap.write(holder, first);
    heap.write(holder + 56, last);
    let whole = heap.0.heap.pop().expect("three blocks have memory");
    heap.0.heap.push(Memory { address: holder, bytes: whole.bytes[..16].to_vec() });
    heap.0.heap.push(Memory { address: holder + 40, bytes: [&whole.bytes[40..], &[0; 8]].concat() });
    heap.root(RootKind::Static, &[holder]);
    heap.check(&[
        finding(StillReachable, 2, 64, 1),
        finding(StillReachable, 1, 24, 1),
        finding(StillReachable, 0, 16, 1),
    ]);
}

#[test]
fn bad_frees_are_grouped_by_stack_and_need_no_block() {
    let mut heap = Heap::default();
    for (double, stack) in
        [(false, Some(3)), (true, Some(1)), (true, None), (true, Some(1)), (false, Some(2))]
    {
        heap.0.bad_frees.push(BadFree { address: 0x1000, double, stack, before: Before::default() });
    }
    heap.check(&[
        finding(DoubleFree, 1, 0, 2),
        Finding { stack: None, ..finding(DoubleFree, 0, 0, 1) },
        finding(UnknownFree, 2, 0, 1),
        finding(UnknownFree, 3, 0, 1),
    ]);
}

#[test]
fn largest_first_within_a_kind() {
    let mut heap = Heap::default();
    for (size, stack) in [(5, 9), (8, 4), (8, 3), (4, 2), (4, 2), (0, 1)] {
        heap.block(size);
        heap.last().stack = Some(stack);
    }
    heap.check(&[
        finding(DefinitelyLost, 2, 8, 2),
        finding(DefinitelyLost, 3, 8, 1),
        finding(DefinitelyLost, 4, 8, 1),
        finding(DefinitelyLost, 9, 5, 1),
        finding(DefinitelyLost, 1, 0, 1),
    ]);
}
