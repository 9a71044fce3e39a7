//! Memory that grows by chunks, each twice as long as the one before, and is never given back:
//! numbers stay valid, and a reader needs no lock.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{length, place};
use crate::sys;

/// A pool of records of `UNIT` words, the first chunk with `FIRST` of them.
pub struct Pool<const UNIT: usize, const FIRST: usize> {
    /// Addresses of the chunks.
    chunks: &'static [AtomicU64],
    /// Records handed out.
    next: &'static AtomicU64,
}

impl<const UNIT: usize, const FIRST: usize> Pool<UNIT, FIRST> {
    pub const fn new(chunks: &'static [AtomicU64], next: &'static AtomicU64) -> Self {
        Self { chunks, next }
    }

    /// Makes the first chunk, where it is not part of other memory.
    #[cfg(test)]
    pub fn first_chunk(&self) {
        self.chunk(0).expect("memory for a chunk");
    }

    /// Takes `count` records that lie side by side; the number of the first. None where there is no
    /// memory or no number left.
    pub fn take(&self, count: usize) -> Option<u32> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let (chunk, index) = place(next as usize, FIRST);
            let rest = length(chunk, FIRST) - index;
            let start = if count <= rest { next } else { next + rest as u64 };
            let number = u32::try_from(start + count as u64).ok()?;
            match self.next.compare_exchange_weak(next, number.into(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.chunk(place(start as usize, FIRST).0)?;
                    return Some(start as u32);
                }
                Err(other) => next = other,
            }
        }
    }

    /// The words of a record that was taken.
    #[inline(always)]
    pub fn words(&self, number: u32) -> *const AtomicU64 {
        let (chunk, index) = place(number as usize, FIRST);
        let start = self.chunks.get(chunk).map_or(0, |chunk| chunk.load(Ordering::Acquire));
        (start as usize + index * UNIT * 8) as *const AtomicU64
    }

    /// Makes a chunk if it is not there.
    fn chunk(&self, chunk: usize) -> Option<()> {
        let slot = self.chunks.get(chunk)?;
        if slot.load(Ordering::Acquire) != 0 {
            return Some(());
        }
        let bytes = length(chunk, FIRST) * UNIT * 8;
        let address = sys::map(bytes)?;
        sys::wipe_in_children(address, bytes);
        if slot.compare_exchange(0, address as u64, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster, and nobody has seen this one.
            unsafe { sys::unmap(address, bytes) };
        }
        Some(())
    }
}
