//! What the optimizer has made of functions, as debug information tells. Calls of one that is part of its
//! callers pass its probes by, and one that lacks arguments does not have them where they are looked for.

use std::collections::HashSet;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Unit, constants};
use object::{Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What has become of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are as they were written.
    Whole,
    /// One has been made part of a caller.
    Inlined,
    /// One is called in another way than it was written: by link-time optimization of the whole program, which leaves
    /// out arguments that are not used.
    Changed,
}

/// What has become of the functions whose names are looked for; none if there is no debug information that could
/// tell.
pub fn fate(file: &[u8], is: impl Fn(&str) -> bool) -> Option<Fate> {
    let elf = object::File::parse(file).ok()?;
    let section = |id: gimli::SectionId| -> gimli::Result<Slice<'_>> {
        let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let dwarf = Dwarf::load(section).ok()?;
    let found = read(&dwarf, is).ok()?;
    // A Rust program always has entries of these functions: they are std's.
    match (found.functions.is_disjoint(&found.inlined), found.changed) {
        _ if found.functions.is_empty() => None,
        (false, _) => Some(Fate::Inlined),
        (true, true) => Some(Fate::Changed),
        (true, false) => Some(Fate::Whole),
    }
}

#[derive(Default)]
struct Found {
    /// The functions' entries, as offsets.
    functions: HashSet<usize>,
    /// Entries that something was made of in code of the program.
    inlined: HashSet<usize>,
    /// The compiler says of a function's code that it cannot be called as it was written.
    changed: bool,
}

fn read(dwarf: &Dwarf<Slice<'_>>, is: impl Fn(&str) -> bool) -> gimli::Result<Found> {
    let mut found = Found::default();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let start = header.debug_info_offset().map_or(0, |offset| offset.0);
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() == constants::DW_TAG_subprogram {
                let names = [constants::DW_AT_linkage_name, constants::DW_AT_name];
                let mut names = names.into_iter().filter_map(|name| entry.attr_value(name));
                if names.any(|name| {
                    let name = dwarf.attr_string(&unit, name);
                    name.is_ok_and(|name| name.to_string().is_ok_and(&is))
                }) {
                    found.functions.insert(start + entry.offset().0);
                    let nocall = AttributeValue::CallingConvention(constants::DW_CC_nocall);
                    let is_changed = entry.attr_value(constants::DW_AT_calling_convention) == Some(nocall);
                    found.changed |= is_changed && is_in_program(dwarf, &unit, entry)?;
                }
            } else if entry.tag() == constants::DW_TAG_inlined_subroutine
                && is_in_program(dwarf, &unit, entry)?
            {
                match entry.attr_value(constants::DW_AT_abstract_origin) {
                    Some(AttributeValue::UnitRef(offset)) => found.inlined.insert(start + offset.0),
                    Some(AttributeValue::DebugInfoRef(offset)) => found.inlined.insert(offset.0),
                    _ => false,
                };
            }
        }
    }
    Ok(found)
}

/// Whether there is code of an entry. What the linker has left out is at address 0.
fn is_in_program<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    entry: &DebuggingInformationEntry<Slice<'a>>,
) -> gimli::Result<bool> {
    Ok(dwarf.die_ranges(unit, entry)?.next()?.is_some_and(|range| range.begin >= 0x100))
}
