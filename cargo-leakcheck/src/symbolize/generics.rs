//! The debug information's own names of functions, with what their parameters are: `push<u16, alloc::alloc::Global>`.
//! What is made of them for stacks (`name.rs`) has the names of symbols, which in legacy mangling lack that.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, SectionId,
    Unit, UnitOffset, constants,
};
use object::{CompressionFormat, Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// What a name is taken from at most: an entry, what it is made of, and what that declares.
const HOPS: usize = 4;

/// The debug information of a module.
#[derive(Default)]
pub(super) struct Generics {
    sections: HashMap<&'static str, Vec<u8>>,
    /// Code of units, and where they begin.
    units: Vec<(Range<u64>, usize)>,
    /// Code of functions, of units that were asked for.
    functions: HashMap<usize, Vec<(Range<u64>, usize)>>,
}

impl Generics {
    /// Reads that of a file; nothing where there is none.
    pub fn open(path: &str) -> Self {
        Self::read(path).unwrap_or_default()
    }

    fn read(path: &str) -> Option<Self> {
        let file = fs::read(path).ok()?;
        let elf = object::File::parse(&*file).ok()?;
        let mut sections = HashMap::new();
        for id in [
            SectionId::DebugAbbrev,
            SectionId::DebugInfo,
            // A unit names its lines, and cannot be read where they are missing.
            SectionId::DebugLine,
            SectionId::DebugStr,
            SectionId::DebugLineStr,
            SectionId::DebugStrOffsets,
            SectionId::DebugAddr,
            SectionId::DebugRanges,
            SectionId::DebugRngLists,
        ] {
            if let Some(section) = elf.section_by_name(id.name()) {
                let is_plain = section.compressed_file_range().ok()?.format == CompressionFormat::None;
                sections.insert(id.name(), section.data().ok().filter(|_| is_plain)?.to_owned());
            }
        }
        let mut read = Self { sections, ..Self::default() };
        read.units = units(&read.dwarf().ok()?).ok()?;
        Some(read)
    }

    fn dwarf(&self) -> gimli::Result<Dwarf<Slice<'_>>> {
        Dwarf::load(|id| {
            let data = self.sections.get(id.name()).map(Vec::as_slice);
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        })
    }

    /// The names of the functions that an address is in, innermost first, as many as there are frames at it.
    pub fn at(&mut self, address: u64) -> Vec<String> {
        let unit = self.units.iter().find(|(code, _)| code.contains(&address)).map(|(_, unit)| *unit);
        unit.and_then(|unit| self.look_up(unit, address).ok()).unwrap_or_default()
    }

    fn look_up(&mut self, start: usize, address: u64) -> gimli::Result<Vec<String>> {
        if !self.functions.contains_key(&start) {
            let functions = functions(&self.dwarf()?, start)?;
            self.functions.insert(start, functions);
        }
        let function = self.functions[&start].iter().find(|(code, _)| code.contains(&address));
        let Some((_, function)) = function else { return Ok(Vec::new()) };
        let dwarf = self.dwarf()?;
        let unit = unit_at(&dwarf, start)?;
        let mut entries = unit.entries_at_offset(UnitOffset(*function))?;
        let mut names = Vec::new();
        // Entries below one whose code the address is not in are passed over.
        let mut passed: Option<isize> = None;
        let mut is_first = true;
        while let Some(entry) = entries.next_dfs()? {
            if !is_first && entry.depth() <= 0 {
                break;
            }
            if passed.is_some_and(|depth| entry.depth() > depth) {
                continue;
            }
            passed = None;
            let is_call = entry.tag() == constants::DW_TAG_inlined_subroutine;
            let is_code = is_call || entry.tag() == constants::DW_TAG_lexical_block;
            if is_first || is_call && has_code(&dwarf, &unit, entry, address)? {
                names.push(name(&dwarf, &unit, entry, HOPS)?.unwrap_or_default());
            } else if !is_code || is_call || !has_code(&dwarf, &unit, entry, address)? {
                passed = Some(entry.depth());
            }
            is_first = false;
        }
        names.reverse();
        Ok(names)
    }
}

fn unit_at<'a>(dwarf: &Dwarf<Slice<'a>>, start: usize) -> gimli::Result<Unit<Slice<'a>>> {
    dwarf.unit(dwarf.debug_info.header_from_offset(DebugInfoOffset(start))?)
}

fn units(dwarf: &Dwarf<Slice<'_>>) -> gimli::Result<Vec<(Range<u64>, usize)>> {
    let mut all = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let Some(start) = header.debug_info_offset() else { continue };
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            all.push((range.begin..range.end, start.0));
        }
    }
    Ok(all)
}

/// The functions of a unit and their entries.
fn functions(dwarf: &Dwarf<Slice<'_>>, start: usize) -> gimli::Result<Vec<(Range<u64>, usize)>> {
    let unit = unit_at(dwarf, start)?;
    let mut all = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() == constants::DW_TAG_subprogram {
            let mut ranges = dwarf.die_ranges(&unit, entry)?;
            while let Some(range) = ranges.next()? {
                all.push((range.begin..range.end, entry.offset().0));
            }
        }
    }
    Ok(all)
}

fn has_code<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
    address: u64,
) -> gimli::Result<bool> {
    let mut ranges = dwarf.die_ranges(unit, entry)?;
    while let Some(range) = ranges.next()? {
        if (range.begin..range.end).contains(&address) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of an entry, or of that which it is made of.
fn name<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
    hops: usize,
) -> gimli::Result<Option<String>> {
    if let Some(name) = entry.attr_value(constants::DW_AT_name) {
        return Ok(Some(dwarf.attr_string(unit, name)?.to_string_lossy().into_owned()));
    }
    let origins = [constants::DW_AT_abstract_origin, constants::DW_AT_specification];
    let Some(hops) = hops.checked_sub(1) else { return Ok(None) };
    match origins.into_iter().find_map(|origin| entry.attr_value(origin)) {
        Some(AttributeValue::UnitRef(offset)) => name(dwarf, unit, &unit.entry(offset)?, hops),
        Some(AttributeValue::DebugInfoRef(offset)) => {
            let mut headers = dwarf.units();
            while let Some(header) = headers.next()? {
                if let Some(inside) = offset.to_unit_offset(&header) {
                    let other = dwarf.unit(header)?;
                    return name(dwarf, &other, &other.entry(inside)?, hops);
                }
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}
