//! Static data as the modules themselves declare it: variables, and the thread-local storage of the first
//! thread. Where a heap is not known, that is all of anonymous memory that can be told from it.

use std::ops::Range;

use nix::unistd::Pid;
use object::elf::{ET_DYN, FileHeader64, PF_W, PT_LOAD, PT_TLS, ProgramHeader64};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use super::descriptor::DESCRIPTOR;
use crate::snapshot::Mapping;
use crate::trace::read;

const PAGE: u64 = 4096;
type Elf = FileHeader64<LittleEndian>;

/// Where static data is.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Statics {
    /// Writable segments, of which all but the initialized parts are anonymous memory.
    pub data: Vec<Range<u64>>,
    /// Bytes of thread-local storage in front of a thread's descriptor.
    thread_bytes: u64,
}

impl Statics {
    /// Those of all modules of a process.
    pub fn of(reader: Pid, mappings: &[Mapping]) -> Self {
        let mut statics = Self::default();
        for mapping in mappings {
            if mapping.path.starts_with('/') && mapping.offset == 0 && mapping.readable {
                // What is no ELF file has no static data.
                let _ = statics.add(mapping.range.start, &read(reader, mapping.range.start, PAGE as usize));
            }
        }
        statics
    }

    /// The thread-local storage of a thread.
    pub fn storage(&self, pointer: u64) -> Range<u64> {
        pointer.saturating_sub(self.thread_bytes)..pointer
    }

    /// The same with its descriptor.
    pub fn of_thread(&self, pointer: u64) -> Range<u64> {
        self.storage(pointer).start..pointer.saturating_add(DESCRIPTOR)
    }

    fn add(&mut self, start: u64, page: &[u8]) -> Option<()> {
        let header = Elf::parse(page).ok()?;
        let segments: &[ProgramHeader64<LittleEndian>] = header.program_headers(LittleEndian, page).ok()?;
        let load = || segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD);
        let address = |segment: &ProgramHeader64<LittleEndian>| segment.p_vaddr(LittleEndian);
        let first = load().map(address).min()? & !(PAGE - 1);
        let bias = if header.e_type(LittleEndian) == ET_DYN { start.checked_sub(first)? } else { 0 };
        for segment in load().filter(|segment| segment.p_flags(LittleEndian) & PF_W == PF_W) {
            let start = bias.checked_add(address(segment))?;
            self.data.push(start..start.checked_add(segment.p_memsz(LittleEndian))?);
        }
        for segment in segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_TLS) {
            let align = segment.p_align(LittleEndian).clamp(1, PAGE);
            // Where it begins depends on what is there already.
            self.thread_bytes += segment.p_memsz(LittleEndian) + 2 * align;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with two segments: 0x1234 writable bytes at 0x4010, and 0x30 bytes of each thread.
    fn file(kind: u16) -> Vec<u8> {
        let mut page = b"\x7fELF\x02\x01\x01".to_vec();
        page.resize(16, 0);
        page.extend([kind, 62].map(u16::to_le_bytes).concat());
        page.extend(1_u32.to_le_bytes());
        page.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
        page.extend(0_u32.to_le_bytes());
        page.extend([64_u16, 56, 3, 64, 0, 0].map(u16::to_le_bytes).concat());
        for (kind, flags, address, bytes, align) in [
            (1_u32, 5_u32, 0x1000_u64, 0x100_u64, 4096_u64),
            (1, 6, 0x4010, 0x1234, 4096),
            (7, 4, 0x4010, 0x30, 16),
        ] {
            page.extend([kind, flags].map(u32::to_le_bytes).concat());
            page.extend([0, address, address, bytes, bytes, align].map(u64::to_le_bytes).concat());
        }
        page
    }

    #[test]
    fn segments_are_where_the_module_is() {
        let mut statics = Statics::default();
        statics.add(0x7000_1000, &file(3)).unwrap();
        // The first segment, at 0x1000 in the file, is where the module begins.
        assert_eq!(statics.data.as_slice(), std::slice::from_ref(&(0x7000_4010..0x7000_5244)));
        assert_eq!(statics.of_thread(0x9000), 0x9000 - 0x50..0x9000 + DESCRIPTOR);
        let mut fixed = Statics::default();
        fixed.add(0x1000, &file(2)).unwrap();
        assert_eq!(fixed.data.as_slice(), std::slice::from_ref(&(0x4010..0x5244)));
        assert_eq!(Statics::default().add(0x1000, b"#!/bin/sh"), None);
    }
}
