//! The rules written down as sets, without any thought of speed: every word against every block, and
//! fixed points over all pairs.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{Image, Memory};
use crate::model::{Finding, FindingKind, Measure};
use crate::snapshot::{Before, Block, RootKind};

type Set = BTreeSet<usize>;

/// What `classify` is to return.
pub(super) fn classify(image: &Image) -> Vec<Finding<usize>> {
    let blocks = &image.blocks;
    let all: Set = (0..blocks.len()).collect();
    let contents: Vec<Memory> = blocks.iter().map(|block| contents(image, block)).collect();
    let full: Vec<Set> = contents.iter().map(|memory| references(blocks, memory).0).collect();
    let any: Vec<Set> = contents
        .iter()
        .map(|memory| {
            let (full, disguised) = references(blocks, memory);
            &full | &disguised
        })
        .collect();

    // What the roots of each holder lead to; `None` holds for all that is no thread of its own.
    let mut held: BTreeMap<Option<u32>, Set> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut seen = Set::new();
    for (kind, memory) in &image.roots {
        let holder = match kind {
            RootKind::Thread { id, name } => {
                names.insert(*id, name.clone());
                Some(*id)
            }
            _ => None,
        };
        let (direct, disguised) = references(blocks, memory);
        held.entry(holder).or_default().extend(closure(&full, &direct));
        seen.extend(closure(&any, &(&direct | &disguised)));
    }
    let reachable: Set = held.values().flatten().copied().collect();
    let lost = &all - &seen;

    let reported = |block: &usize| blocks[*block].in_window && !blocks[*block].runtime;
    let below: Vec<Set> = all.iter().map(|&block| closure(&any, &any[block])).collect();
    let leads = |from: usize, to: usize| below[from].contains(&to);
    let age = |block: usize| (blocks[block].time, blocks[block].address);
    // A root: whatever reported lost block leads to it, it leads back to, and it is the oldest of those.
    let is_root = |block: usize| {
        let mut above =
            lost.iter().copied().filter(|&other| other != block && reported(&other) && leads(other, block));
        above.all(|other| leads(block, other) && age(block) < age(other))
    };
    let roots: Set = lost.iter().copied().filter(|block| reported(block) && is_root(*block)).collect();

    let mut findings: Vec<Finding<usize>> = Vec::new();
    let mut add = |kind, stack, held_by: Option<String>, root: Option<usize>, bytes, below: Measure| {
        let same = |f: &&mut Finding<usize>| {
            f.kind == kind && f.stack == stack && f.held_by == held_by && f.root == root
        };
        match findings.iter_mut().find(same) {
            Some(finding) => {
                finding.measure.add(bytes);
                finding.below = finding.below + below;
            }
            None => findings.push(Finding {
                kind,
                stack,
                held_by,
                measure: Measure { bytes, blocks: 1 },
                below,
                root,
                before: Before::default(),
                process: None,
                origin: crate::model::Origin::default(),
                in_code: crate::model::InCode::default(),
            }),
        }
    };
    let none = Measure::default();
    let owner =
        |of: usize| roots.iter().copied().filter(|&root| leads(root, of)).min_by_key(|&root| age(root));
    for &block in all.iter().filter(|block| reported(block)) {
        let Block { stack, size, .. } = blocks[block];
        if reachable.contains(&block) {
            let holders: Vec<_> =
                held.iter().filter(|(_, held)| held.contains(&block)).map(|(id, _)| id).collect();
            let holder = if let [Some(id)] = holders[..] { Some(names[id].clone()) } else { None };
            add(FindingKind::StillReachable, stack, holder, None, size, none);
        } else if seen.contains(&block) {
            add(FindingKind::PossiblyLost, stack, None, None, size, none);
        } else if roots.contains(&block) {
            let mut owned = none;
            for &other in lost.iter().filter(|other| reported(other) && !roots.contains(other)) {
                if owner(other) == Some(block) {
                    owned.add(blocks[other].size);
                }
            }
            add(FindingKind::DefinitelyLost, stack, None, None, size, owned);
        } else {
            let root = owner(block).and_then(|root| blocks[root].stack);
            add(FindingKind::IndirectlyLost, stack, None, root, size, none);
        }
    }
    for bad in &image.bad_frees {
        let kind = if bad.double { FindingKind::DoubleFree } else { FindingKind::UnknownFree };
        add(kind, bad.stack, None, None, 0, none);
    }
    findings.sort_by_key(|f| {
        let Measure { bytes, blocks } = f.measure;
        (f.kind, u64::MAX - bytes, u64::MAX - blocks, f.stack, f.held_by.clone(), f.root)
    });
    findings
}

/// All that `from` leads to, `from` included.
fn closure(edges: &[Set], from: &Set) -> Set {
    let mut all = from.clone();
    loop {
        let next: Set =
            all.iter().flat_map(|&block| &edges[block]).copied().chain(all.iter().copied()).collect();
        if next == all {
            return all;
        }
        all = next;
    }
}

/// The bytes of a block that were copied, the rest as zeros.
fn contents(image: &Image, block: &Block) -> Memory {
    let byte = |address: u64| {
        let holder =
            image.heap.iter().find(|m| (m.address..m.address + m.bytes.len() as u64).contains(&address));
        holder.map_or(0, |memory| memory.bytes[(address - memory.address) as usize])
    };
    let bytes = (block.address..block.address + block.size).map(byte).collect();
    Memory { address: block.address, bytes }
}

/// The blocks that some memory refers to: fully and disguised.
fn references(blocks: &[Block], memory: &Memory) -> (Set, Set) {
    let (mut full, mut disguised) = (Set::new(), Set::new());
    for offset in 0..(memory.bytes.len() + 1).saturating_sub(8) {
        let word = (0..8).fold(0u64, |word, i| word | u64::from(memory.bytes[offset + i]) << (8 * i));
        let aligned = (memory.address + offset as u64).is_multiple_of(8);
        for (index, block) in blocks.iter().enumerate() {
            let start = block.address;
            let inside = |address: u64| address == start || address > start && address < start + block.size;
            let tagged = |address: u64| (1..8).any(|tag| start.is_multiple_of(8) && address == start + tag);
            if !aligned {
                if word == start {
                    disguised.insert(index);
                }
                continue;
            }
            let (high, user) = (word >> 48, word % (1 << 48));
            if inside(word) {
                if tagged(word) {
                    disguised.insert(index);
                } else {
                    full.insert(index);
                }
            }
            if high != 0 && user < 1 << 47 {
                // The tag gives way to a block that has this very byte.
                let other = blocks.iter().any(|b| b.address <= user && user < b.address + b.size.max(1));
                if inside(user) || !other && tagged(user) {
                    disguised.insert(index);
                }
            }
        }
    }
    (full, disguised)
}
