//! What the ledger and the tracer agree on. Everything is words of 64 bits at fixed places, in the
//! byte order of the machine. Change [`VERSION`] with anything here.

/// Version of this layout.
pub const VERSION: u64 = 6;

/// Name of the symbol of the [`control`] words.
pub const CONTROL: &str = "LEAKCHECK_LEDGER";

/// Name of the function that the tracer has called before anything of the program runs. It does
/// what `malloc` does, after it has opened the table of frames.
pub const ENTER: &str = "leakcheck_enter";

/// Name of the function by which a template is prepared: it opens the table of frames, and makes system calls.
pub const TEMPLATE: &str = "leakcheck_template";

/// Name of the function that makes system calls in a template, and then a process.
pub const CLONE: &str = "leakcheck_clone";

/// Name of the function that such a process begins by: it makes system calls, does what [`ENTER`] does, and goes on into the
/// program.
pub const FORKED: &str = "leakcheck_forked";

/// Numbers that the descriptor of the window bits may have: the first that is free and allowed. The
/// ledger closes it before anything of the program runs.
pub const WINDOW_FDS: [i32; 8] = [1000, 900, 500, 250, 120, 60, 40, 20];

/// The last word of the window bits, by which the ledger knows them.
pub const WINDOW_MAGIC: u64 = 0x6c65_616b_6368_6563;

/// Size of the window bits: bit `n` of word `n / 64` is 1 while everything that thread `n` allocates
/// counts. There is room for every thread id (`PID_MAX_LIMIT`, include/linux/threads.h), and a word more.
pub const WINDOW_BYTES: usize = (4 << 20) / 8 + 4096;

/// By how many bytes what a thread's own account says may differ from the shared one, where the peak need not be exact for
/// several threads (see [`account`]).
pub const SLACK: u64 = 64 << 10;

/// Frames in a recorded call stack at most, as many as the kernel side takes.
pub const MAX_FRAMES: usize = 127;

/// The ledger's control words.
pub mod control {
    /// [`super::VERSION`] once the ledger works.
    pub const VERSION: usize = 0;
    /// 1 when the window bits were found.
    pub const WINDOW: usize = 1;
    /// Start and end of the memory for roots and first chunks.
    pub const REGION: usize = 2;
    /// Block records handed out to threads, the unused first two included.
    pub const BLOCKS: usize = 4;
    /// Words of stack records handed out, the unused first ones included.
    pub const STACKS: usize = 5;
    /// Blocks that found no room.
    pub const LOST_BLOCKS: usize = 6;
    /// Call stacks that found no room.
    pub const LOST_STACKS: usize = 7;
    /// Addresses of the chunks of block records.
    pub const BLOCK_CHUNKS: usize = 16;
    /// Addresses of the chunks of stack records.
    pub const STACK_CHUNKS: usize = 40;
    /// Length of the table of frames in bytes, 0 for none (see [`crate::unwind`]).
    pub const TABLE: usize = 8;
    /// 1 when it is to be noted where blocks are freed; the tracer writes it.
    pub const NOTES: usize = 9;
    /// Blocks of threads that may not ask for their ids: whether they count is not known.
    pub const NAMELESS: usize = 10;
    /// How far behind its thread pointer each thread has a word with the address of [`super::MAX_FRAMES`] words
    /// on its stack that hold nothing of the program's, or 0.
    pub const ROOM: usize = 11;
    /// 1 when everything counts, and there are no window bits; the tracer writes it.
    pub const ALL: usize = 12;
    /// The canary of a process that was forked, once it has begun.
    pub const CANARY: usize = 15;
    /// 1 when the peak is to be exact, whatever the number of threads: they keep nothing for themselves; the tracer writes it.
    pub const EXACT: usize = 13;
    /// Calls that are in no thread's account, for want of memory.
    pub const LOST_ACCOUNTS: usize = 14;
    /// Addresses of the chunks of accounts.
    pub const ACCOUNT_CHUNKS: usize = STACK_CHUNKS + CHUNKS + 1;
    /// Accounts handed out.
    pub const ACCOUNTS: usize = ACCOUNT_CHUNKS + CHUNKS;
    /// What the accounts have handed over: live bytes, and the most that this ever was, both with a sign. In cache lines that
    /// hold nothing else.
    pub const SHARED: usize = ACCOUNTS + 16;
    /// 1 when it is to be known what is alive at the peak by call stacks; the tracer writes it, with [`EXACT`]. What the
    /// ledger makes of it: [`super::by_stack`].
    pub const BY_STACK: usize = SHARED + 2;
    /// Addresses of the chunks of what is remembered of walks, which nobody but the ledger reads.
    pub const WALK_CHUNKS: usize = SHARED + 16;
    /// Words of those handed out, the unused first one included.
    pub const WALKS: usize = WALK_CHUNKS + CHUNKS;
    /// How many words the tracer reads: those before this one.
    pub const READ: usize = WALKS + 1;
    /// Path of the table of frames, ended by a zero byte; the tracer writes it.
    pub const TABLE_PATH: usize = READ;
    /// Where modules are that have rows in that; the tracer writes them: [`MODULE_WORDS`] each, which are
    /// the start and the end of its mappings, what the loader has added to its addresses, and its key.
    pub const MODULES: usize = TABLE_PATH + 512;
    /// Modules at most.
    pub const MAX_MODULES: usize = 512;
    /// Words of a module.
    pub const MODULE_WORDS: usize = 4;
    /// Number of words.
    pub const WORDS: usize = MODULES + MAX_MODULES * MODULE_WORDS;
    /// Chunks of each kind.
    pub const CHUNKS: usize = 23;
    /// Bytes of a path at most.
    pub const PATH_BYTES: usize = (MODULES - TABLE_PATH) * 8;
}

/// Bytes of code of [`CLONE`] and [`FORKED`] at most: where a process is that is in one of them.
pub const FORK_BYTES: u64 = 64;

/// A system call that [`TEMPLATE`], [`CLONE`] or [`FORKED`] makes.
pub mod call {
    /// Its number.
    pub const NUMBER: usize = 0;
    /// Six arguments.
    pub const ARGUMENTS: usize = 1;
    /// What it has returned.
    pub const RESULT: usize = 7;
    /// Number of words.
    pub const WORDS: usize = 8;
}

/// A block record. Records are numbered from 2; chunk `k` has `FIRST << k` of them.
pub mod block {
    /// Address of the block, 0 in a record that is not in use.
    pub const ADDRESS: usize = 0;
    /// Requested size in bytes; of a bad free the word [`STACK`] of the block that was freed there.
    pub const SIZE: usize = 1;
    /// The `FLAG` constants; the thread id is in the upper half.
    pub const FLAGS: usize = 2;
    /// Time stamp counter at the allocation.
    pub const TIME: usize = 3;
    /// Number of the call stack in the lower half, and in the upper half that of the free, where it was
    /// noted; 0 for none.
    pub const STACK: usize = 4;
    /// Four numbers of records below this one.
    pub const CHILDREN: usize = 5;
    /// Number of words.
    pub const WORDS: usize = 8;
    /// Records in the first chunk.
    pub const FIRST: usize = 1024;

    /// The block is allocated; without it the record remembers a freed address.
    pub const LIVE: u64 = 1;
    /// Allocated inside the window.
    pub const WINDOW: u64 = 2;
    /// A `realloc` of the block is under way.
    pub const MOVING: u64 = 4;
    /// No block: the address was freed without being allocated.
    pub const BAD_FREE: u64 = 8;
    /// With [`BAD_FREE`]: the address was a block that had been freed.
    pub const DOUBLE: u64 = 16;
}

/// A call stack record, of variable length. Its number is that of its first word; chunk `k` has
/// `FIRST << k` words, and no record lies in two.
pub mod stack {
    /// Hash of the frames.
    pub const HASH: usize = 0;
    /// Number of frames.
    pub const COUNT: usize = 1;
    /// Four numbers of records below this one.
    pub const CHILDREN: usize = 2;
    /// The return addresses, innermost first.
    pub const FRAMES: usize = 4;
    /// Behind them: the bytes alive that were allocated there and count, where that is asked for.
    pub const BYTES: usize = 0;
    /// How many blocks that are.
    pub const BLOCKS: usize = 1;
    /// What the two were at a maximum.
    pub const OLD_BYTES: usize = 2;
    /// See [`OLD_BYTES`].
    pub const OLD_BLOCKS: usize = 3;
    /// Which one that was. If it is not the last, nothing has changed since that, and the bytes alive are those of the last.
    pub const MAXIMUM: usize = 4;
    /// Words behind the frames.
    pub const BEHIND: usize = 5;
    /// Words in the first chunk.
    pub const FIRST: usize = 8192;
}

/// What is remembered of walks, in words: chunk `k` has `FIRST << k` of them.
pub mod walk {
    /// Words in the first chunk.
    pub const FIRST: usize = 8192;
}

/// What one thread has done to the blocks that count, wherever they were allocated. Nobody else writes to it. Chunk `k` has
/// `FIRST << k` accounts.
///
/// Live bytes are those of all threads' accounts with the shared ones. A thread hands its own over when they would be more
/// than the slack, so that two threads seldom write to the same memory.
pub mod account {
    /// Blocks allocated, each `realloc` as one.
    pub const BLOCKS: usize = 0;
    /// Their requested sizes.
    pub const BYTES: usize = 1;
    /// Live bytes that were not handed over, with a sign: a thread may free what another has allocated.
    pub const LIVE: usize = 2;
    /// The most and the least that those were since the last time.
    pub const TOP: usize = 3;
    /// See [`TOP`].
    pub const BOTTOM: usize = 4;
    /// The same, of all times before.
    pub const OLD_TOP: usize = 5;
    /// See [`OLD_TOP`].
    pub const OLD_BOTTOM: usize = 6;
    /// The most that the shared bytes with the thread's own were, as it has seen it when it handed over: exact if there
    /// is no other thread.
    pub const PEAK: usize = 7;
    /// How often it has handed over.
    pub const HANDED: usize = 8;
    /// Number of words: two cache lines, which processors fetch in pairs.
    pub const WORDS: usize = 16;
    /// Accounts in the first chunk.
    pub const FIRST: usize = 8;
}

/// What is alive by call stacks: words from [`control::BY_STACK`] on.
pub mod by_stack {
    /// 0, [`ON`], or [`LOST`].
    pub const STATE: usize = 0;
    /// The thread that changes something, 0 for none.
    pub const HOLDER: usize = 1;
    /// How many maxima there have been: the number of the last.
    pub const MAXIMA: usize = 2;

    /// It is known.
    pub const ON: u64 = 1;
    /// It is not known any more.
    pub const LOST: u64 = 2;
}

/// Where number `number` is: its chunk, and its place in it, where the first chunk holds `first`.
pub const fn place(number: usize, first: usize) -> (usize, usize) {
    // Chunk k begins with number first * (2^k - 1).
    let chunk = ((number / first) + 1).ilog2() as usize;
    (chunk, number - first * ((1 << chunk) - 1))
}

/// Numbers that chunk `chunk` holds.
pub const fn length(chunk: usize, first: usize) -> usize {
    first << chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other() {
        let mut number = 0;
        for chunk in 0..6 {
            for index in 0..length(chunk, 8) {
                assert_eq!(place(number, 8), (chunk, index));
                number += 1;
            }
        }
    }
}
