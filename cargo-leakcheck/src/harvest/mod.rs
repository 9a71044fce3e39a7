//! Looks at a process that is kept at its exit, and makes its `Snapshot`. The last stage that needs
//! the live process; nothing here decides what is a leak.

mod arena;
mod descriptor;
mod layout;
mod ledger;
mod pages;
mod proc;
mod records;

pub use proc::{is_executing, is_zombie, mappings, process_of, threads_of};

use std::collections::{BTreeSet, HashMap, HashSet};

use leakcheck_common::{block, process, site, thread};
use nix::libc::user_regs_struct;
use nix::unistd::Pid;

use crate::model::Window;
use records::Records;

use crate::snapshot::{BadFree, Block, CallStack, Loss, Mapping, Snapshot};
use crate::trace::{BlockRecord, Process, ProcessRecord, Steering, ThreadRecord};

/// libtest allocates more than 400 blocks before it enters a body, and the C library some 17 for it.
/// Fewer than this have come from `malloc`: they came from elsewhere, and so do the test's.
const LIBTESTS: u64 = 100;

/// A thread that is kept at its exit.
pub(crate) struct HeldThread {
    /// Its id.
    pub id: Pid,
    /// Its registers in user mode.
    pub registers: user_regs_struct,
    /// When it was created, by the clock that the recorder takes for blocks.
    pub created: u64,
    /// Stack pointer and saved registers at the entry of `exit`, if it called that.
    pub exit: Option<[u64; 7]>,
    /// The old block of a `realloc` that its end has cut short: it is still there.
    pub interrupted: Option<(u64, BlockRecord)>,
}

impl HeldThread {
    fn new(id: Pid, registers: user_regs_struct, created: u64, record: &ThreadRecord) -> Self {
        let exit: [u64; 7] = record[thread::EXIT_SP..][..7].try_into().expect("seven words");
        let saved: BlockRecord = record[thread::SAVED..][..block::WORDS].try_into().expect("a block");
        let in_realloc = record[thread::CALL] == site::REALLOC && record[thread::HAS_SAVED] == 1;
        Self {
            id,
            registers,
            created,
            exit: (exit[0] >= registers.rsp).then_some(exit),
            interrupted: in_realloc.then_some((record[thread::CALL_POINTER], saved)),
        }
    }
}

/// The threads of a process, as far as memory shows them.
pub(crate) struct Threads {
    /// Those that are kept at their exits.
    pub held: Vec<HeldThread>,
    /// Thread pointers of those that have finished. glibc gives the stack of a finished thread, with
    /// the descriptor, to the next one: theirs are not among them.
    pub finished: BTreeSet<u64>,
}

impl Threads {
    fn of(steering: &Steering, process: &Process) -> Self {
        let held = process.threads.iter().filter_map(|(id, thread)| {
            let record = steering.thread(*id).unwrap_or([0; thread::WORDS]);
            let created = if process.control.is_some() { thread.created_stamp } else { thread.created_ns };
            Some(HeldThread::new(*id, thread.at_exit?, created, &record))
        });
        let held: Vec<HeldThread> = held.collect();
        let used: BTreeSet<u64> = held.iter().map(|thread| thread.registers.fs_base).collect();
        let finished = process.finished.iter().copied().filter(|pointer| !used.contains(pointer)).collect();
        Self { held, finished }
    }
}

/// Takes the snapshot of a process all of whose threads are kept at their exits.
///
/// A process whose window has left no block alive, and that freed nothing it should not, needs no
/// more than what its recorder says.
pub fn take(steering: &Steering, process: &Process) -> Snapshot {
    let Ok(counters) = steering.process(process.pid) else {
        let reason = "the kernel side has no record of it".into();
        return Snapshot { losses: vec![Loss::NoCanary { reason }], ..Snapshot::default() };
    };
    let mut snapshot = Snapshot { losses: losses(process, &counters), ..Snapshot::default() };
    let threads = Threads::of(steering, process);
    let Some(reader) = threads.held.first().map(|thread| thread.id) else {
        snapshot.losses.push(Loss::Vanished { reason: "no thread of it is left".into() });
        return snapshot;
    };
    let mut records = match Records::of(steering.kernel(), process, counters, reader) {
        Ok(records) => records,
        Err(reason) => {
            snapshot.losses.push(Loss::NoCanary { reason });
            return snapshot;
        }
    };
    snapshot.losses.extend(records.losses());
    if process.canary.is_some_and(|canary| !records.has_canary(canary)) {
        snapshot.losses.push(Loss::NoCanary { reason: "malloc returned it unseen".into() });
    }
    if !records.is_worth_reading() && threads.held.iter().all(|thread| thread.interrupted.is_none()) {
        return snapshot;
    }
    match mappings(reader) {
        Ok(mappings) => snapshot.mappings = mappings,
        Err(error) => snapshot.losses.push(Loss::Vanished { reason: error.to_string() }),
    }
    let mut known = records.blocks();
    known.extend(threads.held.iter().filter_map(|thread| thread.interrupted));
    let bad_frees = records.bad_frees();
    let mut stacks = Stacks::new(&records, &snapshot.mappings, &process.history);
    snapshot.blocks = live_blocks(process, &known, &mut stacks);
    snapshot.bad_frees = bad_frees
        .into_iter()
        .map(|(address, double, stack)| BadFree { address, double, stack: stacks.index(stack) })
        .collect();
    snapshot.stacks = stacks.stacks;
    if snapshot.blocks.iter().any(|block| block.in_window) {
        mark_runtime_blocks(reader, &threads, &mut snapshot.blocks);
        let addresses = known.iter().map(|(address, record)| (*address, is_live(record))).collect();
        let own = records.memory();
        let layout = layout::Layout::of(process, reader, &threads, &snapshot.mappings, addresses, own);
        let (roots, unread) = layout.read_roots(reader, &snapshot.blocks);
        snapshot.roots = roots;
        snapshot.losses.extend(unread);
        let (heap, unread) = pages::read_blocks(reader, &snapshot.blocks);
        snapshot.heap = heap;
        snapshot.losses.extend(unread);
    }
    for mapping in &process.history {
        if !snapshot.mappings.contains(mapping) {
            snapshot.mappings.push(mapping.clone());
        }
    }
    // The copies of libraries are gone with the run; what they are copies of has the same symbols.
    for library in process.libraries.iter().flat_map(|libraries| libraries.iter()) {
        let copies = snapshot.mappings.iter_mut().filter(|mapping| mapping.path == library.path);
        copies.for_each(|mapping| mapping.path = library.original.to_string());
    }
    snapshot
}

/// What could not be seen, whatever the recorder is.
fn losses(process: &Process, counters: &ProcessRecord) -> Vec<Loss> {
    let mut losses = Vec::new();
    let planned = process.losses.iter().any(|loss| matches!(loss, Loss::NoCanary { .. }));
    if process.canary.is_none() && !planned {
        losses.push(Loss::NoCanary { reason: "it ended before its entry point".into() });
    }
    if counters[process::BYPASSED] > 0 {
        let reason = "it opened a library by RTLD_DEEPBIND or dlmopen, whose allocations are not seen".into();
        losses.push(Loss::Allocator { reason });
    }
    if counters[process::LOOKED_UP] > 0 {
        let reason = "it looks up the C library's malloc by a handle (dlsym); use --recorder uprobe".into();
        losses.push(Loss::Allocator { reason });
    }
    if process.test.window == Window::TestBody {
        if counters[process::BODIES] == 0 {
            losses.push(Loss::NoBody);
        } else if counters[process::BEFORE_BODY] < LIBTESTS && process.losses.is_empty() {
            let reason = "the blocks of Rust code do not come from malloc".into();
            losses.push(Loss::Allocator { reason });
        }
    }
    losses
}

fn is_live(record: &BlockRecord) -> bool {
    record[block::FLAGS] & block::FLAG_LIVE != 0
}

fn live_blocks(
    process: &Process,
    records: &HashMap<u64, BlockRecord>,
    stacks: &mut Stacks<'_>,
) -> Vec<Block> {
    let mut blocks: Vec<Block> = records
        .iter()
        .filter(|(address, record)| is_live(record) && process.canary != Some(**address))
        .map(|(address, record)| Block {
            address: *address,
            size: record[block::SIZE],
            stack: stacks.index(record[block::STACK]),
            in_window: record[block::FLAGS] & block::FLAG_WINDOW != 0,
            runtime: false,
            time: record[block::TIME],
            thread: (record[block::FLAGS] >> 32) as u32,
        })
        .collect();
    blocks.sort_unstable_by_key(|block| block.address);
    blocks
}

/// Marks what glibc allocates for a thread's own needs: its dynamic thread vector, which the word
/// behind the thread pointer leads to, and the thread-local storage that this vector owns
/// (sysdeps/x86_64/nptl/tls.h, `tcbhead_t`; elf/dl-tls.c, `allocate_dtv`).
fn mark_runtime_blocks(reader: Pid, threads: &Threads, blocks: &mut [Block]) {
    let pointers = threads.held.iter().map(|thread| thread.registers.fs_base);
    for pointer in pointers.chain(threads.finished.iter().copied()) {
        let Some(vector) = descriptor::thread_word(reader, pointer, 8) else { continue };
        // The vector's first entry, its length, is in front of where the descriptor points.
        let Ok(place) = blocks.binary_search_by_key(&vector.wrapping_sub(16), |block| block.address) else {
            continue;
        };
        blocks[place].runtime = true;
        let words = crate::trace::read(reader, blocks[place].address, blocks[place].size as usize);
        for word in words.chunks_exact(8) {
            let word = u64::from_ne_bytes(word.try_into().expect("chunks of 8"));
            if let Ok(place) = blocks.binary_search_by_key(&word, |block| block.address) {
                blocks[place].runtime = true;
            }
        }
    }
}

/// The call stacks that a snapshot refers to.
struct Stacks<'a> {
    records: &'a Records<'a>,
    code: Vec<std::ops::Range<u64>>,
    by_hash: HashMap<u64, Option<usize>>,
    stacks: Vec<CallStack>,
}

impl<'a> Stacks<'a> {
    fn new(records: &'a Records<'a>, now: &[Mapping], before: &[Mapping]) -> Self {
        let all: HashSet<(u64, u64)> = now
            .iter()
            .chain(before)
            .filter(|mapping| mapping.executable)
            .map(|mapping| (mapping.range.start, mapping.range.end))
            .collect();
        let code = all.into_iter().map(|(start, end)| start..end).collect();
        Self { records, code, by_hash: HashMap::new(), stacks: Vec::new() }
    }

    /// The index of a recorded stack; none if it was not taken or lost.
    fn index(&mut self, hash: u64) -> Option<usize> {
        if hash == 0 {
            return None;
        }
        if let Some(index) = self.by_hash.get(&hash) {
            return *index;
        }
        let index = self.records.stack(hash).map(|mut frames| {
            // Where a stack was taken at a function's very first instruction, the kernel has read the
            // caller as well. (No function calls two others, one below the other, by one instruction.)
            if frames.len() > 1 && frames[0] == frames[1] {
                frames.remove(0);
            }
            // A frame-pointer walk that meets code without them ends in words that are no code.
            let is_code = |frame: &u64| self.code.iter().any(|code| code.contains(frame));
            let end = frames.iter().skip(1).position(|frame| !is_code(frame));
            frames.truncate(end.map_or(frames.len(), |end| end + 1));
            self.stacks.push(CallStack { frames });
            self.stacks.len() - 1
        });
        self.by_hash.insert(hash, index);
        index
    }
}
