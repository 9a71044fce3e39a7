//! Copies memory out of a process, leaving out pages that were never touched: reading them would
//! make them exist.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use nix::unistd::Pid;

use super::proc::mappings;
use crate::snapshot::{Block, Loss, Mapping, Memory};
use crate::trace::{read, read_protected};

const PAGE: u64 = 4096;
/// Smaller ranges are read whole: asking costs more.
const WORTH_ASKING: u64 = 1 << 20;
/// Of ranges of this size only what is mapped is asked for: they may be nonsense that the process has
/// written, and asking for what does not exist takes as long.
const IMPLAUSIBLE: u64 = 1 << 30;
/// Blocks closer to each other than this are read together.
const GAP: u64 = 4096;

/// Copies a range; also the part of it that could not be read.
pub fn read_range(reader: Pid, range: Range<u64>) -> (Vec<Memory>, Option<Range<u64>>) {
    let mut memory = Vec::new();
    let mut missing = None;
    for part in touched(reader, &range) {
        let mut bytes = read(reader, part.start, (part.end - part.start) as usize);
        let mut end = part.start + bytes.len() as u64;
        if end < part.end {
            bytes.extend(read_protected(reader, end, (part.end - end) as usize));
            end = part.start + bytes.len() as u64;
        }
        if end < part.end {
            missing = Some(end..part.end);
        }
        if !bytes.is_empty() {
            memory.push(Memory { address: part.start, bytes });
        }
    }
    (memory, missing)
}

/// Copies the memory of blocks, which are in ascending order; also what of it could not be read.
pub fn read_blocks(reader: Pid, blocks: &[Block]) -> (Vec<Memory>, Vec<Loss>) {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        let end = block.address.saturating_add(block.size);
        match ranges.last_mut() {
            Some(last) if block.address <= last.end.saturating_add(GAP) => last.end = last.end.max(end),
            _ => ranges.push(block.address..end),
        }
    }
    let (mut memory, mut unread) = (Vec::new(), Vec::new());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        let (parts, missing) = read_range(reader, range);
        memory.extend(parts);
        if let Some(missing) = missing {
            let bytes = missing.end - missing.start;
            unread.push(Loss::Memory { address: missing.start, bytes, name: "heap".into() });
        }
    }
    (memory, unread)
}

/// Bits of an entry of a page map (Documentation/admin-guide/mm/pagemap.rst): the page is present, or
/// swapped out, or a file's.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// The parts of a range that exist. The whole range where it is small or the kernel does not tell.
fn touched(reader: Pid, range: &Range<u64>) -> Vec<Range<u64>> {
    if range.end - range.start < WORTH_ASKING {
        return vec![range.clone()];
    }
    let mut existing = vec![range.clone()];
    if range.end - range.start >= IMPLAUSIBLE {
        let mappings = mappings(reader).unwrap_or_default();
        let inside =
            |mapping: Mapping| mapping.range.start.max(range.start)..mapping.range.end.min(range.end);
        existing = mappings.into_iter().map(inside).filter(|part| part.start < part.end).collect();
    }
    let touched = |part: Range<u64>| parts(reader, &part, |_| true).unwrap_or_else(|| vec![part]);
    existing.into_iter().flat_map(touched).collect()
}

/// The parts of a range that the process has written to: of a file's mapping its own copies.
pub fn written(reader: Pid, range: &Range<u64>) -> Vec<Range<u64>> {
    parts(reader, range, |entry| entry & OF_A_FILE == 0).unwrap_or_default()
}

/// The pages of a range that exist and are wanted, those side by side as one; none where the kernel
/// does not tell.
fn parts(reader: Pid, range: &Range<u64>, wanted: impl Fn(u64) -> bool) -> Option<Vec<Range<u64>>> {
    let map = File::open(format!("/proc/{reader}/pagemap")).ok()?;
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut entries = vec![0; 8 * 4096];
    let (mut page, last) = (range.start / PAGE, range.end.div_ceil(PAGE));
    while page < last {
        let room = ((last - page) as usize * 8).min(entries.len());
        let count = map.read_at(&mut entries[..room], page * 8).ok().filter(|count| *count >= 8)?;
        for entry in entries[..count].chunks_exact(8) {
            let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of 8"));
            let (start, end) = (page * PAGE, (page + 1) * PAGE);
            match parts.last_mut() {
                _ if entry & (PRESENT | SWAPPED) == 0 || !wanted(entry) => {}
                Some(part) if part.end == start => part.end = end,
                _ => parts.push(start..end),
            }
            page += 1;
        }
    }
    for part in &mut parts {
        *part = part.start.max(range.start)..part.end.min(range.end);
    }
    Some(parts)
}
