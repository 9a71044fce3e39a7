//! What the kernel side and the tool agree on: record layouts, limits, names.
//!
//! Every record is an array of 64-bit words in host byte order with the fields at fixed places, so
//! that both sides read and write it without a cast. Change [`ABI_VERSION`] with any of them.
#![no_std]
#![forbid(unsafe_code)]

mod objects_of_kernel;
mod size;

pub use objects_of_kernel::{LOOK_WORDS, object, objects, total};
pub use size::{SizeError, parse_size};

/// Version of everything in this crate; an object with another version is refused at load.
pub const ABI_VERSION: u32 = 17;

/// Name of the ELF section that holds the budgets of `#[leak_budget]` (see [`BUDGET_MAGIC`]).
pub const BUDGET_SECTION: &str = "leakcheck_budget";

/// First bytes of each budget record. A record is this magic, the length of its text as a 32-bit
/// little-endian number, and the text: the test's path with its crate (`krate::module::test`), a
/// line feed, then `key=value` lines (`bytes=0`, `ignore=reason`), each ended by a line feed.
pub const BUDGET_MAGIC: [u8; 4] = *b"LKB1";

/// Frames in a recorded call stack at most (the kernel's default `perf_event_max_stack`).
pub const MAX_FRAMES: usize = 127;

/// Words of one log page (see the `LOG` map of the kernel side).
pub const LOG_PAGE_WORDS: usize = 256;

/// Set in the page number of a log page that holds stack hashes rather than block addresses.
pub const LOG_STACKS: u32 = 1 << 31;

/// Requested size of the canary block: odd enough not to be met by chance.
pub const CANARY_SIZE: u64 = 0x1ea5;

/// What a probe's attach cookie says about its place.
pub mod site {
    /// `malloc(size)`, `valloc(size)`, `pvalloc(size)`: size in the first argument.
    pub const ALLOC_SIZE: u64 = 1;
    /// `calloc(count, size)`.
    pub const ALLOC_COUNT: u64 = 2;
    /// `memalign(alignment, size)`, `aligned_alloc`: size in the second argument.
    pub const ALLOC_ALIGNED: u64 = 3;
    /// Entry of `exit`.
    pub const EXIT: u64 = 9;
    /// `posix_memalign(out, alignment, size)`: the result is the status, the block is in `*out`.
    pub const ALLOC_OUT: u64 = 4;
    /// `realloc(old, size)`.
    pub const REALLOC: u64 = 5;
    /// Entry of libtest's `__rust_begin_short_backtrace`.
    pub const BODY_ENTER: u64 = 6;
    /// A `ret` of libtest's `__rust_begin_short_backtrace`.
    pub const BODY_RETURN: u64 = 7;
    /// Entry of std's `catch_unwind::cleanup`: a panic has been caught.
    pub const PANIC_CAUGHT: u64 = 8;
    /// Entry of `dlclose`.
    pub const UNLOAD: u64 = 10;
    /// Entry of `dlopen(file, flags)`.
    pub const OPEN: u64 = 11;
    /// Entry of `dlmopen(namespace, file, flags)`.
    pub const OPEN_IN: u64 = 12;
    /// `reallocarray(old, count, size)`.
    pub const REALLOC_COUNT: u64 = 13;
    /// `__rust_realloc(old, old size, alignment, size)`: size in the fourth argument.
    pub const REALLOC_FOURTH: u64 = 14;

    /// Entry of a function that makes an IPC object; an `ipc` kind is added to this and to the next ones.
    pub const IPC_MAKE: u64 = 0x100;
    /// A `ret` of such a function.
    pub const IPC_MADE: u64 = 0x200;
    /// Entry of a function that removes one: by name, or `…ctl` with a command.
    pub const IPC_REMOVE: u64 = 0x300;

    /// `mmap`, behind its system call.
    pub const MAPPED: u64 = 0x400;
    /// `shmat`, behind its system call.
    pub const ATTACHED: u64 = 0x401;
    /// `mremap`, behind its system call.
    pub const MOVED: u64 = 0x402;
    /// `munmap`, behind its system call.
    pub const UNMAPPED: u64 = 0x403;
    /// `shmdt`, behind its system call.
    pub const DETACHED: u64 = 0x404;
}

/// Words of a block record.
pub mod block {
    /// Requested size in bytes.
    pub const SIZE: usize = 0;
    /// See the `FLAG_` constants; the thread id is in the upper half.
    pub const FLAGS: usize = 1;
    /// Hash of the call stack, 0 where none was taken (outside the window) or it was lost.
    pub const STACK: usize = 2;
    /// `CLOCK_MONOTONIC` of the allocation, nanoseconds.
    pub const TIME: usize = 3;
    /// Hash of the call stack of the free, 0 where none was taken (see [`FLAG_NOTED`]) or it was lost.
    pub const FREED: usize = 4;
    /// Number of words.
    pub const WORDS: usize = 5;

    /// The block is allocated; without it the record remembers a freed address.
    pub const FLAG_LIVE: u64 = 1;
    /// Allocated inside the window.
    pub const FLAG_WINDOW: u64 = 2;
    /// Where it is freed is to be noted.
    pub const FLAG_NOTED: u64 = 4;
}

/// Bits of threads in one entry of the `WINDOW` table: bit `n % 64` of word `n / 64` is 1 while what
/// thread `n` allocates counts. There are entries for every thread id (`PID_MAX_LIMIT`), and one
/// more.
pub const WINDOW_BITS: usize = 1 << 15;

/// Words of a process record. All but [`process::LEDGER`] and [`process::LISTED`] count up from zero.
pub mod process {
    /// What a word that counts what was lost because a table was full counts for a record that was lost because the kernel had
    /// no memory for it at that moment.
    pub const NO_MEMORY: u64 = 1 << 32;

    /// Live blocks that were allocated in the window.
    pub const WINDOW_LIVE: usize = 0;
    /// Block addresses written to the log.
    pub const LOGGED_BLOCKS: usize = 1;
    /// Stack hashes written to the log.
    pub const LOGGED_STACKS: usize = 2;
    /// Frees of addresses that were not allocated (see the `BAD_FREES` map).
    pub const BAD_FREES: usize = 3;
    /// Test bodies entered.
    pub const BODIES: usize = 4;
    /// Address of the ledger's counter of blocks in the process, 0 without a ledger.
    pub const LEDGER: usize = 5;
    /// Functions of the C library's allocator that were looked up by a handle of the library.
    pub const LOOKED_UP: usize = 6;
    /// Blocks lost because the block table was full.
    pub const LOST_BLOCKS: usize = 7;
    /// Call stacks lost because the stack table was full.
    pub const LOST_STACKS: usize = 8;
    /// Bad frees lost because their table was full.
    pub const LOST_FREES: usize = 9;
    /// Results that could not be read from the process (`posix_memalign`).
    pub const LOST_RESULTS: usize = 10;
    /// Log entries lost because the log was full: some records cannot be listed.
    pub const LOST_LOG: usize = 11;
    /// Calls of `dlclose`.
    pub const UNLOADS: usize = 12;
    /// Addresses that had been allocated when the first test body was entered: libtest's own.
    pub const BEFORE_BODY: usize = 13;
    /// Call stacks that the kernel could not read.
    pub const UNREAD_STACKS: usize = 14;
    /// Libraries opened so that their calls of the allocator pass the recorder by.
    pub const BYPASSED: usize = 15;
    /// Files (open file descriptions) made in the window.
    pub const FILES: usize = 16;
    /// Files lost because their table was full.
    pub const LOST_FILES: usize = 17;
    /// Calls that make IPC objects.
    pub const IPC_CALLS: usize = 18;
    /// Such calls lost because their table was full.
    pub const LOST_IPC_CALLS: usize = 19;
    /// Processes and threads started in the window.
    pub const STARTED: usize = 20;
    /// Such processes and threads, and descendants of them, lost because their table was full.
    pub const LOST_STARTED: usize = 21;
    /// Objects of the kernel allocated in the window, while they are recorded.
    pub const OBJECTS: usize = 22;
    /// Such objects lost because their table was full.
    pub const LOST_OBJECTS: usize = 23;
    /// Allocations that are in no total because the table of totals was full.
    pub const LOST_TOTALS: usize = 24;
    /// Mappings made in the window, by the C library's functions for that.
    pub const MAPPINGS: usize = 25;
    /// Such mappings lost because their table was full.
    pub const LOST_MAPPINGS: usize = 26;
    /// 1 where the thread that enters the first test body is to be stopped there: the tracer lists descriptors. 0
    /// again where that has failed.
    pub const LISTED: usize = 27;
    /// Descendants that are no more, lost because their table was full.
    pub const LOST_ENDED: usize = 28;
    /// Blocks allocated in the window, each `realloc` as one.
    pub const TOTAL_BLOCKS: usize = 29;
    /// Their requested sizes.
    pub const TOTAL_BYTES: usize = 30;
    /// Requested sizes of those that are alive.
    pub const LIVE_BYTES: usize = 31;
    /// The most that those ever were.
    pub const PEAK_BYTES: usize = 32;
    /// How often that could not be kept, because too many threads were at it.
    pub const LOST_PEAKS: usize = 33;
    /// 1 where it is to be known what is alive at the peak by call stacks, 2 where that is not known any more.
    pub const BY_STACK: usize = 34;
    /// The thread that changes what is alive by call stacks, 0 for none.
    pub const HOLDER: usize = 35;
    /// How many maxima of the bytes alive there have been, where they are counted: the number of the last.
    pub const MAXIMA: usize = 36;
    /// Number of words.
    pub const WORDS: usize = 37;
}

/// Words of a thread record.
pub mod thread {
    /// 1 while what the thread allocates counts.
    pub const IN_WINDOW: usize = 0;
    /// Stack pointer at the entry of the test body, 0 outside it.
    pub const BODY_SP: usize = 1;
    /// The `site` constant of the allocator call in flight, 0 for none.
    pub const CALL: usize = 2;
    /// Stack pointer at the entry of that call: its return is the one that pops it.
    pub const CALL_SP: usize = 3;
    /// Requested size of that call.
    pub const CALL_SIZE: usize = 4;
    /// Old block of a `realloc`, or where `posix_memalign` writes.
    pub const CALL_POINTER: usize = 5;
    /// 1 when the old block's record is saved in the words from [`SAVED`] on.
    pub const HAS_SAVED: usize = 6;
    /// Record of the old block of a `realloc` in flight.
    pub const SAVED: usize = 7;
    /// Start of the C library's code, once it is known.
    pub const LIBC_START: usize = 12;
    /// Size of that code in bytes.
    pub const LIBC_SIZE: usize = 13;
    /// Stack pointer at the entry of `exit`, 0 before.
    pub const EXIT_SP: usize = 14;
    /// The six registers that a function must preserve, at the entry of `exit`.
    pub const EXIT_REGISTERS: usize = 15;
    /// Start of the C++ library's code, 0 without one.
    pub const CXX_START: usize = 21;
    /// Size of that code in bytes.
    pub const CXX_SIZE: usize = 22;
    /// Stack pointer at the entry of the library function that allocates for its caller, 0 for none.
    pub const OUTER_SP: usize = 23;
    /// Where that function returns to.
    pub const OUTER_RETURN: usize = 24;
    /// The handle of the program itself, as `dlopen` returns it for no name.
    pub const PROGRAM: usize = 25;
    /// 1 when it is to be noted where the thread's blocks are freed.
    pub const NOTES: usize = 26;
    /// 1 when functions of several allocators are probed, which call each other: what is called below a call
    /// in flight is part of it.
    pub const LAYERS: usize = 27;
    /// Stack pointer at the entry of the last free that was not part of another call, 0 before; only with
    /// [`LAYERS`].
    pub const FREE_SP: usize = 28;
    /// Where that returns to.
    pub const FREE_RETURN: usize = 29;
    /// Where its probe is.
    pub const FREE_IP: usize = 30;
    /// Room in which a call stack is taken: frame count, then the frames.
    pub const SCRATCH: usize = 31;
    /// Call stack at the entry of the library function, as in [`SCRATCH`].
    pub const OUTER: usize = SCRATCH + super::stack::WORDS;
    /// Number of words.
    pub const WORDS: usize = OUTER + super::stack::WORDS;
}

/// Words of a call stack record: the frame count, then the return addresses, innermost first.
pub mod stack {
    /// Number of frames.
    pub const COUNT: usize = 0;
    /// First frame.
    pub const FRAMES: usize = 1;
    /// Bytes alive that were allocated there in the window, where that is asked for ([`process::BY_STACK`](super::process::BY_STACK)).
    pub const BYTES: usize = FRAMES + super::MAX_FRAMES;
    /// How many blocks that are.
    pub const BLOCKS: usize = BYTES + 1;
    /// What the two were at a maximum of the process.
    pub const OLD_BYTES: usize = BYTES + 2;
    /// See [`OLD_BYTES`].
    pub const OLD_BLOCKS: usize = BYTES + 3;
    /// Which one that was. If it is not the last, nothing has changed since that, and the bytes alive are those of the last.
    pub const MAXIMUM: usize = BYTES + 4;
    /// Number of words.
    pub const WORDS: usize = BYTES + 5;
}

/// Words of a bad-free record.
pub mod bad_free {
    /// The address that was passed.
    pub const ADDRESS: usize = 0;
    /// 1 for a double free (the address was a block that has been freed), 0 for an unknown one.
    pub const DOUBLE: usize = 1;
    /// Hash of the call stack.
    pub const STACK: usize = 2;
    /// For a double free, hash of the call stack that had allocated the block.
    pub const ALLOCATED: usize = 3;
    /// For a double free, hash of the call stack that had freed the block.
    pub const FREED: usize = 4;
    /// Number of words.
    pub const WORDS: usize = 5;
}

/// Words of the record of a file (an open file description): who made it in the window, and what is needed
/// to find the call stack of that system call: its innermost frames keep no frame pointers.
pub mod file {
    /// Process id; the thread id is in the upper half.
    pub const MAKER: usize = 0;
    /// Number of the system call in flight.
    pub const CALL: usize = 1;
    /// Instruction pointer in user mode.
    pub const IP: usize = 2;
    /// Stack pointer.
    pub const SP: usize = 3;
    /// Frame pointer.
    pub const FP: usize = 4;
    /// Words of the stack that were copied, from the stack pointer up.
    pub const COPIED: usize = 5;
    /// The first frame pointer of the chain that is beyond the copy.
    pub const OUTER_FP: usize = 6;
    /// Number of return addresses in [`OUTER`].
    pub const OUTER_COUNT: usize = 7;
    /// The return addresses of the frames of the chain from [`OUTER_FP`] on, innermost first.
    pub const OUTER: usize = 8;
    /// Most of them.
    pub const OUTER_FRAMES: usize = 32;
    /// The copied words.
    pub const COPY: usize = OUTER + OUTER_FRAMES;
    /// Most words that are copied: with what the kernel adds, an entry of the table is one page.
    pub const COPY_WORDS: usize = 464;
    /// Number of words.
    pub const WORDS: usize = COPY + COPY_WORDS;
}

/// Words of what is listed of an open descriptor. All but the number say which file (open file description) it refers to: an
/// address is used again when a file is closed.
pub mod listed {
    /// Its number.
    pub const NUMBER: usize = 0;
    /// Address of its `struct file`.
    pub const FILE: usize = 1;
    /// The first of the words that `places` has offsets for, in their order.
    pub const PLACES: usize = 2;
    /// Address of the IPC namespace of the process that has it open, 0 where that cannot be read. No more of the file.
    pub const NAMESPACE: usize = PLACES + super::places::LISTED;
    /// Whether there is any IPC object in it, or may be.
    pub const HAS_OBJECTS: usize = NAMESPACE + 1;
    /// Whether the process has any POSIX timer, or may have.
    pub const HAS_TIMERS: usize = HAS_OBJECTS + 1;
    /// Number of words.
    pub const WORDS: usize = HAS_TIMERS + 1;
}

/// Offsets in bytes of what is listed of files and inodes of the kernel, and of what leads to the IPC namespace and the timers of
/// a process.
pub mod places {
    /// `file.f_inode`.
    pub const INODE: usize = 0;
    /// `file.f_path.dentry`.
    pub const NAME: usize = 1;
    /// `file.f_op`: what kind of file it is.
    pub const OPERATIONS: usize = 2;
    /// `file.private_data`.
    pub const PRIVATE: usize = 3;
    /// So many of them are of files.
    pub const OF_FILE: usize = 4;
    /// `inode.i_ino`.
    pub const INODE_NUMBER: usize = 4;
    /// `inode.i_sb`.
    pub const SUPERBLOCK: usize = 5;
    /// So many of them are listed.
    pub const LISTED: usize = 6;
    /// `task_struct.nsproxy`.
    pub const NAMESPACES: usize = 6;
    /// `nsproxy.ipc_ns`.
    pub const IPC: usize = 7;
    /// The first of those in a namespace where there is how many objects of a kind there are, in 32 bits: System V's three
    /// (`ipc_namespace.ids[].in_use`), POSIX queues (`mq_queues_count`).
    pub const COUNTS: usize = 8;
    /// How many those are.
    pub const KINDS: usize = 4;
    /// `task_struct.signal`.
    pub const SIGNAL: usize = COUNTS + KINDS;
    /// `signal_struct.posix_timers`, the head of a list.
    pub const TIMERS: usize = SIGNAL + 1;
    /// Number of words.
    pub const WORDS: usize = TIMERS + 1;
}

/// Words of the record of a process that descends from a test's and is no more. Its key is the id that it had.
pub mod ended {
    /// Process id of the test.
    pub const OWNER: usize = 0;
    /// `CLOCK_MONOTONIC` when it was no more, nanoseconds.
    pub const TIME: usize = 1;
    /// Number of words.
    pub const WORDS: usize = 2;
}

/// Words of the record of an IPC object, made by the call that has made the object. Its key is the process
/// id, with the kind in the upper half, and [`hash`](ipc::hash) of its name or its id; with
/// [`CALLING`](ipc::CALLING) added to the kind, the id of the thread that is in the call.
pub mod ipc {
    /// `shmget`.
    pub const SHARED_MEMORY: u64 = 1;
    /// `semget`.
    pub const SEMAPHORES: u64 = 2;
    /// `msgget`.
    pub const MESSAGES: u64 = 3;
    /// `mq_open`.
    pub const POSIX_QUEUE: u64 = 4;
    /// `shm_open`.
    pub const POSIX_MEMORY: u64 = 5;
    /// `sem_open`.
    pub const POSIX_SEMAPHORE: u64 = 6;
    /// Added to a kind.
    pub const CALLING: u64 = 0x80;

    /// `CLOCK_MONOTONIC` at the call, nanoseconds.
    pub const TIME: usize = 0;
    /// 1 where the call fails if there is an object already; 2 where it is `open` itself, 3 where that is another
    /// process's: there is no place then.
    pub const EXCLUSIVE: usize = 1;
    /// See [`EXCLUSIVE`].
    pub const BY_OPEN: u64 = 2;
    /// See [`EXCLUSIVE`].
    pub const BY_DESCENDANT: u64 = 3;
    /// The name without slashes in front of it, filled up with zeros.
    pub const NAME: usize = 2;
    /// Words of the name; what is longer is no name.
    pub const NAME_WORDS: usize = 32;
    /// Where it was called, as in [`file`](super::file).
    pub const PLACE: usize = NAME + NAME_WORDS;
    /// Number of words.
    pub const WORDS: usize = PLACE + super::file::WORDS;

    /// By what a name is looked up.
    #[inline(always)]
    pub fn hash(name: &[u64; NAME_WORDS]) -> u64 {
        let step = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
        name.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

/// Words of the record of a mapping that was made in the window. Its key is the process id, with the id of the thread that has
/// made it in the upper half, and the address.
pub mod mapping {
    /// `CLOCK_MONOTONIC` when it was there, nanoseconds.
    pub const TIME: usize = 0;
    /// Its size in bytes, whole pages; 0 where the call does not say it (`shmat`).
    pub const BYTES: usize = 1;
    /// The `site` constant of the call; the flags of an `mmap` are in the upper half.
    pub const CALL: usize = 2;
    /// Where it was called, as in [`file`](super::file).
    pub const PLACE: usize = 3;
    /// Number of words.
    pub const WORDS: usize = PLACE + super::file::WORDS;
}

/// Words of the record of an address range where something ends that was mapped, with a key as that of a mapping.
pub mod unmapped {
    /// `CLOCK_MONOTONIC` behind the call, nanoseconds.
    pub const TIME: usize = 0;
    /// Its size in bytes, whole pages.
    pub const BYTES: usize = 1;
    /// The thread that has unmapped it; 0 where somebody has mapped something else there.
    pub const THREAD: usize = 2;
    /// Number of words.
    pub const WORDS: usize = 3;
}

/// Words of the record of a process or thread that was started in the window, or of a process that descends
/// from such a process: that of a file, with the place where the test has called the system, and two words of its own.
pub mod started {
    /// Process id of the test; the new process's or thread's own id is in the upper half.
    pub const OWNER: usize = super::file::MAKER;
    /// 1 for a thread of the test's own process.
    pub const IS_THREAD: usize = super::file::CALL;
    /// Number of words.
    pub const WORDS: usize = super::file::WORDS;
}

/// Words of what the kernel side has to know of the kernel's own types: offsets in bytes.
pub mod layout {
    /// `task_struct.pid`.
    pub const TASK_ID: usize = 0;
    /// `task_struct.tgid`.
    pub const TASK_PROCESS: usize = 1;
    /// `task_struct.thread_pid`.
    pub const TASK_NUMBERS: usize = 2;
    /// `pid.level`.
    pub const LEVEL: usize = 3;
    /// `pid.numbers`.
    pub const NUMBERS: usize = 4;
    /// The size of one of those.
    pub const NUMBER_SIZE: usize = 5;
    /// `upid.nr`.
    pub const NUMBER: usize = 6;
    /// `upid.ns`.
    pub const NUMBER_NAMESPACE: usize = 7;
    /// `pid_namespace.ns.inum`.
    pub const NAMESPACE_INODE: usize = 8;
    /// Number of words.
    pub const WORDS: usize = 9;
}
