//! The modules of a process as files: which file offset is which virtual address.

use std::fs::File;
use std::ops::Range;

use object::read::{Object, ObjectSegment, ReadCache};

/// An executable or a shared library.
pub(super) struct Module {
    /// Its path, without the kernel's ` (deleted)`.
    pub name: String,
    /// Offsets in the file and the virtual address of the first; empty when the file is gone, has
    /// been replaced, or is no ELF file.
    segments: Vec<(Range<u64>, u64)>,
}

impl Module {
    /// Reads the program headers of the file at a mapping's path.
    pub fn open(path: &str) -> Self {
        let name = path.strip_suffix(" (deleted)").unwrap_or(path);
        // A deleted file's name may have been taken by another file: that one is not it.
        let segments = if name == path { segments(path).unwrap_or_default() } else { Vec::new() };
        Self { name: name.to_owned(), segments }
    }

    /// The virtual address of a file offset.
    pub fn virtual_address(&self, offset: u64) -> Option<u64> {
        let (file, address) = self.segments.iter().find(|(file, _)| file.contains(&offset))?;
        Some(offset - file.start + address)
    }
}

fn segments(path: &str) -> Option<Vec<(Range<u64>, u64)>> {
    // Only a regular file: opening a pipe would wait, a device may do anything.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let data = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&data).ok()?;
    let segments = file.segments().filter_map(|segment| {
        let (offset, size) = segment.file_range();
        Some((offset..offset.checked_add(size)?, segment.address()))
    });
    Some(segments.collect())
}
