//! A process's memory at its exit, and the snapshot that is made of it.

use crate::references::{self, Contents, Finder};
use crate::snapshot::{BadFree, Block, Part, Root, RootKind, Snapshot};

/// Bytes of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Address of the first one.
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// What a snapshot is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// By ascending address.
    pub(super) blocks: Vec<Block>,
    /// Memory that holds blocks; ascending, without overlap.
    pub(super) heap: Vec<Memory>,
    pub(super) roots: Vec<(RootKind, Memory)>,
    pub(super) bad_frees: Vec<BadFree>,
}

impl Image {
    /// Reads everything in pieces of so many bytes, blocks from number `half` on apart from the others.
    pub(super) fn snapshot(&self, piece: usize, half: usize) -> Snapshot {
        let blocks = self.blocks.iter().cloned().collect();
        let finder = Finder::new(&blocks);
        let pieces = |memory: &Memory, read: &mut dyn FnMut(u64, &[u8])| {
            let mut address = memory.address;
            for piece in memory.bytes.chunks(piece) {
                read(address, piece);
                address += piece.len() as u64;
            }
        };
        let (mut first, mut later) = (Contents::from(&finder, 0), Contents::from(&finder, half));
        let border = self.blocks.get(half).map_or(u64::MAX, |block| block.address);
        for memory in &self.heap {
            pieces(memory, &mut |address, bytes| {
                let before = border.saturating_sub(address).min(bytes.len() as u64);
                let (before, after) = bytes.split_at(before as usize);
                first.read(address, before);
                later.read(address + before.len() as u64, after);
            });
        }
        let mut references = first.finish();
        references.append(later.finish());
        let roots = self.roots.iter().map(|(kind, memory)| {
            let mut read = references::Memory::new(&finder, references::Which::First);
            pieces(memory, &mut |address, bytes| read.read(address, bytes));
            let (references, places) = read.finish();
            Root { kind: kind.clone(), part: Part::Data, references, places }
        });
        let roots = roots.collect();
        Snapshot { blocks, references, roots, bad_frees: self.bad_frees.clone(), ..Snapshot::default() }
    }
}
