//! A process's memory at its exit, and the snapshot that is made of it.

use crate::references::{self, Contents, Finder};
use crate::snapshot::{BadFree, Block, Part, References, Root, RootKind, Snapshot};

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
    /// Reads everything in pieces of so many bytes.
    pub(super) fn snapshot(&self, piece: usize) -> Snapshot {
        let blocks = self.blocks.iter().cloned().collect();
        let finder = Finder::new(&blocks);
        let pieces = |memory: &Memory, read: &mut dyn FnMut(u64, &[u8])| {
            let mut address = memory.address;
            for piece in memory.bytes.chunks(piece) {
                read(address, piece);
                address += piece.len() as u64;
            }
        };
        let parts = blocks.places().chunks(References::PART).enumerate().map(|(part, places)| {
            let mut contents = Contents::of(&finder, part);
            let end = |memory: &Memory| memory.address + memory.bytes.len() as u64;
            let first = self.heap.partition_point(|memory| end(memory) <= places[0].start);
            let last = places[places.len() - 1].end();
            for memory in self.heap[first..].iter().take_while(|memory| memory.address < last) {
                pieces(memory, &mut |address, bytes| contents.read(address, bytes));
            }
            contents.finish()
        });
        let references = References::of_parts(parts.collect());
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
