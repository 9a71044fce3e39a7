//! The call stack of the system call that has made a file.
//!
//! The C library's functions, where system calls are, keep no frame pointers, and neither do most
//! libraries. So the kernel side copies the innermost part of the stack, which is unwound here by what
//! the modules say of their frames. What is further out is known by the chain of frame pointers, which the kernel
//! side has followed from where it leaves the copy: if unwinding arrives there, too.

use leakcheck_common::{MAX_FRAMES, file};
use leakcheck_preload::unwind::{Frame, Row, kind};

use crate::trace::FileRecord;

/// The return addresses, innermost first; the first is behind the system call itself. `row` says how the
/// frame at an address is found.
pub fn unwind(record: &FileRecord, row: &mut impl FnMut(u64) -> Option<Row>) -> Vec<u64> {
    let copied = &record[file::COPY..][..(record[file::COPIED] as usize).min(file::COPY_WORDS)];
    let start = record[file::SP];
    let read = |address: u64| {
        let offset = address.checked_sub(start)?;
        copied.get(usize::try_from(offset / 8).ok()?).filter(|_| offset % 8 == 0).copied()
    };
    let mut frames = vec![record[file::IP]];
    let mut frame = Frame { sp: start, fp: record[file::FP] };
    while frames.len() < MAX_FRAMES {
        // A return address is behind its call, and the instruction pointer behind the system call.
        let here = frames[frames.len() - 1].wrapping_sub(1);
        let row = row(here).filter(|row| row.kind != kind::NONE).unwrap_or(BY_FRAME_POINTER);
        if row.kind == kind::OUTERMOST {
            break;
        }
        let Some((address, caller)) = row.caller(frame, read) else {
            if frame.fp == record[file::OUTER_FP] {
                let count = (record[file::OUTER_COUNT] as usize).min(file::OUTER_FRAMES);
                frames.extend(&record[file::OUTER..][..count]);
            }
            break;
        };
        frames.push(address);
        frame = caller;
    }
    frames.truncate(MAX_FRAMES);
    frames
}

/// What code that nothing describes is taken for: `push rbp; mov rbp, rsp`.
pub const BY_FRAME_POINTER: Row = Row { start: 0, cfa_offset: 2, kind: kind::RBP, rbp_at: -2 };

#[cfg(test)]
mod tests {
    use super::*;

    /// Code by hundreds: 0x1.. keeps no frame pointer and has frames of two words, 0x2.. keeps it, 0x3.. is the
    /// outermost, 0x4.. saves `rbp` without keeping it, of 0x9.. nothing is known.
    fn row(address: u64) -> Option<Row> {
        let row = |kind, cfa_offset, rbp_at| Some(Row { start: 0, cfa_offset, kind, rbp_at });
        match address >> 8 {
            1 => row(kind::RSP, 2, 0),
            2 => row(kind::RBP, 2, -2),
            3 => row(kind::OUTERMOST, 0, 0),
            4 => row(kind::RSP, 3, -3),
            _ => None,
        }
    }

    /// A record with the stack from address 0x1000 on, and frame pointer and return addresses beyond the copy.
    fn record(ip: u64, fp: u64, copy: &[u64], outer: (u64, &[u64])) -> FileRecord {
        let mut record = [0; file::WORDS];
        (record[file::IP], record[file::SP], record[file::FP]) = (ip, 0x1000, fp);
        record[file::COPIED] = copy.len() as u64;
        record[file::COPY..][..copy.len()].copy_from_slice(copy);
        (record[file::OUTER_FP], record[file::OUTER_COUNT]) = (outer.0, outer.1.len() as u64);
        record[file::OUTER..][..outer.1.len()].copy_from_slice(outer.1);
        record
    }

    #[test]
    fn a_caller_that_the_chain_skips_is_found_in_the_copy() {
        // The library's function returns to 0x110, whose frame it is that the chain does not have; that one
        // returns to 0x250, which keeps its frame at 0x1020, its caller beyond the copy.
        let copy = [7, 0x110, 8, 0x250, 0x5000, 0x260];
        let record = record(0x101, 0x1020, &copy, (0x5000, &[0x270, 0x280]));
        assert_eq!(unwind(&record, &mut row), [0x101, 0x110, 0x250, 0x260, 0x270, 0x280]);
    }

    #[test]
    fn the_chain_goes_on_where_the_copy_ends() {
        let outer: (u64, &[u64]) = (0x1100, &[0x260, 0x270]);
        let record = record(0x101, 0x1100, &[7, 0x250], outer);
        assert_eq!(unwind(&record, &mut row), [0x101, 0x250, 0x260, 0x270]);
        // Nothing describes any code: only frame pointers are left.
        assert_eq!(unwind(&record, &mut |_| None), [0x101, 0x260, 0x270]);
    }

    #[test]
    fn a_chain_from_a_register_with_something_else_in_it_is_not_believed() {
        // The frame pointer is a number of the library's own; the real one is saved.
        let copy = [0x1028, 7, 0x250, 7, 7, 0x1040, 0x260];
        let saved = record(0x401, 77, &copy, (77, &[0x666]));
        assert_eq!(unwind(&saved, &mut row), [0x401, 0x250, 0x260]);
    }

    #[test]
    fn unknown_code_is_walked_by_its_frame_pointer_and_the_outermost_frame_is_the_last() {
        let record = record(0x901, 0x1008, &[7, 0x1020, 0x320, 9], (0x1020, &[9]));
        assert_eq!(unwind(&record, &mut row), [0x901, 0x320]);
    }
}
