//! The budgets that `#[leak_budget]` left in a test binary. The file is read, never run.

use std::collections::HashMap;

use leakcheck_common::{BUDGET_MAGIC, BUDGET_SECTION};
use object::read::ReadCache;
use object::{BinaryFormat, File, Object as _, ObjectSection as _, ReadRef};

use crate::error::{self, Error};
use crate::model::{Budget, TestBinary};

/// The budgets in a binary, by the test's name.
///
/// # Errors
/// The file cannot be read, or its records are damaged.
pub fn of_binary(binary: &TestBinary) -> error::Result<HashMap<String, Budget>> {
    let path = || binary.path.clone();
    let file = fs_err::File::open(&binary.path).map_err(|source| Error::File {
        action: "open",
        path: path(),
        source,
    })?;
    // Of a large file only a few pages are wanted.
    let elf = ReadCache::new(file.into_file());
    read(&elf).map_err(|reason| Error::Format { path: path(), reason })
}

/// Budgets by the test's name as libtest lists it (`module::test`, without the crate).
///
/// `elf` is a whole test binary; one without budgets gives an empty map.
///
/// # Errors
///
/// Says what is wrong and where: `elf` is no readable ELF file, a record is damaged or from another version of the
/// `leakcheck` crate, or a test has two. Offsets count from the start of the section.
pub fn read<'data>(elf: impl ReadRef<'data>) -> Result<HashMap<String, Budget>, String> {
    let file = File::parse(elf).map_err(|error| format!("cannot be read as an executable: {error}"))?;
    if file.format() != BinaryFormat::Elf {
        return Err(format!("is no ELF file but {:?}", file.format()));
    }
    let Some(section) = file.section_by_name(BUDGET_SECTION) else {
        return Ok(HashMap::new());
    };
    let data = section.data().map_err(|error| format!("section {BUDGET_SECTION} cannot be read: {error}"))?;
    records(data)
}

fn records(section: &[u8]) -> Result<HashMap<String, Budget>, String> {
    let mut budgets = HashMap::new();
    let mut rest = section;
    loop {
        // A linker may align records.
        let padding = rest.iter().take_while(|byte| **byte == 0).count();
        rest = &rest[padding..];
        if rest.is_empty() {
            return Ok(budgets);
        }
        let offset = section.len() - rest.len();
        let at = |reason: String| {
            format!("budget record at offset {offset} of section {BUDGET_SECTION}: {reason}")
        };

        let text;
        (text, rest) = split_record(rest).map_err(at)?;
        let (name, budget) = parse_text(text).map_err(at)?;
        if budgets.insert(name.to_owned(), budget).is_some() {
            return Err(at(format!("a second budget for `{name}`")));
        }
    }
}

/// The text of the record that `bytes` starts with, and what follows the record.
fn split_record(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let Some((magic, rest)) = bytes.split_first_chunk() else {
        return Err(format!("cut off after {} bytes", bytes.len()));
    };
    if *magic != BUDGET_MAGIC {
        return Err(format!(
            "starts with \"{}\", not with \"{}\"; use the `leakcheck` crate of the version of this tool",
            magic.escape_ascii(),
            BUDGET_MAGIC.escape_ascii()
        ));
    }
    let Some((length, rest)) = rest.split_first_chunk() else {
        return Err(format!("cut off after {} bytes", bytes.len()));
    };
    let length = u32::from_le_bytes(*length);
    let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((text, rest)) = split else {
        return Err(format!("its text should have {length} bytes, but only {} follow", rest.len()));
    };
    let text = str::from_utf8(text).map_err(|error| format!("its text is not UTF-8: {error}"))?;
    Ok((text, rest))
}

/// The test's name and budget.
fn parse_text(text: &str) -> Result<(&str, Budget), String> {
    let Some(lines) = text.strip_suffix('\n') else {
        return Err(format!("its text {text:?} does not end with a line feed"));
    };
    let mut lines = lines.split('\n');
    let path = lines.next().unwrap_or_default();
    let Some((_krate, name)) = path.split_once("::").filter(|(_, name)| !name.is_empty()) else {
        return Err(format!("{path:?} is not the path of a test"));
    };
    let mut budget = Budget::default();
    for line in lines {
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("{line:?} of `{name}` is not `key=value`"));
        };
        if key == "ignore" {
            set(&mut budget.ignore, value.to_owned())
        } else {
            let limit = match key {
                "bytes" => &mut budget.bytes,
                "blocks" => &mut budget.blocks,
                "reachable_bytes" => &mut budget.reachable_bytes,
                "reachable_blocks" => &mut budget.reachable_blocks,
                "outstanding_bytes" => &mut budget.outstanding_bytes,
                "fds" => &mut budget.fds,
                "kernel_bytes" => &mut budget.kernel_bytes,
                "ipc" => &mut budget.ipc,
                "children" => &mut budget.children,
                "threads" => &mut budget.threads,
                "mapped_bytes" => &mut budget.mapped_bytes,
                "iterations" => &mut budget.iterations,
                "warmup" => &mut budget.warmup,
                "bytes_per_iteration" => &mut budget.bytes_per_iteration,
                "peak_bytes" => &mut budget.peak_bytes,
                "total_blocks" => &mut budget.total_blocks,
                _ => return Err(format!("unknown limit {key:?} for `{name}`")),
            };
            set(limit, value.parse::<u64>().map_err(|error| format!("{line:?} of `{name}`: {error}"))?)
        }
        .map_err(|()| format!("`{key}` is given twice for `{name}`"))?;
    }
    if budget == Budget::default() {
        return Err(format!("no limits for `{name}`"));
    }
    Ok((name, budget))
}

fn set<T>(place: &mut Option<T>, value: T) -> Result<(), ()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use object::write::Object;
    use object::{Architecture, Endianness, SectionKind};
    use proptest::prelude::*;

    use super::*;

    fn file(format: BinaryFormat, section: &[u8]) -> Vec<u8> {
        let mut file = Object::new(format, Architecture::X86_64, Endianness::Little);
        let id = file.add_section(vec![], BUDGET_SECTION.into(), SectionKind::ReadOnlyData);
        file.append_section_data(id, section, 8);
        file.write().expect("a small object file")
    }

    fn record(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).expect("a short text");
        [b"LKB1", length.to_le_bytes().as_slice(), text.as_bytes()].concat()
    }

    #[test]
    fn records_may_be_padded_and_only_the_crate_is_stripped() {
        let section = [
            &[0; 3],
            record("krate::a::b\nbytes=0\nblocks=1\nreachable_bytes=2\nreachable_blocks=3\n").as_slice(),
            &record("krate::top\noutstanding_bytes=18446744073709551615\nignore=a=b, ünïcode\n"),
            &[0; 7],
            &record("krate::r#mod::r#type\nbytes=5\nfds=6\nipc=7\nchildren=8\nthreads=9\nkernel_bytes=10\nmapped_bytes=11\niterations=20\nwarmup=3\nbytes_per_iteration=12\npeak_bytes=13\ntotal_blocks=14\n"),
            &[0; 9],
        ]
        .concat();
        let limits = Budget {
            bytes: Some(0),
            blocks: Some(1),
            reachable_bytes: Some(2),
            reachable_blocks: Some(3),
            ..Budget::default()
        };
        let ignored = Budget {
            outstanding_bytes: Some(u64::MAX),
            ignore: Some("a=b, ünïcode".into()),
            ..Budget::default()
        };
        let raw = Budget {
            bytes: Some(5),
            fds: Some(6),
            kernel_bytes: Some(10),
            ipc: Some(7),
            children: Some(8),
            threads: Some(9),
            mapped_bytes: Some(11),
            iterations: Some(20),
            warmup: Some(3),
            bytes_per_iteration: Some(12),
            peak_bytes: Some(13),
            total_blocks: Some(14),
            ..Budget::default()
        };
        let expected = [("a::b", limits), ("top", ignored), ("r#mod::r#type", raw)];
        assert_eq!(records(&section), Ok(expected.map(|(name, budget)| (name.to_owned(), budget)).into()));
    }

    #[test]
    fn every_damage_is_named_with_its_offset() {
        let good = record("k::good\nbytes=0\n");
        let huge = [b"LKB1".as_slice(), &[0xff; 4], b"k::t\n"].concat();
        let not_utf8 = b"LKB1\x01\0\0\0\xff".to_vec();
        for (bad, reason) in [
            (b"LK".to_vec(), "cut off after 2 bytes"),
            (b"LKB1\x10\0".to_vec(), "cut off after 6 bytes"),
            (b"LKB2\0\0\0\0".to_vec(), "starts with \"LKB2\", not with \"LKB1\""),
            (huge, "its text should have 4294967295 bytes, but only 5 follow"),
            (good[..good.len() - 1].to_vec(), "its text should have 16 bytes, but only 15 follow"),
            (not_utf8, "not UTF-8"),
            (record(""), "does not end with a line feed"),
            (record("k::t\nbytes=0"), "does not end with a line feed"),
            (record("t\nbytes=0\n"), "\"t\" is not the path of a test"),
            (record("k::\nbytes=0\n"), "\"k::\" is not the path of a test"),
            (record("k::t\n"), "no limits for `t`"),
            (record("k::t\nbytes\n"), "\"bytes\" of `t` is not `key=value`"),
            (record("k::t\nbytes=-1\n"), "\"bytes=-1\" of `t`: invalid digit"),
            (record("k::t\nbytes=18446744073709551616\n"), "number too large"),
            (record("k::t\npages=0\n"), "unknown limit \"pages\" for `t`"),
            (record("k::t\nbytes=0\nbytes=1\n"), "`bytes` is given twice for `t`"),
            (good.clone(), "a second budget for `good`"),
        ] {
            let error = records(&[good.as_slice(), &bad].concat()).expect_err(reason);
            // 8 bytes of header and 16 of text come before.
            assert!(error.starts_with("budget record at offset 24 of section leakcheck_budget: "), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_binary_without_the_section_has_no_budgets() {
        let this = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(read(this.as_slice()), Ok(HashMap::new()));
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        for bytes in [b"".as_slice(), b"#!/bin/sh\n", b"\x7fELF", b"!<arch>\n"] {
            let error = read(bytes).unwrap_err();
            assert!(error.starts_with("cannot be read as an executable: "), "{error}");
        }
        let coff = file(BinaryFormat::Coff, &record("k::t\nbytes=0\n"));
        assert_eq!(read(coff.as_slice()), Err("is no ELF file but Coff".into()));
    }

    #[test]
    fn a_section_that_ends_outside_the_file_is_refused() {
        let record = record("k::t\nbytes=0\n");
        let elf = file(BinaryFormat::Elf, &record);
        assert_eq!(read(elf.as_slice()).unwrap()["t"].bytes, Some(0));
        // The size in the section header: the only 64-bit word that is the record's length.
        let size = (record.len() as u64).to_le_bytes();
        let places = elf.windows(8).enumerate().filter(|(_, window)| **window == size).collect::<Vec<_>>();
        let [(place, _)] = places[..] else { panic!("{places:?}") };
        let mut damaged = elf;
        damaged[place..place + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = read(damaged.as_slice()).unwrap_err();
        assert!(error.starts_with("section leakcheck_budget cannot be read: "), "{error}");
    }

    proptest! {
        /// Records survive the way through a section, and no cut of it gives anything but a part or an error.
        #[test]
        fn truncated_sections(names in prop::collection::hash_set("[a-z]{1,4}(::[a-z]{1,4})?", 1..5), cut in any::<prop::sample::Index>()) {
            let section = names.iter().flat_map(|name| record(&format!("k::{name}\nblocks=7\n"))).collect::<Vec<_>>();
            let whole = records(&section).unwrap();
            prop_assert_eq!(whole.len(), names.len());
            prop_assert!(names.iter().all(|name| whole[name].blocks == Some(7)));
            if let Ok(part) = records(&section[..cut.index(section.len())]) {
                prop_assert!(part.len() < names.len());
            }
        }

        #[test]
        fn no_bytes_panic(section in prop::collection::vec(any::<u8>(), 0..200), length in any::<u32>()) {
            let _ = read(section.as_slice());
            let _ = records(&section);
            // Get past the magic too, with lengths small and huge.
            for length in [length, length % 256] {
                let _ = records(&[b"LKB1", length.to_le_bytes().as_slice(), &section].concat());
            }
        }

        #[test]
        fn no_text_panics(text in "(k::)?[a-z:]{0,5}\n?((bytes|blocks|ignore|=|[0-9]{1,21}|\n|é)*)") {
            let _ = records(&record(&text));
        }

        #[test]
        fn no_damaged_binary_panics(at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut elf = file(BinaryFormat::Elf, &record("k::t\nbytes=0\n"));
            for (index, byte) in at {
                let index = index.index(elf.len());
                elf[index] = byte;
            }
            let _ = read(elf.as_slice());
        }
    }
}
