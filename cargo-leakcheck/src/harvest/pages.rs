//! Copies memory out of a process, leaving out pages that were never touched: reading them would
//! make them exist.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use nix::unistd::Pid;

use crate::snapshot::{Block, Loss, Memory};
use crate::trace::read;

const PAGE: u64 = 4096;
/// Smaller ranges are read whole: asking costs more.
const WORTH_ASKING: u64 = 1 << 20;
/// Blocks closer to each other than this are read together.
const GAP: u64 = 4096;

/// Copies a range; also the part of it that could not be read.
pub fn read_range(reader: Pid, range: Range<u64>) -> (Vec<Memory>, Option<Range<u64>>) {
    let mut memory = Vec::new();
    let mut missing = None;
    for part in touched(reader, &range) {
        let bytes = read(reader, part.start, (part.end - part.start) as usize);
        let end = part.start + bytes.len() as u64;
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

/// The parts of a range that exist (Documentation/admin-guide/mm/pagemap.rst): present or swapped
/// out. The whole range where it is small or the kernel does not tell.
fn touched(reader: Pid, range: &Range<u64>) -> Vec<Range<u64>> {
    if range.end - range.start < WORTH_ASKING {
        return vec![range.clone()];
    }
    let Ok(map) = File::open(format!("/proc/{reader}/pagemap")) else { return vec![range.clone()] };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut entries = vec![0; 8 * 4096];
    let (mut page, last) = (range.start / PAGE, range.end.div_ceil(PAGE));
    while page < last {
        let wanted = ((last - page) as usize * 8).min(entries.len());
        match map.read_at(&mut entries[..wanted], page * 8) {
            Ok(count) if count >= 8 => {
                for entry in entries[..count].chunks_exact(8) {
                    let exists = entry[7] & 0b1100_0000 != 0;
                    let (start, end) = (page * PAGE, (page + 1) * PAGE);
                    match parts.last_mut() {
                        Some(part) if exists && part.end == start => part.end = end,
                        _ if exists => parts.push(start..end),
                        _ => {}
                    }
                    page += 1;
                }
            }
            _ => return vec![range.clone()],
        }
    }
    for part in &mut parts {
        *part = part.start.max(range.start)..part.end.min(range.end);
    }
    parts
}
