//! Steps through the frames of code that keeps no frame pointers, by a table that was made before.
//!
//! Distribution libraries keep no frame pointers; what the frames of their functions look like is in
//! `.eh_frame` only, as programs for a byte machine (DWARF 5, section 6.4; System V ABI AMD64, 3.7 and
//! 4.2.4). To run those at every allocation would be far too slow. So they are run beforehand, and what remains for each
//! range of code is how to find three things: the canonical frame address (CFA: the stack pointer before the call), the
//! return address, which is always at CFA - 8, and the caller's `rbp`. Linux unwinds itself in the same way
//! (Documentation/arch/x86/orc-unwinder.rst).
//!
//! # File
//!
//! All numbers are little-endian, all offsets in bytes from the start of the file.
//!
//! | part | at | content |
//! |---|---|---|
//! | header | 0 | [`MAGIC`]; [`VERSION`] (4 bytes); number of modules (4); length of the file (8) |
//! | modules | 24 | for each: key (8); offset of its rows (8); offset of its index (8); number of rows (4); of index entries (4) |
//! | rows, indexes | anywhere | rows of 8 bytes sorted by `start`, see [`Row`]; index entries of 4 bytes |
//!
//! An index shortens the search to a handful of rows. The code from the first row on is cut into
//! blocks of [`BLOCK`] bytes, aligned to it; entry *b* is the number of rows that start before the end of block *b*.
//!
//! The file is mapped from elsewhere, so no number in it is trusted: whatever is in there, nothing is read out of bounds. It
//! is not searched for mistakes, as that would read all of it in every process: rows out of order give wrong frames.

/// First bytes of a table.
pub const MAGIC: [u8; 8] = *b"LKUNWIND";

/// Version of the layout; a table of another version is refused.
pub const VERSION: u32 = 1;

/// Bytes of the header.
pub const HEADER: usize = 24;

/// Bytes of a module's entry.
pub const MODULE: usize = 32;

/// Bytes of code that share an entry of the index.
pub const BLOCK: u32 = 256;

/// What [`Row::kind`] says of the frame.
pub mod kind {
    /// Nothing describes this code.
    pub const NONE: u8 = 0;
    /// There is no caller: the start of a program or thread.
    pub const OUTERMOST: u8 = 1;
    /// The frame is described by more than a row can hold (procedure linkage, signal frames).
    pub const UNKNOWN: u8 = 2;
    /// CFA = `rsp` + offset.
    pub const RSP: u8 = 3;
    /// CFA = `rbp` + offset.
    pub const RBP: u8 = 4;
}

/// Where a frame keeps what its caller needs, from one address of the code on up to the next row's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Row {
    /// First address, as the module's file counts them (without what the loader adds).
    pub start: u32,
    /// Of the CFA, in words of 8 bytes.
    pub cfa_offset: u16,
    /// One of [`kind`].
    pub kind: u8,
    /// The caller's `rbp` is saved at CFA + 8 times this; with 0 it is still in the register.
    pub rbp_at: i8,
}

impl Row {
    /// Bytes of a row in a table.
    pub const SIZE: usize = 8;

    /// As it is in a table.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.start.to_le_bytes();
        let [e, f] = self.cfa_offset.to_le_bytes();
        [a, b, c, d, e, f, self.kind, self.rbp_at.to_le_bytes()[0]]
    }

    /// The row that is in a table as these bytes.
    #[inline]
    #[must_use]
    pub const fn from_bytes([a, b, c, d, e, f, kind, rbp_at]: [u8; Self::SIZE]) -> Self {
        Self {
            start: u32::from_le_bytes([a, b, c, d]),
            cfa_offset: u16::from_le_bytes([e, f]),
            kind,
            rbp_at: i8::from_le_bytes([rbp_at]),
        }
    }

    /// The return address and the caller's frame; none at the outermost frame, where the frame is not known, and where memory
    /// cannot be read. Frames of callers are at higher addresses, so a loop that steps comes to an end.
    #[inline]
    pub fn caller(self, frame: Frame, mut read: impl FnMut(u64) -> Option<u64>) -> Option<(u64, Frame)> {
        let base = match self.kind {
            kind::RSP => frame.sp,
            kind::RBP => frame.fp,
            _ => return None,
        };
        let cfa = base.checked_add(u64::from(self.cfa_offset) * 8)?;
        if cfa <= frame.sp {
            return None;
        }
        let address = read(cfa.wrapping_sub(8))?;
        let fp = match self.rbp_at {
            0 => frame.fp,
            words => read(cfa.wrapping_add_signed(i64::from(words) * 8))?,
        };
        (address != 0).then_some((address, Frame { sp: cfa, fp }))
    }
}

/// The registers that frames are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `rsp`.
    pub sp: u64,
    /// `rbp`.
    pub fp: u64,
}

/// The rows of one module.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    rows: &'a [[u8; Row::SIZE]],
    index: &'a [[u8; 4]],
}

impl<'a> Rows<'a> {
    /// The row for an address of the module, which is as in [`Row::start`].
    #[inline]
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Row> {
        let address = u32::try_from(address).ok()?;
        let first = Row::from_bytes(*self.rows.first()?).start;
        let block = (address / BLOCK).checked_sub(first / BLOCK)? as usize;
        let entry = |block: usize| Some(u32::from_le_bytes(*self.index.get(block)?) as usize);
        let (low, high) = match (block.checked_sub(1), entry(block)) {
            // Behind the last block, the last row goes on.
            (_, None) => return Some(Row::from_bytes(*self.rows.last()?)),
            (None, Some(high)) => (0, high),
            (Some(before), Some(high)) => (entry(before)?, high),
        };
        let inside = self.rows.get(low..high)?;
        let after = low + inside.partition_point(|row| Row::from_bytes(*row).start <= address);
        self.rows.get(after.checked_sub(1)?).map(|row| Row::from_bytes(*row))
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row> + use<'a> {
        self.rows.iter().map(|row| Row::from_bytes(*row))
    }
}

/// One frame outwards: the return address and the caller's frame. `pc` is relative to the module, as [`Row::start`] is; of a
/// return address it is the byte before, since a call may be the last instruction of its function. `read` reads a
/// word of the stack. None where it does not go on, see [`Row::caller`].
#[inline]
pub fn step(
    rows: &Rows<'_>,
    pc: u64,
    frame: Frame,
    read: impl FnMut(u64) -> Option<u64>,
) -> Option<(u64, Frame)> {
    rows.find(pc)?.caller(frame, read)
}

/// A table file.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    modules: &'a [[u8; MODULE]],
}

impl<'a> Table<'a> {
    /// The table in these bytes; none where it is not one, or not whole.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (modules, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let whole = u64::from_le_bytes(*length) == bytes.len() as u64;
        if *magic != MAGIC || u32::from_le_bytes(*version) != VERSION || !whole {
            return None;
        }
        let modules = rest.as_chunks().0.get(..u32::from_le_bytes(*modules) as usize)?;
        Some(Self { bytes, modules })
    }

    /// The rows of the module with this key.
    #[must_use]
    pub fn module(&self, key: u64) -> Option<Rows<'a>> {
        let entry = self.modules.iter().find(|entry| word(entry, 0) == Some(key))?;
        let counts = word(entry, 24)?;
        Some(Rows {
            rows: self.chunks(word(entry, 8)?, counts as u32)?,
            index: self.chunks(word(entry, 16)?, (counts >> 32) as u32)?,
        })
    }

    fn chunks<const N: usize>(&self, offset: u64, count: u32) -> Option<&'a [[u8; N]]> {
        let bytes = self.bytes.get(usize::try_from(offset).ok()?..)?;
        bytes.as_chunks().0.get(..count as usize)
    }
}

fn word(entry: &[u8; MODULE], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
