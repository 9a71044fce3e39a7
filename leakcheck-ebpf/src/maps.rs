//! The tables, and who is running.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, bpf_pidns_info};
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::bpf_get_ns_current_pid_tgid;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuHashMap};
use leakcheck_common::{
    LOG_PAGE_WORDS, LOOK_WORDS, WINDOW_BITS, bad_free, block, ended, file, ipc, layout, mapping, object,
    objects, places, process, stack, started, thread, total, unmapped,
};

use crate::records::Records;

/// Thread id to thread record; made and removed by the tracer.
#[map]
pub static THREADS: HashMap<u32, [u64; thread::WORDS]> =
    HashMap::with_max_entries(16 << 10, BPF_F_NO_PREALLOC);

/// Process id to process record; made and removed by the tracer.
#[map]
pub static PROCESSES: HashMap<u32, [u64; process::WORDS]> =
    HashMap::with_max_entries(4 << 10, BPF_F_NO_PREALLOC);

/// Process id and address to block record. A freed address keeps its record, without
/// `block::FLAG_LIVE`: heaps hand addresses out again, and writing in place is cheaper.
#[map]
pub static BLOCKS: HashMap<[u64; 2], [u64; block::WORDS]> =
    HashMap::with_max_entries(2 << 20, BPF_F_NO_PREALLOC);

/// Process id and hash to call stack.
#[map]
static STACKS: HashMap<[u64; 2], [u64; stack::WORDS]> =
    HashMap::with_max_entries(64 << 10, BPF_F_NO_PREALLOC);

/// Process id and number to bad free.
#[map]
pub static BAD_FREES: HashMap<[u64; 2], [u64; bad_free::WORDS]> =
    HashMap::with_max_entries(16 << 10, BPF_F_NO_PREALLOC);

/// Process id and page number to a page of keys: which addresses (or, with `LOG_STACKS` in the
/// page number, which hashes) a process has in `BLOCKS` and `STACKS`, so that the tracer need not
/// walk the whole tables.
#[map]
static LOG: HashMap<[u32; 2], [u64; LOG_PAGE_WORDS]> = HashMap::with_max_entries(16 << 10, BPF_F_NO_PREALLOC);

/// Which threads are in a test body, in memory that the ledger of a test process maps.
#[map]
static WINDOW: Array<[u64; WINDOW_BITS / 64]> = Array::with_max_entries(129, BPF_F_MMAPABLE);

/// An empty log page to copy from: it does not fit on the stack.
#[map]
pub static EMPTY_PAGE: Array<[u64; LOG_PAGE_WORDS]> = Array::with_max_entries(1, 0);

/// Address of a `struct file` to the record of the file that was made there last, if that was in a test's
/// window.
#[map]
static FILES: HashMap<u64, [u64; file::WORDS]> = HashMap::with_max_entries(16 << 10, BPF_F_NO_PREALLOC);

/// A bit for each address (of many, one) that is or was in `FILES`: most files of the machine are not, and
/// a look-up costs more.
#[map]
pub static FILE_MARKS: Array<[u64; FILE_MARK_WORDS]> = Array::with_max_entries(1, 0);

/// Words of `FILE_MARKS`, a power of two.
pub const FILE_MARK_WORDS: usize = 1 << 10;

/// An empty record to copy from: it does not fit on the stack.
#[map]
pub static EMPTY_FILE: Array<[u64; file::WORDS]> = Array::with_max_entries(1, 0);

/// Start and size of the code of two kernel functions that allocate a `struct file`; a size of 0 for none.
#[map]
pub static FILE_SITES: Array<[u64; 4]> = Array::with_max_entries(1, 0);

/// Where files and inodes have what is listed of them.
#[map]
pub static PLACES: Array<[u64; places::WORDS]> = Array::with_max_entries(1, 0);

/// IPC objects by process, kind, and name or id; calls that are in flight by their threads.
#[map]
static IPC: HashMap<[u64; 2], [u64; ipc::WORDS]> = HashMap::with_max_entries(4 << 10, BPF_F_NO_PREALLOC);

/// An empty record to copy from: it does not fit on the stack.
#[map]
pub static EMPTY_IPC: Array<[u64; ipc::WORDS]> = Array::with_max_entries(1, 0);

/// Mappings that tests have made, by process and thread, and address.
#[map]
static MAPPINGS: HashMap<[u64; 2], [u64; mapping::WORDS]> =
    HashMap::with_max_entries(64 << 10, BPF_F_NO_PREALLOC);

/// An empty record to copy from: it does not fit on the stack.
#[map]
pub static EMPTY_MAPPING: Array<[u64; mapping::WORDS]> = Array::with_max_entries(1, 0);

/// Where what was mapped is no more, by process and thread, and address; without ranges that a record in `MAPPINGS`
/// had for itself.
#[map]
pub static UNMAPPED: HashMap<[u64; 2], [u64; unmapped::WORDS]> =
    HashMap::with_max_entries(64 << 10, BPF_F_NO_PREALLOC);

/// Processes and threads that tests have started, by their ids in the kernel's own namespace.
#[map]
static STARTED: HashMap<u32, [u64; started::WORDS]> = HashMap::with_max_entries(16 << 10, BPF_F_NO_PREALLOC);

/// Processes that descend from tests that run, and are no more, by their ids in the tracer's namespace.
#[map]
pub static ENDED: HashMap<u32, [u64; ended::WORDS]> = HashMap::with_max_entries(16 << 10, 0);

/// Address of an object of the kernel to its record. Its room is there beforehand: what the kernel has at hand for maps is
/// soon used up where it must not wait.
#[map]
pub static OBJECTS: HashMap<u64, [u64; object::WORDS]> = HashMap::with_max_entries(64 << 10, 0);

/// A bit for each address (of many, one) that is or was in `OBJECTS`.
#[map]
pub static OBJECT_MARKS: Array<[u64; OBJECT_MARK_WORDS]> = Array::with_max_entries(1, 0);

/// Words of `OBJECT_MARKS`, a power of two.
pub const OBJECT_MARK_WORDS: usize = 1 << 14;

/// Owner and site of objects to their totals.
#[map]
pub static TOTALS: PerCpuHashMap<[u64; 2], [u64; total::WORDS]> = PerCpuHashMap::with_max_entries(4 << 10, 0);

/// How objects are recorded.
#[map]
pub static OBJECT_SETTINGS: Array<[u64; objects::WORDS]> = Array::with_max_entries(1, 0);

/// What was looked at last.
#[map]
pub static LOOK: Array<[u64; LOOK_WORDS]> = Array::with_max_entries(1, 0);

/// Where the kernel's own types have what is needed of them.
#[map]
pub static LAYOUT: Array<[u64; layout::WORDS]> = Array::with_max_entries(1, 0);

/// Device and inode of the tracer's process id namespace.
#[map]
pub static PID_NAMESPACE: Array<[u64; 2]> = Array::with_max_entries(1, 0);

/// The version of the records; the tracer refuses another one.
#[unsafe(no_mangle)]
#[used]
static ABI: u32 = leakcheck_common::ABI_VERSION;

/// Entries of a spare table (see [`Records`]); the tracer says another number.
const SPARES: u32 = 1;

/// Spare table of `STACKS`.
#[map]
pub static SPARE_STACKS: HashMap<[u64; 2], [u64; stack::WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Spare table of `LOG`.
#[map]
pub static SPARE_LOG: HashMap<[u32; 2], [u64; LOG_PAGE_WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Spare table of `FILES`.
#[map]
pub static SPARE_FILES: HashMap<u64, [u64; file::WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Spare table of `IPC`.
#[map]
pub static SPARE_IPC: HashMap<[u64; 2], [u64; ipc::WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Spare table of `MAPPINGS`.
#[map]
pub static SPARE_MAPPINGS: HashMap<[u64; 2], [u64; mapping::WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Spare table of `STARTED`.
#[map]
pub static SPARE_STARTED: HashMap<u32, [u64; started::WORDS]> = HashMap::with_max_entries(SPARES, 0);

/// Not 0 where all records go to the spare tables, as if the kernel had no memory: for tests.
#[map]
pub static SPARE_ONLY: Array<u64> = Array::with_max_entries(1, 0);

/// The call stacks.
#[inline(always)]
pub fn stacks() -> Records<[u64; 2], [u64; stack::WORDS]> {
    Records { table: &STACKS, spare: &SPARE_STACKS }
}

/// The pages of keys.
#[inline(always)]
pub fn log() -> Records<[u32; 2], [u64; LOG_PAGE_WORDS]> {
    Records { table: &LOG, spare: &SPARE_LOG }
}

/// The files.
#[inline(always)]
pub fn files() -> Records<u64, [u64; file::WORDS]> {
    Records { table: &FILES, spare: &SPARE_FILES }
}

/// The IPC objects and calls.
#[inline(always)]
pub fn ipc() -> Records<[u64; 2], [u64; ipc::WORDS]> {
    Records { table: &IPC, spare: &SPARE_IPC }
}

/// The mappings.
#[inline(always)]
pub fn mappings() -> Records<[u64; 2], [u64; mapping::WORDS]> {
    Records { table: &MAPPINGS, spare: &SPARE_MAPPINGS }
}

/// The processes and threads that were started.
#[inline(always)]
pub fn started() -> Records<u32, [u64; started::WORDS]> {
    Records { table: &STARTED, spare: &SPARE_STARTED }
}

/// The running process and thread.
#[derive(Clone, Copy)]
pub struct Current {
    pub process: u32,
    pub thread: u32,
}

impl Current {
    /// Who is running, as numbered in the tracer's own process id namespace.
    #[inline(always)]
    pub fn get() -> Option<Self> {
        let mut info = bpf_pidns_info { pid: 0, tgid: 0 };
        let [device, inode] = *PID_NAMESPACE.get(0)?;
        // SAFETY: `info` is writable for the size that is passed.
        let status = unsafe {
            bpf_get_ns_current_pid_tgid(device, inode, &mut info, size_of::<bpf_pidns_info>() as u32)
        };
        (status == 0).then_some(Self { process: info.tgid, thread: info.pid })
    }

    /// The record of the running thread, if it is followed.
    #[inline(always)]
    pub fn thread(self) -> Option<&'static mut [u64; thread::WORDS]> {
        let record = THREADS.get_ptr_mut(&self.thread)?;
        // SAFETY: only the thread itself writes to its record while it runs, so no other reference
        // to it is in use; the map keeps the value for as long as the program runs.
        Some(unsafe { &mut *record })
    }

    /// Whether the running thread is in the window, by the window bits.
    #[inline(always)]
    pub fn in_window(self) -> bool {
        let words = WINDOW.get(self.thread / WINDOW_BITS as u32);
        words.is_some_and(|words| {
            words[self.thread as usize % WINDOW_BITS / 64] >> (self.thread % 64) & 1 != 0
        })
    }

    /// Says in the window bits whether what the running thread allocates counts.
    #[inline(always)]
    pub fn set_window(self, open: bool) -> Option<()> {
        use core::intrinsics::{AtomicOrdering::SeqCst, atomic_and, atomic_or};
        let words = WINDOW.get_ptr_mut(self.thread / WINDOW_BITS as u32)?;
        let bit = 1 << (self.thread % 64);
        // SAFETY: the remainder is below the number of words; the words are only changed atomically.
        unsafe {
            let word = words.cast::<u64>().add(self.thread as usize % WINDOW_BITS / 64);
            if open {
                atomic_or::<u64, u64, { SeqCst }>(word, bit);
            } else {
                atomic_and::<u64, u64, { SeqCst }>(word, !bit);
            }
        }
        Some(())
    }

    /// Whether the running process has a ledger.
    #[inline(always)]
    pub fn has_ledger(self) -> Option<bool> {
        let record = PROCESSES.get_ptr(&self.process)?;
        // SAFETY: the map keeps the value for as long as the program runs.
        Some(unsafe { (*record)[process::LEDGER] } != 0)
    }

    /// How many addresses the running process has been given so far.
    #[inline(always)]
    pub fn addresses(self) -> Option<u64> {
        let record = PROCESSES.get_ptr(&self.process)?;
        // SAFETY: the map keeps the value for as long as the program runs; the helper checks the address.
        unsafe {
            match (*record)[process::LEDGER] {
                0 => Some((*record)[process::LOGGED_BLOCKS]),
                ledger => bpf_probe_read_user(ledger as *const u64).ok(),
            }
        }
    }

    /// Whether the process is followed.
    #[inline(always)]
    pub fn is_followed(self) -> bool {
        PROCESSES.get_ptr(&self.process).is_some()
    }

    /// A counter of the running process.
    #[inline(always)]
    pub fn counted(self, word: usize) -> u64 {
        // SAFETY: the map keeps the value for as long as the program runs.
        PROCESSES.get_ptr(&self.process).map_or(0, |record| unsafe { (*record)[word] })
    }

    /// Adds to a counter of the running process.
    #[inline(always)]
    pub fn count(self, word: usize, amount: u64) {
        self.fetch_add(word, amount);
    }

    /// Adds to a counter of the running process; its value before.
    #[inline(always)]
    pub fn fetch_add(self, word: usize, amount: u64) -> Option<u64> {
        Some(add(PROCESSES.get_ptr_mut(&self.process)?, word, amount))
    }
}

/// Adds to a word of a process record; its value before.
#[inline(always)]
pub fn add(record: *mut [u64; process::WORDS], word: usize, amount: u64) -> u64 {
    use core::intrinsics::{AtomicOrdering::SeqCst, atomic_xadd};
    // The target has the instruction, but core's atomic types hide it (no compare-and-swap).
    // With a relaxed order LLVM 22 picks the form that does not return the old value.
    // SAFETY: `word` is below `process::WORDS` at every call; map values are aligned to 8 bytes, are only changed
    // atomically, and stay for as long as the program runs.
    unsafe { atomic_xadd::<u64, u64, { SeqCst }>(record.cast::<u64>().add(word), amount) }
}
