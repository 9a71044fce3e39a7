//! Reads executables without their debug information, which is most of a test binary.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use camino::Utf8Path;
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD, SHF_ALLOC, SHT_NOBITS, SHT_PROGBITS};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

use crate::sys;

/// The contents of a file; if it is an ELF file with sections, with zeros in place of those that are neither loaded nor
/// symbols or names: debug information.
///
/// # Errors
/// It cannot be read, or becomes shorter meanwhile.
pub fn without_debug_information(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let cache = ReadCache::new(File::open(path)?);
    let wanted = wanted(&cache);
    let mut file = cache.into_inner();
    let Some(wanted) = wanted else {
        let mut data = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut data)?;
        return Ok(data);
    };
    // Zeros that nobody writes over take no memory.
    let length = file.metadata()?.len();
    let mut data = sys::zeros(usize::try_from(length).map_err(io::Error::other)?)?;
    for Range { start, end } in merged(wanted, length) {
        file.read_exact_at(&mut data[start as usize..end as usize], start)?;
    }
    Ok(data)
}

/// Where in a file is what is wanted of it; none if it does not tell.
fn wanted(file: &ReadCache<File>) -> Option<Vec<Range<u64>>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, file).ok().filter(|sections| !sections.is_empty())?;
    let segments = header.program_headers(endian, file).ok()?;
    let of = |start: u64, size: u64| start..start.saturating_add(size);
    let mut wanted = vec![
        of(0, size_of::<FileHeader64<Endianness>>() as u64),
        of(header.e_phoff.get(endian), size_of_val(segments) as u64),
        of(header.e_shoff.get(endian), size_of_val(sections) as u64),
    ];
    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
    wanted.extend(loaded.map(|segment| of(segment.p_offset(endian), segment.p_filesz(endian))));
    let others = sections.iter().filter(|section| {
        let is_loaded = section.sh_flags(endian).contains(SHF_ALLOC);
        !is_loaded && ![SHT_NOBITS, SHT_PROGBITS].contains(&section.sh_type(endian))
    });
    wanted.extend(others.map(|section| of(section.sh_offset(endian), section.sh_size(endian))));
    Some(wanted)
}

/// The same places as far as a file of that length has them, each once.
fn merged(mut places: Vec<Range<u64>>, length: u64) -> Vec<Range<u64>> {
    places.sort_by_key(|place| place.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for place in places {
        let place = place.start.min(length)..place.end.min(length);
        match merged.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use object::{Object as _, ObjectSection as _};

    use super::*;

    #[test]
    fn all_but_debug_information_is_there() {
        let this = Utf8Path::from_path(&std::env::current_exe().unwrap()).unwrap().to_owned();
        let (whole, lean) = (fs_err::read(&this).unwrap(), without_debug_information(&this).unwrap());
        assert_eq!(whole.len(), lean.len());
        let (whole, lean) = (object::File::parse(&*whole).unwrap(), object::File::parse(&*lean).unwrap());
        let mut left_out = 0;
        for section in whole.sections() {
            let name = section.name().unwrap();
            let (read, is) =
                (lean.section_by_index(section.index()).unwrap().data().unwrap(), section.data().unwrap());
            if section.address() == 0 && name.starts_with(".debug_") {
                assert!(read.iter().all(|byte| *byte == 0), "{name}");
                left_out += is.len();
            } else if name != ".comment" {
                assert!(read == is, "{name}");
            }
        }
        assert!(left_out > 1 << 20, "{left_out}");
    }

    #[test]
    fn each_place_is_read_once_and_as_far_as_it_is_there() {
        assert_eq!(merged(vec![5..9, 0..3, 6..7, 8..12, 20..u64::MAX, 40..50], 30), [0..3, 5..12, 20..30]);
        assert_eq!(merged(vec![0..u64::MAX, u64::MAX - 1..u64::MAX, 0..0], 7), [Range { start: 0, end: 7 }]);
    }

    #[test]
    fn thousands_of_sections_that_are_the_whole_file_take_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("program");
        let mut file = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        file.truncate(64);
        const SECTIONS: u16 = 5000;
        file[40..48].copy_from_slice(&64_u64.to_le_bytes());
        file[56..58].copy_from_slice(&0_u16.to_le_bytes());
        file[60..62].copy_from_slice(&SECTIONS.to_le_bytes());
        for _ in 0..SECTIONS {
            let mut section = [0; 64];
            section[4] = 3;
            section[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
            file.extend(section);
        }
        fs_err::write(&path, &file).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
        let start = std::time::Instant::now();
        let large = without_debug_information(&path).unwrap();
        assert!(large.starts_with(&file) && large.len() == 64 << 20);
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn what_is_no_elf_file_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("script");
        for text in ["", "#!/bin/sh\n", "\x7fELF\x02\x01\x01 and no more"] {
            fs_err::write(&path, text).unwrap();
            assert_eq!(without_debug_information(&path).unwrap(), text.as_bytes());
        }
    }
}
