//! The two tables: blocks by their address, call stacks by their frames. Both are tries whose nodes
//! are the records themselves, to which records are added by one compare-and-swap and never taken
//! away: no lock, no moving, and the reader of a process that was stopped anywhere finds them whole.
//! (The shape is Christopher Wellons' "hash-trie", <https://nullprogram.com/blog/2023/09/30/>.)

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{block, stack};
use crate::pool::Pool;
use crate::thread::{self, CallStack};

/// Roots of the trie of blocks: one for each 16 bytes of a heap of 4 MiB.
pub const BLOCK_ROOTS: usize = 1 << 18;
/// Roots of the trie of stacks.
pub const STACK_ROOTS: usize = 1 << 10;

/// A 64-bit number spread over all bits.
#[inline(always)]
fn spread(number: u64) -> u64 {
    let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

/// The child of a node that the key's next two bits choose.
///
/// # Safety
/// `node` is a record of a pool with its children at word `CHILDREN`.
#[inline(always)]
unsafe fn child<const CHILDREN: usize>(node: *const AtomicU64, key: u64) -> *const AtomicU32 {
    // SAFETY: four numbers of 32 bits, the last of which `key & 3` reaches at most.
    unsafe { node.add(CHILDREN).cast::<AtomicU32>().add((key & 3) as usize) }
}

/// A block record.
#[derive(Clone, Copy)]
pub struct Block(*const AtomicU64);

impl Block {
    #[inline(always)]
    fn word(&self, word: usize) -> &AtomicU64 {
        // SAFETY: a record has `block::WORDS` words, and lives as long as the process.
        unsafe { &*self.0.add(word) }
    }

    /// Whether the record is that of an address. Compared in memory: were the thread killed with another
    /// block's address in a register, the block would pass for one that is referred to.
    #[inline(always)]
    fn is_of(&self, address: usize) -> bool {
        let equal: u8;
        // SAFETY: a word of the record is read; only its own maker writes it, before anyone else knows of it.
        unsafe {
            asm!(
                "cmp qword ptr [{0}], {1}",
                "sete {2}",
                in(reg) self.word(block::ADDRESS),
                in(reg) address,
                lateout(reg_byte) equal,
                options(readonly, pure, nostack),
            );
        }
        equal != 0
    }

    #[inline(always)]
    pub fn flags(&self) -> u64 {
        self.word(block::FLAGS).load(Ordering::Relaxed)
    }

    /// The requested size.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        self.word(block::SIZE).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn set_flags(&self, flags: u64) {
        self.word(block::FLAGS).store(flags, Ordering::Release);
    }

    /// Replaces the flags unless somebody else has.
    #[inline(always)]
    pub fn replace_flags(&self, old: u64, new: u64) {
        let _ = self.word(block::FLAGS).compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
    }

    /// Notes where the block is freed.
    pub fn set_freed(&self, stack: u32) {
        let word = self.word(block::STACK).load(Ordering::Relaxed);
        let word = word & u64::from(u32::MAX) | u64::from(stack) << 32;
        self.word(block::STACK).store(word, Ordering::Relaxed);
    }

    /// The call stacks of the block: where it was allocated and freed.
    pub fn stacks(&self) -> u64 {
        self.word(block::STACK).load(Ordering::Relaxed)
    }

    /// Writes a new block down. The flags come last: without them the record is that of a freed one.
    #[inline(always)]
    pub fn write(&self, size: u64, time: u64, stack: u32, flags: u64) {
        self.word(block::SIZE).store(size, Ordering::Relaxed);
        self.word(block::TIME).store(time, Ordering::Relaxed);
        self.word(block::STACK).store(stack.into(), Ordering::Relaxed);
        self.set_flags(flags);
    }
}

/// Blocks by address.
pub struct Blocks {
    pub pool: Pool<{ block::WORDS }, { block::FIRST }>,
    pub roots: AtomicU64,
}

impl Blocks {
    /// Where an address is looked for: its root, and the bits that choose the way below. Neighbours have roots side by side, so that
    /// in a heap of four megabytes each block has its own, and a smaller one needs few pages of roots; heaps that are apart are
    /// spread over all.
    #[inline(always)]
    fn way(&self, address: usize) -> (*const AtomicU32, u64) {
        let key = spread(address as u64);
        let roots = self.roots.load(Ordering::Relaxed) as usize as *const AtomicU32;
        let root = address as u64 >> 4 ^ spread(address as u64 >> 22);
        // SAFETY: there are `BLOCK_ROOTS` roots.
        (unsafe { roots.add(root as usize % BLOCK_ROOTS) }, key)
    }

    /// The record of an address that was allocated before.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<Block> {
        let (mut slot, mut key) = self.way(address);
        loop {
            // SAFETY: a slot is a root or a child of a record.
            let number = unsafe { (*slot).load(Ordering::Acquire) };
            if number == 0 {
                return None;
            }
            let words = self.pool.words(number);
            let found = Block(words);
            if found.is_of(address) {
                return Some(found);
            }
            // SAFETY: the number of a record of this pool.
            slot = unsafe { child::<{ block::CHILDREN }>(words, key) };
            key >>= 2;
        }
    }

    /// The record of an address, made if there is none; none if there is no memory.
    #[inline(always)]
    pub fn find_or_make(&self, address: usize) -> Option<Block> {
        match self.find(address) {
            Some(found) => Some(found),
            None => self.make(address),
        }
    }

    #[cold]
    fn make(&self, address: usize) -> Option<Block> {
        let (number, made) = self.record(address)?;
        let (mut slot, mut key) = self.way(address);
        loop {
            // SAFETY: a slot is a root or a child of a record. Nobody else adds this address: the
            // allocator has just given it to the running thread alone.
            match unsafe { (*slot).compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) } {
                Ok(_) => return Some(made),
                Err(other) => {
                    // SAFETY: the number of a record of this pool.
                    slot = unsafe { child::<{ block::CHILDREN }>(self.pool.words(other), key) };
                    key >>= 2;
                }
            }
        }
    }

    /// A record of an address that nobody else knows of, and its number.
    fn record(&self, address: usize) -> Option<(u32, Block)> {
        let number = thread::current().record(|count| self.pool.take(count))?;
        let record = Block(self.pool.words(number));
        record.word(block::ADDRESS).store(address as u64, Ordering::Relaxed);
        Some((number, record))
    }

    /// Writes down a free of something that is not allocated; `before` are the call stacks of what was
    /// freed there. Such a record is in no trie.
    #[cold]
    pub fn bad_free(&self, address: usize, before: u64, time: u64, stack: u32, flags: u64) -> Option<()> {
        let (_, record) = self.record(address)?;
        record.write(before, time, stack, flags);
        Some(())
    }
}

/// Call stacks by their frames.
pub struct Stacks {
    pub pool: Pool<1, { stack::FIRST }>,
    pub roots: AtomicU64,
}

impl Stacks {
    /// The number of a call stack, which is added if it is new; none if there is no memory.
    pub fn number(&self, CallStack { frames, hash }: CallStack<'_>) -> Option<u32> {
        let hash = spread(hash);
        let roots = self.roots.load(Ordering::Relaxed) as usize as *const AtomicU32;
        // SAFETY: there are `STACK_ROOTS` roots.
        let mut slot = unsafe { roots.add(hash as usize % STACK_ROOTS) };
        let mut key = hash >> 10;
        let mut made = 0;
        loop {
            // SAFETY: a slot is a root or a child of a record.
            let mut number = unsafe { (*slot).load(Ordering::Acquire) };
            if number == 0 {
                if made == 0 {
                    made = self.make(hash, frames)?;
                }
                // SAFETY: as above.
                match unsafe { (*slot).compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire) } {
                    Ok(_) => return Some(made),
                    Err(other) => number = other,
                }
            }
            let words = self.pool.words(number);
            if self.is(words, hash, frames) {
                return Some(number);
            }
            // SAFETY: the number of a record of this pool.
            slot = unsafe { child::<{ stack::CHILDREN }>(words, key) };
            key >>= 2;
        }
    }

    /// Whether a record is that of these frames.
    #[inline(always)]
    fn is(&self, words: *const AtomicU64, hash: u64, frames: &[u64]) -> bool {
        // SAFETY: a record has its hash, its count, and as many frames as that says.
        let word = |word: usize| unsafe { (*words.add(word)).load(Ordering::Relaxed) };
        word(stack::HASH) == hash
            && word(stack::COUNT) == frames.len() as u64
            && frames.iter().enumerate().fold(0, |other, (place, frame)| {
                // SAFETY: as above; frames do not change once others know of them.
                other | unsafe { *words.add(stack::FRAMES + place).cast::<u64>() } ^ frame
            }) == 0
    }

    fn make(&self, hash: u64, frames: &[u64]) -> Option<u32> {
        let number = self.pool.take(stack::FRAMES + frames.len() + stack::BEHIND)?;
        let words = self.pool.words(number);
        // SAFETY: so many words were taken, and nobody else knows of them.
        let set = |word: usize, value| unsafe { (*words.add(word)).store(value, Ordering::Relaxed) };
        set(stack::HASH, hash);
        set(stack::COUNT, frames.len() as u64);
        frames.iter().enumerate().for_each(|(place, frame)| set(stack::FRAMES + place, *frame));
        Some(number)
    }
}
