//! The ledger's tables, on this machine's memory.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use crate::layout::{block, control, stack};
use crate::pool::Pool;
use crate::table::{BLOCK_ROOTS, Blocks, STACK_ROOTS, Stacks};
use crate::thread::CallStack;

/// Words that live for ever, as the ledger's do.
fn words(count: usize) -> &'static [AtomicU64] {
    (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn roots(count: usize) -> AtomicU64 {
    AtomicU64::new(words(count.div_ceil(2)).as_ptr().addr() as u64)
}

fn pool<const UNIT: usize, const FIRST: usize>() -> Pool<UNIT, FIRST> {
    let next = &words(1)[0];
    next.store(1, std::sync::atomic::Ordering::Relaxed);
    let pool = Pool::new(words(control::CHUNKS), next);
    pool.first_chunk();
    pool
}

fn blocks() -> &'static Blocks {
    Box::leak(Box::new(Blocks {
        pool: pool::<{ block::WORDS }, { block::FIRST }>(),
        roots: roots(BLOCK_ROOTS),
    }))
}

/// Threads that write at once into one trie: every address has a record of its own, and keeps it.
#[test]
fn addresses_have_records_of_their_own() {
    let blocks = blocks();
    // Side by side in pages, far apart, and closer than the smallest block of any allocator.
    let address = |thread: usize, n: usize| {
        0x7f00_0000_0000 + thread * 0x1000 + n * 32 + n / 100 * (1 << 30) + (n % 2) * 8
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..10_000 {
                    let record = blocks.find_or_make(address(thread * 50, n)).unwrap();
                    record.write(n as u64, 7, thread as u32, block::LIVE | (n as u64) << 32);
                }
            });
        }
    });
    for thread in 0..4 {
        for n in 0..10_000 {
            let record = blocks.find(address(thread * 50, n)).unwrap();
            assert_eq!(record.flags(), block::LIVE | (n as u64) << 32);
        }
    }
    assert!(blocks.find(0x1234).is_none());
    let again = blocks.find_or_make(address(0, 5)).unwrap();
    assert_eq!(again.flags() >> 32, 5, "an address that is known has its record still");
}

/// A `realloc` that lost its old address to another thread leaves the other's block alone.
#[test]
fn flags_are_replaced_only_where_nobody_else_has() {
    let record = blocks().find_or_make(0x1000).unwrap();
    let moving = block::LIVE | block::MOVING | 1 << 32;
    record.set_flags(moving);
    record.replace_flags(moving, 1 << 32);
    assert_eq!(record.flags(), 1 << 32);
    record.set_flags(block::LIVE | 2 << 32);
    record.replace_flags(moving, 1 << 32);
    assert_eq!(record.flags(), block::LIVE | 2 << 32);
}

/// Equal stacks have one number, from whichever thread; others have others, also those with one hash.
#[test]
fn stacks_are_told_by_their_frames() {
    let stacks: &Stacks =
        Box::leak(Box::new(Stacks { pool: pool::<1, { stack::FIRST }>(), roots: roots(STACK_ROOTS) }));
    let number = |n: u64, hash: u64| {
        let frames: Vec<u64> = (0..n % 127 + 1).map(|frame| frame * 3 + n).collect();
        stacks.number(CallStack { frames: &frames, hash }).unwrap()
    };
    let all = |hash: fn(u64) -> u64| -> Vec<u32> { (0..3000).map(|n| number(n, hash(n))).collect() };
    let lists: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| all(|n| n % 50))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(lists.iter().all(|list| *list == lists[0]));
    let different: HashSet<u32> = lists[0].iter().copied().collect();
    assert_eq!(different.len(), 3000);
}

/// No record lies in two chunks.
#[test]
fn records_stay_in_one_chunk() {
    let pool = pool::<1, 64>();
    for n in 0..2000 {
        let count = n % 60 + 1;
        let start = pool.take(count).unwrap() as usize;
        let chunk = |number| crate::layout::place(number, 64).0;
        assert_eq!(chunk(start), chunk(start + count - 1));
        // All of it can be written to.
        let words = pool.words(start as u32);
        for word in 0..count {
            // SAFETY: so many words were taken.
            unsafe { (*words.add(word)).store(1, std::sync::atomic::Ordering::Relaxed) };
        }
    }
}
