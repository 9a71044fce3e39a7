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
    let mut data = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    for Range { start, end } in wanted {
        if let Some(part) = data.get_mut(start as usize..end as usize) {
            file.read_exact_at(part, start)?;
        }
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
    fn what_is_no_elf_file_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("script");
        for text in ["", "#!/bin/sh\n", "\x7fELF\x02\x01\x01 and no more"] {
            fs_err::write(&path, text).unwrap();
            assert_eq!(without_debug_information(&path).unwrap(), text.as_bytes());
        }
    }
}
