//! Random memory, read word by word as the rules say.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Contents, Finder, Memory, Which};
use crate::snapshot::{Block, Blocks, Reference, References};

fn blocks(places: &[(u64, u64)]) -> Blocks {
    let block = |&(address, size): &(u64, u64)| Block {
        address,
        size,
        stack: None,
        in_window: true,
        runtime: false,
        time: 0,
    };
    places.iter().map(block).collect()
}

/// The reference that the word at a place is, by the rules alone.
fn reference(places: &[(u64, u64)], place: u64, word: u64) -> Option<Reference> {
    let at = |address: u64| {
        places.iter().position(|(start, size)| (*start..start + size.max(&1)).contains(&address))
    };
    let start = |address: u64| places.iter().position(|place| place.0 == address);
    if !place.is_multiple_of(8) {
        return Some(Reference::new(start(word)?, true));
    }
    if let Some(block) = at(word) {
        let tagged = word != places[block].0 && word / 8 * 8 == places[block].0;
        return Some(Reference::new(block, tagged));
    }
    // An address, of the program's or of the kernel's.
    if !(1 << 47..u64::MAX << 47).contains(&word) {
        return None;
    }
    let address = word % (1 << 48);
    Some(Reference::new(at(address).or_else(|| start(address / 8 * 8))?, true))
}

/// Blocks side by side or apart, some further than 2^40 from each other.
fn places() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let size = prop_oneof![Just(0u64), 1..=8u64, 9..=300u64];
    let gap = prop_oneof![4 => Just(0u64), 4 => Just(16), 1 => Just(1 << 21), 1 => Just(1 << 41)];
    let first = prop_oneof![Just(0x10_0000_0000u64), Just(0x5555_0000_0000), Just(0xff_ffff_ff00)];
    (first, vec((gap, size), 1..12)).prop_map(|(first, parts)| {
        let mut end = first;
        let place = |(gap, size): (u64, u64)| {
            let start = (end + gap).next_multiple_of(8);
            end = start + size.max(1);
            (start, size)
        };
        parts.into_iter().map(place).collect()
    })
}

/// Memory full of words that are references, or nearly so.
fn memory() -> impl Strategy<Value = (Vec<(u64, u64)>, Vec<u8>)> {
    let word = (any::<prop::sample::Index>(), -9..310i64, prop_oneof![3 => Just(0u64), 1 => 0..=0xffffu64]);
    let filler = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    (places(), vec(filler, 8..700), vec((word, any::<prop::sample::Index>(), any::<bool>()), 0..24)).prop_map(
        |(places, mut bytes, words)| {
            for ((block, offset, high), at, aligned) in words {
                let word = block.get(&places).0.wrapping_add_signed(offset % 16 * (offset % 3)) | high << 48;
                let at = at.index(bytes.len() - 7);
                let at = if aligned { at / 8 * 8 } else { at };
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            (places, bytes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_read_by_the_rules((places, bytes) in memory(), address in 0..9u64, piece in 1..400usize) {
        let blocks = blocks(&places);
        let finder = Finder::new(&blocks);
        let mut read = [Which::First, Which::Last].map(|which| Memory::new(&finder, which));
        let mut next = address;
        for piece in bytes.chunks(piece) {
            read.iter_mut().for_each(|read| read.read(next, piece));
            next += piece.len() as u64;
        }
        let words = (address..).zip(bytes.array_windows::<8>());
        let mut expected = BTreeMap::new();
        for (place, word) in words {
            if let Some(reference) = reference(&places, place, u64::from_le_bytes(*word)) {
                expected.entry(reference).or_insert((place, place)).1 = place;
            }
        }
        let [first, last] = read.map(Memory::finish);
        let places: (Vec<u64>, Vec<u64>) = expected.values().copied().unzip();
        let expected: Vec<Reference> = expected.into_keys().collect();
        prop_assert_eq!(first, (expected.clone(), places.0));
        prop_assert_eq!(last, (expected, places.1));
    }

    #[test]
    fn contents_are_read_by_the_rules((places, mut bytes) in memory(), from in -40..40i64, piece in 1..400usize) {
        let blocks = blocks(&places);
        let finder = Finder::new(&blocks);
        let address = places[0].0.wrapping_add_signed(from);
        bytes.truncate(600);
        let parts = (0..places.len().div_ceil(References::PART)).map(|part| {
            let mut read = Contents::of(&finder, part);
            let mut next = address;
            for piece in bytes.chunks(piece) {
                read.read(next, piece);
                next += piece.len() as u64;
            }
            read.finish()
        });
        let found = References::of_parts(parts.collect());
        for (block, (start, size)) in places.iter().enumerate() {
            let inside = |place: &u64| *place >= *start && *place + 8 <= start + size;
            let words = (address..).zip(bytes.array_windows::<8>()).filter(|(place, _)| inside(place));
            let expected: Vec<(u64, Reference)> = words
                .filter_map(|(place, word)| {
                    Some((place - start, reference(&places, place, u64::from_le_bytes(*word))?))
                })
                .collect();
            let references: Vec<_> = expected.iter().map(|(_, reference)| *reference).collect();
            prop_assert_eq!(found.of(block), references, "block {}", block);
            for to in 0..places.len() {
                let first = expected.iter().find(|(_, reference)| reference.block() == to);
                let offset = first.map(|(offset, _)| *offset).filter(|offset| offset.is_multiple_of(8));
                prop_assert_eq!(found.offset(block, to), offset, "block {} to {}", block, to);
            }
        }
    }
}

#[test]
fn blocks_where_no_process_has_any_are_survived() {
    // Such addresses come from a process that has written over its records.
    for places in [vec![(u64::MAX - 1, u64::MAX)], vec![(0, 8), (1 << 60, 8)], vec![(16, 1 << 60), (32, 8)]] {
        let blocks = blocks(&places);
        let finder = Finder::new(&blocks);
        let words = [0, 4, 16, 1 << 60, u64::MAX - 1, u64::MAX, 0x5555_0000_0000];
        let mut read = Memory::new(&finder, Which::First);
        read.read(0, &words.map(u64::to_le_bytes).concat().repeat(3));
        assert!(read.finish().0.iter().all(|reference| reference.block() < places.len()));
    }
}
