use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bits in memory that others change at the same time.
pub struct SharedBits {
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are only changed atomically, and the mapping belongs to the value.
unsafe impl Send for SharedBits {}

impl SharedBits {
    /// Maps the words behind a descriptor; `count` of them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn map(descriptor: impl AsFd, count: usize) -> io::Result<Self> {
        let bytes = NonZeroUsize::new(count * 8).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at a place that the system chooses.
        let words = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, descriptor, 0) }?;
        Ok(Self { words: words.cast(), count })
    }

    /// Sets or clears a bit.
    pub fn set(&self, bit: usize, value: bool) {
        let (word, bit) = (bit / 64, 1 << (bit % 64));
        if word >= self.count {
            return;
        }
        // SAFETY: the place is in the mapping, whose words are atomic to everyone.
        let word = unsafe { self.words.add(word).as_ref() };
        if value {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

impl SharedBits {
    /// Sets a whole word.
    pub fn set_word(&self, word: usize, value: u64) {
        if word < self.count {
            // SAFETY: as in `set`.
            unsafe { self.words.add(word).as_ref() }.store(value, Ordering::Relaxed);
        }
    }
}

impl Drop for SharedBits {
    fn drop(&mut self) {
        // SAFETY: nobody holds a reference into it; a mapping of ours can be unmapped.
        let _ = unsafe { munmap(self.words.cast(), self.count * 8) };
    }
}
