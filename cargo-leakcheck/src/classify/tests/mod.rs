//! Cases with a known answer, and random heaps against a slow oracle.

mod cases;
mod chains;
mod groups;
mod image;
mod marks;
mod oracle;
mod random;

use crate::model::{Finding, FindingKind, Measure};
use crate::snapshot::{Before, Block, RootKind, Snapshot};
use image::{Image, Memory};

/// A snapshot in the making.
#[derive(Default)]
struct Heap(Image);

impl Heap {
    /// Adds a block behind the last one, allocated after it, with a call stack of its own. Returns
    /// its address, a multiple of 16 as from malloc.
    fn block(&mut self, size: u64) -> u64 {
        let end = self.0.blocks.last().map_or(0x5555_0000_0000, |last| last.address + last.size);
        let address = (end + 8).next_multiple_of(16);
        let index = self.0.blocks.len();
        self.0.blocks.push(Block {
            address,
            size,
            stack: Some(index),
            in_window: true,
            runtime: false,
            time: 1000 + index as u64,
        });
        self.0.heap.push(Memory { address, bytes: vec![0; size as usize] });
        address
    }

    /// The record of the block last added.
    fn last(&mut self) -> &mut Block {
        self.0.blocks.last_mut().expect("a block was added")
    }

    /// Writes a word at any address in a block.
    fn write(&mut self, address: u64, word: u64) {
        let index = self.0.heap.partition_point(|memory| memory.address <= address) - 1;
        let memory = &mut self.0.heap[index];
        let offset = (address - memory.address) as usize;
        memory.bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn root(&mut self, kind: RootKind, words: &[u64]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.0.roots.push((kind, Memory { address: 0x7fff_0000_0000, bytes }));
    }

    fn thread(&mut self, id: u32, name: &str, words: &[u64]) {
        self.root(RootKind::Thread { id, name: name.to_owned() }, words);
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot(1 << 16)
    }

    #[track_caller]
    fn check(&self, expected: &[Finding<usize>]) {
        assert_eq!(classified(&self.snapshot()), expected);
    }
}

/// What `classify` makes of a snapshot, without the ways to blocks.
fn classified(snapshot: &Snapshot) -> Vec<Finding<usize>> {
    let mut findings = super::classify(snapshot);
    findings.iter_mut().for_each(|finding| finding.origin.chain.clear());
    findings
}

/// A finding of one or more blocks with the given call stack.
fn finding(kind: FindingKind, stack: usize, bytes: u64, blocks: u64) -> Finding<usize> {
    let measure = Measure { bytes, blocks };
    Finding {
        kind,
        measure,
        stack: Some(stack),
        below: Measure::default(),
        root: None,
        held_by: None,
        before: Before::default(),
        process: None,
        origin: crate::model::Origin::default(),
        in_code: crate::model::InCode::default(),
    }
}

/// Blocks that hang below a leak root with another call stack.
fn hanging(stack: usize, root: usize, bytes: u64, blocks: u64) -> Finding<usize> {
    Finding { root: Some(root), ..finding(FindingKind::IndirectlyLost, stack, bytes, blocks) }
}

/// A definitely lost block with something below.
fn leak_root(stack: usize, size: u64, below: (u64, u64)) -> Finding<usize> {
    let below = Measure { bytes: below.0, blocks: below.1 };
    Finding { below, ..finding(FindingKind::DefinitelyLost, stack, size, 1) }
}
