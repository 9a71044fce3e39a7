//! How much a process has allocated in its window, and how much of that is alive.

use leakcheck_common::process;

use crate::maps::{Current, PROCESSES, add};

impl Current {
    /// Counts a block that counts, which is there in the place of another one of `old` bytes that did.
    #[inline(always)]
    pub fn allocated(self, size: u64, old: u64) -> Option<()> {
        let record = PROCESSES.get_ptr_mut(&self.process)?;
        add(record, process::WINDOW_LIVE, 1);
        add(record, process::TOTAL_BLOCKS, 1);
        add(record, process::TOTAL_BYTES, size);
        self.change(record, size.wrapping_sub(old));
        Some(())
    }

    /// Counts that a block that did count is gone.
    #[inline(always)]
    pub fn gone(self, size: u64) -> Option<()> {
        let record = PROCESSES.get_ptr_mut(&self.process)?;
        add(record, process::WINDOW_LIVE, u64::MAX);
        self.change(record, 0_u64.wrapping_sub(size));
        Some(())
    }

    /// Takes the old block of a `realloc` off the live bytes, whose new one does not count.
    #[inline(always)]
    pub fn replaced(self, old: u64) -> Option<()> {
        self.change(PROCESSES.get_ptr_mut(&self.process)?, 0_u64.wrapping_sub(old));
        Some(())
    }

    /// Changes the live bytes, and keeps their peak.
    #[inline(always)]
    fn change(self, record: *mut [u64; process::WORDS], by: u64) {
        use core::intrinsics::{AtomicOrdering::SeqCst, atomic_cxchg};
        /// Attempts at a peak: each that fails has found another thread's.
        const ATTEMPTS: usize = 16;
        if by == 0 {
            return;
        }
        let live = add(record, process::LIVE_BYTES, by).wrapping_add(by);
        // SAFETY: a word of the record, which the map keeps for as long as the program runs.
        let word = unsafe { record.cast::<u64>().add(process::PEAK_BYTES) };
        // SAFETY: as above.
        let mut peak = unsafe { word.read_volatile() };
        for _ in 0..ATTEMPTS {
            if live as i64 <= peak as i64 {
                return;
            }
            // SAFETY: as above; the word is only changed atomically.
            let (seen, done) = unsafe { atomic_cxchg::<u64, { SeqCst }, { SeqCst }>(word, peak, live) };
            if done {
                return;
            }
            peak = seen;
        }
        add(record, process::LOST_PEAKS, 1);
    }
}
