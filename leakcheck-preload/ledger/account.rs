//! What each thread keeps an account of: how much it allocates and frees of the blocks that count.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::by_stack::ByStack;
use crate::layout::account;

/// A thread's account. Only its thread writes to it, so plain loads and stores are enough. It is handed on by value: the hooks' frames
/// have no room for it, which would not be written to before a walk.
#[derive(Clone, Copy)]
pub struct Account(*const AtomicU64);

/// What all threads have handed over, and how much each may keep for itself.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Live bytes.
    pub live: &'static AtomicU64,
    /// The most that those ever were.
    pub most: &'static AtomicU64,
    pub slack: u64,
    /// Where it is asked for by call stacks.
    pub by_stack: Option<ByStack>,
}

impl Account {
    /// The account whose words are at an address.
    ///
    /// # Safety
    /// There are [`account::WORDS`] words, for as long as the process lives.
    #[inline(always)]
    pub unsafe fn at(words: *const AtomicU64) -> Self {
        Self(words)
    }

    #[inline(always)]
    fn word(&self, word: usize) -> &AtomicU64 {
        // SAFETY: an account has `account::WORDS` words, and lives as long as the process.
        unsafe { &*self.0.add(word) }
    }

    #[inline(always)]
    fn get(&self, word: usize) -> i64 {
        self.word(word).load(Ordering::Relaxed) as i64
    }

    #[inline(always)]
    fn set(&self, word: usize, value: i64) {
        self.word(word).store(value as u64, Ordering::Relaxed);
    }

    /// Counts a block that was allocated.
    #[inline(always)]
    pub fn allocated(self, size: usize) {
        self.set(account::BLOCKS, self.get(account::BLOCKS).wrapping_add(1));
        self.set(account::BYTES, self.get(account::BYTES).wrapping_add(size as i64));
    }

    /// Changes the live bytes, of which `old` are gone: by a `realloc` at once, so that its two blocks are never both alive or
    /// both gone. `stacks` are the numbers of their call stacks: that of the new block in the lower half, that of the old one in the
    /// upper half, 0 where there is none.
    #[inline(always)]
    pub fn change(self, by: i64, old: u64, stacks: impl FnOnce() -> u64, shared: impl FnOnce() -> Shared) {
        let live = self.get(account::LIVE).wrapping_add(by);
        self.set(account::LIVE, live);
        // Both are within the slack, and 0 where there is none.
        if live > self.get(account::TOP) || live < self.get(account::BOTTOM) {
            self.go_further(live, by, old, stacks, shared);
        }
    }

    /// The thread has more for itself than ever since it has handed over, or less. (What it needs for that is not put into the
    /// frame of a hook, and not looked up before.)
    #[cold]
    #[inline(never)]
    fn go_further(
        self,
        live: i64,
        by: i64,
        old: u64,
        stacks: impl FnOnce() -> u64,
        shared: impl FnOnce() -> Shared,
    ) {
        let shared = shared();
        if let Some(by_stack) = shared.by_stack {
            by_stack.change(by, old, stacks(), || self.hand_over(live, shared));
            // A change by nothing may be one of call stacks.
            self.set(account::TOP, -1);
            return;
        }
        if live.unsigned_abs() > shared.slack {
            self.hand_over(live, shared);
            return;
        }
        self.set(if live > 0 { account::TOP } else { account::BOTTOM }, live);
    }

    /// Where there was no other account until now, all that was is known exactly: hands it over, and keeps nothing of it.
    pub fn settle(self, shared: Shared) {
        self.hand_over(self.get(account::LIVE), shared);
        // Neither is below 0.
        shared.most.fetch_max(self.get(account::PEAK) as u64, Ordering::Relaxed);
        self.set(account::OLD_TOP, 0);
        self.set(account::OLD_BOTTOM, 0);
        if shared.by_stack.is_some() {
            self.set(account::TOP, -1);
        }
    }

    /// Whether there was never more alive.
    fn hand_over(self, live: i64, shared: Shared) -> bool {
        let Shared { live: all, most, .. } = shared;
        let before = all.fetch_add(live as u64, Ordering::Relaxed) as i64;
        let (top, bottom) = (self.get(account::TOP), self.get(account::BOTTOM));
        self.set(account::PEAK, self.get(account::PEAK).max(before.wrapping_add(top)));
        self.set(account::OLD_TOP, self.get(account::OLD_TOP).max(top));
        self.set(account::OLD_BOTTOM, self.get(account::OLD_BOTTOM).min(bottom));
        self.set(account::HANDED, self.get(account::HANDED).wrapping_add(1));
        self.set(account::LIVE, 0);
        self.set(account::TOP, 0);
        self.set(account::BOTTOM, 0);
        let now = before.wrapping_add(live);
        let mut seen = most.load(Ordering::Relaxed);
        while now > seen as i64 {
            match most.compare_exchange_weak(seen, now as u64, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
        false
    }
}
