//! The tables by which the preloaded library steps through code without frame pointers, see
//! [`leakcheck_preload::unwind`]: what `.eh_frame` says of a module, for each range of its code in a row.
//!
//! The rules of the System V ABI for AMD64, section 3.6.2: `rbp` is register 6, `rsp` 7, the return address 16; a register that is
//! not mentioned has the caller's value if a function must preserve it. What a row cannot hold is marked as
//! unknown, never approximated.

use camino::Utf8Path;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection as _, UnwindTableRow, X86_64,
};
use leakcheck_preload::unwind::{BLOCK, HEADER, MAGIC, MODULE, Row, VERSION, kind};
use object::{Object as _, ObjectSection as _};

use crate::error::{Error, Result};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// The rows of an ELF file, sorted by start, with no two alike in a row; the last one ends the code that is
/// described. Empty where nothing is.
///
/// # Errors
/// The file is no ELF file, or its `.eh_frame` is broken.
pub fn rows(data: &[u8], path: &Utf8Path) -> Result<Vec<Row>> {
    let broken = |what: &dyn std::fmt::Display| Error::Format {
        path: path.to_owned(),
        reason: format!("its frames cannot be read: {what}"),
    };
    let elf = object::File::parse(data).map_err(|error| broken(&error))?;
    let Some(section) = elf.section_by_name(".eh_frame") else { return Ok(Vec::new()) };
    let mut frames = EhFrame::new(section.data().map_err(|error| broken(&error))?, LittleEndian);
    frames.set_address_size(8);
    let address_of = |name| elf.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));

    let mut fdes = read_all(&frames, &bases).map_err(|error| broken(&error))?;
    // Functions that were found to be the same have an entry each: the last one counts.
    fdes.sort_by_key(Fde::initial_address);
    let mut rows = Builder::default();
    let mut context = UnwindContext::new();
    let ends = fdes.iter().skip(1).map(Fde::initial_address).chain([u64::MAX]);
    for (fde, next) in fdes.iter().zip(ends) {
        let end = fde.end_address().min(next);
        // An entry with a mistake describes what comes before it.
        let mut described = fde.initial_address();
        if let Ok(mut table) = fde.rows(&frames, &bases, &mut context) {
            while let Ok(Some(row)) = table.next_row() {
                if row.start_address() < end {
                    rows.push(row.start_address(), of(fde, row));
                }
                described = row.end_address();
            }
        }
        if described < end {
            rows.push(described, Row { kind: kind::UNKNOWN, ..Row::default() });
        }
        rows.push(end, Row::default());
    }
    Ok(rows.0)
}

/// The entries of functions that are in the file: a linker leaves those of functions that it dropped at address 0.
fn read_all<'a>(frames: &EhFrame<Slice<'a>>, bases: &BaseAddresses) -> gimli::Result<Vec<Fde<'a>>> {
    let (mut fdes, mut entries) = (Vec::new(), frames.entries(bases));
    while let Some(entry) = entries.next()? {
        if let CieOrFde::Fde(partial) = entry {
            let fde = partial.parse(EhFrame::cie_from_offset)?;
            if fde.initial_address() != 0 && fde.end_address() > fde.initial_address() {
                fdes.push(fde);
            }
        }
    }
    Ok(fdes)
}

/// Rows in the order of their addresses, merged.
#[derive(Default)]
struct Builder(Vec<Row>);

impl Builder {
    fn push(&mut self, start: u64, row: Row) {
        // What is that far up has no row, so the row before it is the last one.
        let Ok(start) = u32::try_from(start) else { return };
        let row = Row { start, ..row };
        if self.0.last().is_some_and(|last| last.start == start) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|last| Row { start, ..*last } != row) {
            self.0.push(row);
        }
    }
}

/// The row for what gimli found, without its start.
fn of(fde: &Fde<'_>, row: &UnwindTableRow<usize>) -> Row {
    let unknown = Row { kind: kind::UNKNOWN, ..Row::default() };
    // A signal handler's caller has not made a call: its address is not that of a return.
    if fde.is_signal_trampoline() {
        return unknown;
    }
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        None | Some(RegisterRule::Undefined) => return Row { kind: kind::OUTERMOST, ..Row::default() },
        Some(_) => return unknown,
    }
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return unknown };
    let kind = match register {
        X86_64::RSP => kind::RSP,
        X86_64::RBP => kind::RBP,
        _ => return unknown,
    };
    let rbp_at = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => Some(0),
        Some(RegisterRule::Offset(offset)) => words(offset).filter(|words: &i8| *words != 0),
        Some(_) => None,
    };
    match (words(offset), rbp_at) {
        (Some(cfa_offset), Some(rbp_at)) => Row { start: 0, cfa_offset, kind, rbp_at },
        _ => unknown,
    }
}

/// Whole words in an offset in bytes, if a row can hold them.
fn words<T: TryFrom<i64>>(bytes: i64) -> Option<T> {
    (bytes % 8 == 0).then(|| T::try_from(bytes / 8).ok())?
}

/// The table file of some modules: each has a key and [`rows`].
pub fn table(modules: &[(u64, Vec<Row>)]) -> Vec<u8> {
    let (mut entries, mut body) = (Vec::new(), Vec::new());
    let start = HEADER + modules.len() * MODULE;
    for (key, rows) in modules {
        let rows_at = start + body.len();
        body.extend(rows.iter().flat_map(|row| row.to_bytes()));
        let index_at = start + body.len();
        let index = index(rows);
        body.extend(index.iter().flat_map(|entry| entry.to_le_bytes()));
        // Rows stay in one cache line each.
        body.resize(body.len().next_multiple_of(8), 0);
        entries.extend([*key, rows_at as u64, index_at as u64].iter().flat_map(|word| word.to_le_bytes()));
        entries.extend([rows.len(), index.len()].iter().flat_map(|count| (*count as u32).to_le_bytes()));
    }
    let mut file = Vec::with_capacity(start + body.len());
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend((modules.len() as u32).to_le_bytes());
    file.extend(((start + body.len()) as u64).to_le_bytes());
    file.extend(entries);
    file.extend(body);
    file
}

/// For each block of code, how many rows start before its end.
fn index(rows: &[Row]) -> Vec<u32> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    let mut before = 0;
    (first.start / BLOCK..=last.start / BLOCK)
        .map(|block| {
            let inside = rows[before..].iter().take_while(|row| row.start / BLOCK == block).count();
            before += inside;
            before as u32
        })
        .collect()
}
