//! Random small heaps, classified as the oracle does.

use proptest::collection::vec;
use proptest::prelude::*;

use super::image::{Image, Memory};
use super::oracle;
use crate::snapshot::{BadFree, Before, Block, RootKind};

/// A word that may refer to a block; blocks are numbers to be taken modulo their count.
#[derive(Clone, Debug)]
enum Word {
    Start(usize),
    Inner(usize, u64),
    End(usize),
    Tagged(usize, u64),
    High(usize, u64, u64),
    Any(u64),
}

fn word() -> impl Strategy<Value = Word> {
    let block = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        4 => block().prop_map(Word::Start),
        2 => (block(), 0..48u64).prop_map(|(block, offset)| Word::Inner(block, offset)),
        1 => block().prop_map(Word::End),
        2 => (block(), 1..8u64).prop_map(|(block, tag)| Word::Tagged(block, tag)),
        2 => (block(), 1..=0xffffu64, 0..32u64).prop_map(|(block, high, low)| Word::High(block, high, low)),
        1 => prop_oneof![Just(0), Just(u64::MAX), any::<u64>()].prop_map(Word::Any),
    ]
}

impl Word {
    fn value(&self, blocks: &[Block]) -> u64 {
        let pick = |block: usize| &blocks[block % blocks.len()];
        match *self {
            Self::Start(block) => pick(block).address,
            Self::Inner(block, offset) => pick(block).address + offset % pick(block).size.max(1),
            Self::End(block) => pick(block).address + pick(block).size,
            Self::Tagged(block, tag) => pick(block).address | tag,
            Self::High(block, high, low) => (pick(block).address + low) | (high << 48),
            Self::Any(word) => word,
        }
    }
}

/// Where a word goes, in bytes: mostly aligned.
fn offset() -> impl Strategy<Value = usize> {
    prop_oneof![3 => (0..6usize).prop_map(|word| word * 8), 1 => 0..48usize]
}

fn block() -> impl Strategy<Value = (u64, Block)> {
    let size = prop_oneof![1 => Just(0u64), 2 => 1..=8u64, 4 => 9..=48u64];
    // Some start where the one before ends; some are far away.
    let gap = prop_oneof![4 => Just(0u64), 4 => Just(16), 1 => Just(4096), 1 => Just(1 << 21)];
    let stack = prop_oneof![1 => Just(None), 6 => (0..3usize).prop_map(Some)];
    (size, gap, stack, prop::bool::weighted(0.8), prop::bool::weighted(0.1), 0..4u64).prop_map(
        |(size, gap, stack, in_window, runtime, time)| {
            (gap, Block { address: 0, size, stack, in_window, runtime, time })
        },
    )
}

fn root() -> impl Strategy<Value = (RootKind, u64, Vec<(usize, Word)>)> {
    let thread = (1..4u32).prop_map(|id| RootKind::Thread { id, name: format!("thread-{id}") });
    let kind = prop_oneof![
        Just(RootKind::Static),
        Just(RootKind::Main),
        Just(RootKind::FinishedThread),
        thread.clone(),
        thread.clone(),
        thread,
    ];
    let address = prop_oneof![4 => Just(0u64), 1 => Just(0x7fff_0000_0003)];
    (kind, address, vec((offset(), word()), 0..3))
}

fn write(memory: &mut Memory, words: &[(usize, Word)], blocks: &[Block]) {
    for (offset, word) in words {
        if let Some(bytes) = memory.bytes.get_mut(*offset..offset + 8) {
            bytes.copy_from_slice(&word.value(blocks).to_le_bytes());
        }
    }
}

fn image() -> impl Strategy<Value = Image> {
    // Each block with its words, and whether its memory was copied.
    let blocks = vec((block(), vec((offset(), word()), 0..4), prop::bool::weighted(0.95)), 1..10);
    let bad_frees = vec((any::<bool>(), prop::option::of(0..2usize)), 0..3);
    (blocks, vec(root(), 0..5), bad_frees).prop_map(|(parts, roots, bad_frees)| {
        let mut image = Image::default();
        let mut end = 0x5555_0000_0000u64;
        for ((gap, block), ..) in &parts {
            let address = (end + gap).next_multiple_of(8);
            end = address + block.size.max(1);
            image.blocks.push(Block { address, ..block.clone() });
        }
        for (block, (_, words, copied)) in image.blocks.iter().zip(&parts) {
            let mut memory = Memory { address: block.address, bytes: vec![0; block.size as usize] };
            write(&mut memory, words, &image.blocks);
            // Neighbours may have been copied together.
            match image.heap.last_mut() {
                Some(last) if *copied && last.address + last.bytes.len() as u64 == memory.address => {
                    last.bytes.extend(memory.bytes);
                }
                _ if *copied => image.heap.push(memory),
                _ => {}
            }
        }
        for (kind, address, words) in roots {
            let mut memory = Memory { address, bytes: vec![0; 61] };
            write(&mut memory, &words, &image.blocks);
            image.roots.push((kind, memory));
        }
        let bad_free = |(double, stack)| BadFree { address: 1, double, stack, before: Before::default() };
        image.bad_frees = bad_frees.into_iter().map(bad_free).collect();
        image
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_the_oracle_does(image in image(), piece in 1..600usize) {
        let snapshot = image.snapshot(piece);
        prop_assert_eq!(super::classified(&snapshot), oracle::classify(&image));
    }
}
