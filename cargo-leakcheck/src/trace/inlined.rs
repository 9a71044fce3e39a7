//! Whether the optimizer has made functions part of their callers, as debug information tells. Calls of such a
//! function pass its probes by.

use std::collections::HashSet;

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian, constants};
use object::{Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Whether a function whose name `is` what is looked for has been made part of a caller; none if there is no
/// debug information that could tell.
pub fn any(file: &[u8], is: impl Fn(&str) -> bool) -> Option<bool> {
    let elf = object::File::parse(file).ok()?;
    let section = |id: gimli::SectionId| -> gimli::Result<Slice<'_>> {
        let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let dwarf = Dwarf::load(section).ok()?;
    let (functions, inlined) = read(&dwarf, is).ok()?;
    // A Rust program always has entries of these functions: they are std's.
    (!functions.is_empty()).then(|| !functions.is_disjoint(&inlined))
}

/// The entries of such functions, and those that something was made of in code of the program; as offsets.
fn read(
    dwarf: &Dwarf<Slice<'_>>,
    is: impl Fn(&str) -> bool,
) -> gimli::Result<(HashSet<usize>, HashSet<usize>)> {
    let (mut functions, mut inlined) = (HashSet::new(), HashSet::new());
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
                    functions.insert(start + entry.offset().0);
                }
            } else if entry.tag() == constants::DW_TAG_inlined_subroutine {
                // What the linker has left out is at address 0.
                let first = dwarf.die_ranges(&unit, entry)?.next()?;
                if first.is_none_or(|range| range.begin < 0x100) {
                    continue;
                }
                match entry.attr_value(constants::DW_AT_abstract_origin) {
                    Some(AttributeValue::UnitRef(offset)) => inlined.insert(start + offset.0),
                    Some(AttributeValue::DebugInfoRef(offset)) => inlined.insert(offset.0),
                    _ => false,
                };
            }
        }
    }
    Ok((functions, inlined))
}
