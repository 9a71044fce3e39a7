//! Reads memory of a process, leaving out pages that were never touched: reading them would make them
//! exist.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use nix::unistd::Pid;

use super::proc::mappings;
use crate::snapshot::Mapping;
use crate::trace::{read_into, read_protected};

const PAGE: u64 = 4096;
/// Smaller ranges are read whole: asking costs more.
const WORTH_ASKING: u64 = 1 << 20;
/// Of ranges of this size only what is mapped is asked for: they may be nonsense that the process has
/// written, and asking for what does not exist takes as long.
const IMPLAUSIBLE: u64 = 1 << 30;
/// Bytes that are read at a time: they stay in the cache until they have been looked at.
const PIECE: usize = 256 << 10;

/// Memory of a process that is read in pieces.
pub struct Pages {
    reader: Pid,
    /// The piece that was read last.
    piece: Vec<u8>,
}

impl Pages {
    /// Of the process that a thread belongs to.
    pub fn of(reader: Pid) -> Self {
        Self { reader, piece: Vec::new() }
    }

    /// Calls `found` with the contents of a range, piece by piece, as they ascend; the part of the range
    /// that could not be read.
    pub fn read(&mut self, range: &Range<u64>, mut found: impl FnMut(u64, &[u8])) -> Option<Range<u64>> {
        let mut missing = None;
        for part in touched(self.reader, range) {
            let mut next = part.start;
            while next < part.end {
                let length = (part.end - next).min(PIECE as u64) as usize;
                if self.piece.len() < length {
                    self.piece.resize(length, 0);
                }
                let piece = &mut self.piece[..length];
                let count = read_into(self.reader, next, piece);
                let rest = &mut piece[count..];
                let protected = read_protected(self.reader, next + count as u64, rest.len());
                rest[..protected.len()].copy_from_slice(&protected);
                let count = count + protected.len();
                if count > 0 {
                    found(next, &piece[..count]);
                }
                next += count as u64;
                if count < length {
                    missing = Some(next..part.end);
                    break;
                }
            }
        }
        missing
    }
}

/// Bytes copied from the process.
pub struct Memory {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Copies a range, what lies side by side as one; also the part of it that could not be read.
pub fn copy(reader: Pid, range: &Range<u64>) -> (Vec<Memory>, Option<Range<u64>>) {
    let mut memory: Vec<Memory> = Vec::new();
    let missing = Pages::of(reader).read(range, |address, bytes| match memory.last_mut() {
        Some(last) if last.address + last.bytes.len() as u64 == address => last.bytes.extend(bytes),
        _ => memory.push(Memory { address, bytes: bytes.to_vec() }),
    });
    (memory, missing)
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
