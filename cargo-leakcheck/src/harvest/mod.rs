//! Looks at a process that is kept at its exit, and makes its `Snapshot`. The last stage that needs
//! the live process; nothing here decides what is a leak.

mod arena;
mod descriptor;
mod layout;
mod pages;
mod proc;

pub use proc::{children_of, is_executing, is_zombie, mappings, process_of, threads_of};

use std::collections::{HashMap, HashSet};

use leakcheck_common::{bad_free, block, process, site, thread};
use nix::unistd::Pid;

use crate::model::{Measure, Window};
use crate::snapshot::{BadFree, Block, CallStack, Loss, Mapping, Snapshot};
use crate::trace::{BlockRecord, Kernel, Process, ProcessRecord};

/// A thread that is kept at its exit.
pub(crate) struct HeldThread {
    /// Its id.
    pub id: Pid,
    /// Its registers in user mode.
    pub registers: nix::libc::user_regs_struct,
    /// When it was created, `CLOCK_MONOTONIC` in nanoseconds.
    pub created_ns: u64,
    /// Stack pointer and saved registers at the entry of `exit`, if it called that.
    pub exit: Option<[u64; 7]>,
}

/// Takes the snapshot of a process all of whose threads are kept at their exits.
///
/// A process whose window has left no block alive, and that freed nothing it should not, needs no
/// more than its counters.
pub fn take(kernel: &Kernel, process: &Process) -> Snapshot {
    let Ok(counters) = kernel.process(process.pid) else {
        let reason = "the kernel side has no record of it".into();
        return Snapshot { losses: vec![Loss::NoCanary { reason }], ..Snapshot::default() };
    };
    let mut snapshot = Snapshot {
        losses: losses(process, &counters),
        allocated: Measure {
            bytes: counters[process::ALLOCATED_BYTES],
            blocks: counters[process::ALLOCATIONS],
        },
        ..Snapshot::default()
    };
    let held: Vec<HeldThread> = process
        .threads
        .iter()
        .filter_map(|(id, thread)| {
            let registers = thread.at_exit?;
            let record = kernel.thread(*id).unwrap_or([0; thread::WORDS]);
            let exit: [u64; 7] = record[thread::EXIT_SP..][..7].try_into().expect("seven words");
            let exit = (exit[0] >= registers.rsp).then_some(exit);
            Some(HeldThread { id: *id, registers, created_ns: thread.created_ns, exit })
        })
        .collect();
    let interrupted_calls = interrupted_reallocations(kernel, &held);
    if counters[process::WINDOW_LIVE] == 0
        && counters[process::BAD_FREES] == 0
        && interrupted_calls.is_empty()
    {
        return snapshot;
    }
    let Some(reader) = held.first().map(|thread| thread.id) else {
        snapshot.losses.push(Loss::Vanished { reason: "no thread of it is left".into() });
        return snapshot;
    };
    match mappings(reader) {
        Ok(mappings) => snapshot.mappings = mappings,
        Err(error) => snapshot.losses.push(Loss::Vanished { reason: error.to_string() }),
    }
    let known = records(kernel, process, &counters, interrupted_calls);
    let mut stacks = Stacks::new(kernel, process.pid, &snapshot.mappings, &process.history);
    snapshot.blocks = live_blocks(process, &known, &mut stacks);
    snapshot.bad_frees = kernel
        .bad_frees(process.pid, &counters)
        .into_iter()
        // A block that found no room in the table is freed as one that never was.
        .filter(|record| record[bad_free::DOUBLE] != 0 || counters[process::LOST_BLOCKS] == 0)
        .map(|record| BadFree {
            address: record[bad_free::ADDRESS],
            double: record[bad_free::DOUBLE] != 0,
            stack: stacks.index(record[bad_free::STACK]),
        })
        .collect();
    snapshot.stacks = stacks.stacks;
    if snapshot.blocks.iter().any(|block| block.in_window) {
        mark_runtime_blocks(reader, process, &held, &mut snapshot.blocks);
        let is_live = |record: &BlockRecord| record[block::FLAGS] & block::FLAG_LIVE != 0;
        let addresses = known.iter().map(|(address, record)| (*address, is_live(record))).collect();
        let layout = layout::Layout::of(process, reader, &held, &snapshot.mappings, addresses);
        let mut losses = std::mem::take(&mut snapshot.losses);
        snapshot.roots = layout.read_roots(reader, &snapshot.blocks, &mut losses);
        snapshot.heap = pages::read_blocks(reader, &snapshot.blocks, &mut losses);
        snapshot.losses = losses;
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

fn losses(process: &Process, counters: &ProcessRecord) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut lost = |word: usize, loss: fn(u64) -> Loss| {
        if counters[word] > 0 {
            losses.push(loss(counters[word]));
        }
    };
    lost(process::LOST_BLOCKS, |count| Loss::Blocks { count });
    lost(process::LOST_STACKS, |count| Loss::Stacks { count });
    lost(process::LOST_FREES, |count| Loss::BadFrees { count });
    lost(process::LOST_RESULTS, |count| Loss::Results { count });
    lost(process::LOST_LOG, |count| Loss::Log { count });
    let planned = process.losses.iter().any(|loss| matches!(loss, Loss::NoCanary { .. }));
    if process.canary.is_none() && !planned {
        losses.push(Loss::NoCanary { reason: "it ended before its entry point".into() });
    }
    if process.test.window == Window::TestBody && counters[process::BODIES] == 0 {
        losses.push(Loss::NoBody);
    }
    losses
}

/// The old blocks of `realloc` calls that the process's end has cut short: they are still there.
fn interrupted_reallocations(kernel: &Kernel, held: &[HeldThread]) -> Vec<(u64, BlockRecord)> {
    held.iter()
        .filter_map(|thread| kernel.thread(thread.id).ok())
        .filter(|record| record[thread::CALL] == site::REALLOC && record[thread::HAS_SAVED] == 1)
        .filter_map(|record| {
            let saved = record[thread::SAVED..][..block::WORDS].try_into().ok()?;
            Some((record[thread::CALL_POINTER], saved))
        })
        .collect()
}

/// Every address that was ever allocated, with its last record.
fn records(
    kernel: &Kernel,
    process: &Process,
    counters: &ProcessRecord,
    interrupted: Vec<(u64, BlockRecord)>,
) -> HashMap<u64, BlockRecord> {
    let mut records: HashMap<u64, BlockRecord> = kernel
        .addresses(process.pid, counters)
        .into_iter()
        .filter_map(|address| Some((address, kernel.block(process.pid, address)?)))
        .collect();
    records.extend(interrupted);
    records
}

fn live_blocks(
    process: &Process,
    records: &HashMap<u64, BlockRecord>,
    stacks: &mut Stacks<'_>,
) -> Vec<Block> {
    let mut blocks: Vec<Block> = records
        .iter()
        .filter(|(address, record)| {
            record[block::FLAGS] & block::FLAG_LIVE != 0 && process.canary != Some(**address)
        })
        .map(|(address, record)| Block {
            address: *address,
            size: record[block::SIZE],
            stack: stacks.index(record[block::STACK]),
            in_window: record[block::FLAGS] & block::FLAG_WINDOW != 0,
            runtime: false,
            time_ns: record[block::TIME],
            thread: (record[block::FLAGS] >> 32) as u32,
        })
        .collect();
    blocks.sort_unstable_by_key(|block| block.address);
    blocks
}

/// Marks what glibc allocates for a thread's own needs: its dynamic thread vector, which the word
/// behind the thread pointer leads to, and the thread-local storage that this vector owns
/// (sysdeps/x86_64/nptl/tls.h, `tcbhead_t`; elf/dl-tls.c, `allocate_dtv`).
fn mark_runtime_blocks(reader: Pid, process: &Process, held: &[HeldThread], blocks: &mut [Block]) {
    let pointers = held.iter().map(|thread| thread.registers.fs_base);
    for pointer in pointers.chain(process.finished.iter().copied()) {
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
    kernel: &'a Kernel,
    pid: Pid,
    code: Vec<std::ops::Range<u64>>,
    by_hash: HashMap<u64, Option<usize>>,
    stacks: Vec<CallStack>,
}

impl<'a> Stacks<'a> {
    fn new(kernel: &'a Kernel, pid: Pid, now: &[Mapping], before: &[Mapping]) -> Self {
        let all: HashSet<(u64, u64)> = now
            .iter()
            .chain(before)
            .filter(|mapping| mapping.executable)
            .map(|mapping| (mapping.range.start, mapping.range.end))
            .collect();
        let code = all.into_iter().map(|(start, end)| start..end).collect();
        Self { kernel, pid, code, by_hash: HashMap::new(), stacks: Vec::new() }
    }

    /// The index of a recorded stack; none if it was not taken or lost.
    fn index(&mut self, hash: u64) -> Option<usize> {
        if hash == 0 {
            return None;
        }
        if let Some(index) = self.by_hash.get(&hash) {
            return *index;
        }
        let index = self.kernel.stack(self.pid, hash).map(|mut frames| {
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
