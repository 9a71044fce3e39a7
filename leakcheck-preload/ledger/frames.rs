//! Which code keeps frame pointers, and the way through code that does not, by the table that the
//! tracer has made of the modules' `.eh_frame`.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::layout::control;
use crate::ledger::LEAKCHECK_LEDGER;
use crate::sys;
use crate::unwind::{Row, Table, kind};

/// The table's bytes; null until it is there.
static TABLE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// What was found out about return addresses. A place holds one, the last: the address without its
/// lowest bits, and its row. One word, so that it is never half of another's.
static KNOWN: [AtomicU64; 1 << PLACE_BITS] = [const { AtomicU64::new(0) }; 1 << PLACE_BITS];
const PLACE_BITS: u32 = 10;
/// Bits of a row in such a word: 16 for the offset, 8 for the place of `rbp`, 3 for the kind.
const ROW_BITS: u32 = 27;
/// Kinds beside the table's: the frame pointer is kept, and nothing is known.
const POINTER: u8 = 5;
const UNKNOWN: u8 = 6;

/// Opens the table that the control words name.
pub fn open() {
    let bytes = LEAKCHECK_LEDGER[control::TABLE].load(Ordering::Relaxed) as usize;
    if bytes != 0
        && let Some(address) = sys::map_file((&raw const LEAKCHECK_LEDGER[control::TABLE_PATH]).cast(), bytes)
    {
        TABLE.store(address as *mut u8, Ordering::Release);
    }
}

/// How the frame of the code before a return address is left.
pub enum Way {
    /// By the chain of frame pointers.
    Pointer,
    /// By a row of the table.
    Row(Row),
    /// The table does not say.
    Unknown,
}

/// Where an address is remembered. Together with the bits above the lowest, which are written there,
/// the place tells the address.
#[inline(always)]
fn place(address: u64) -> &'static AtomicU64 {
    &KNOWN[(address ^ address >> PLACE_BITS) as usize % (1 << PLACE_BITS)]
}

/// Whether it is known to be left by the chain of frame pointers.
#[inline(always)]
pub fn keeps_pointer(address: u64) -> bool {
    let known = place(address).load(Ordering::Relaxed);
    known == address >> PLACE_BITS << ROW_BITS | u64::from(POINTER)
}

/// Finds out how.
pub fn way(address: u64) -> Way {
    let place = place(address);
    let mut known = place.load(Ordering::Relaxed);
    if known >> ROW_BITS != address >> PLACE_BITS {
        known = find_out(address, place);
    }
    match known as u8 & 7 {
        POINTER => Way::Pointer,
        UNKNOWN => Way::Unknown,
        kind => {
            Way::Row(Row { start: 0, cfa_offset: (known >> 11) as u16, kind, rbp_at: (known >> 3) as i8 })
        }
    }
}

#[cold]
fn find_out(address: u64, place: &AtomicU64) -> u64 {
    if TABLE.load(Ordering::Acquire).is_null() {
        // Not to be remembered: the table may come yet.
        return u64::from(UNKNOWN);
    }
    let row = row(address).unwrap_or_default();
    let row = match row.kind {
        // `push rbp; mov rbp, rsp` has been run.
        kind::RBP if row.cfa_offset == 2 && row.rbp_at == -2 => u64::from(POINTER),
        kind::NONE | kind::UNKNOWN => u64::from(UNKNOWN),
        kind => u64::from(row.cfa_offset) << 11 | u64::from(row.rbp_at as u8) << 3 | u64::from(kind),
    };
    let known = address >> PLACE_BITS << ROW_BITS | row;
    place.store(known, Ordering::Relaxed);
    known
}

/// What is known of the code before a return address.
fn row(address: u64) -> Option<Row> {
    let bytes = TABLE.load(Ordering::Acquire);
    if bytes.is_null() {
        return None;
    }
    let length = LEAKCHECK_LEDGER[control::TABLE].load(Ordering::Relaxed) as usize;
    // SAFETY: so many bytes are mapped to be read, and stay.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, length) };
    let place = address - 1;
    let words = &LEAKCHECK_LEDGER[control::MODULES..];
    let mut modules = words.chunks_exact(control::MODULE_WORDS).map(|module| {
        let word = |word: usize| module.get(word).map_or(0, |word| word.load(Ordering::Relaxed));
        (word(0)..word(1), word(2), word(3))
    });
    let (_, bias, key) = modules.find(|(range, _, _)| range.contains(&place))?;
    Table::new(bytes)?.module(key)?.find(place.wrapping_sub(bias))
}
