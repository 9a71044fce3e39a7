//! Looks at a process that is kept at its exit, and makes its `Snapshot`. The last stage that needs
//! the live process; nothing here decides what is a leak.

mod allocator;
mod arena;
mod at_peak;
mod contents;
mod descriptor;
mod files;
mod growth;
mod heap;
mod ipc;
mod layout;
mod ledger;
mod left;
mod lost;
mod mapped;
mod marks;
mod pages;
mod places;
mod proc;
mod records;
mod stacks;
mod statics;
mod symbolizer;
mod totals;

pub use at_peak::begin;
pub use descriptor::DESCRIPTOR;
pub use growth::alive;
pub use ipc::has_ipc;
pub use left::{end_children, is_settled};
pub use proc::{
    has_no_others, is_executing, is_zombie, mapping, mappings, parent_of, process_of, threads_of,
};

use std::collections::BTreeSet;
use std::time::Instant;

use leakcheck_common::{block, process, site, thread};
use nix::libc::user_regs_struct;
use nix::unistd::Pid;

use crate::model::Window;
use allocator::Addresses;
use layout::Layout;
use places::Places;
use records::Records;
use symbolizer::Symbolizer;

use crate::references::Finder;
use crate::snapshot::{Blocks, CallStack, Loss, Snapshot};
use crate::trace::{BlockRecord, Heap, Process, ProcessRecord, Steering, ThreadRecord, read, words};

/// libtest allocates more than 400 blocks before it enters a body, and the C library some 17 for it (for which the ledger takes
/// twice as many records at most). Fewer than this have come from `malloc`: they came from elsewhere, and so do the test's.
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

    /// The name of a thread that was running when its process ended, and is neither the main one nor that which
    /// ended it.
    fn running(&self, process: Pid, id: i32) -> Option<String> {
        let thread = self.held.iter().find(|thread| thread.id.as_raw() == id)?;
        let ended_it = thread.registers.orig_rax == libc::SYS_exit_group as u64;
        (thread.id != process && !ended_it).then(|| proc::thread_name(process, thread.id))
    }
}

/// Takes the snapshot of a process all of whose threads are kept at their exits.
///
/// A process whose window has left no block alive and nothing in the kernel, and that freed nothing it should
/// not, needs no more than what its recorder says.
pub fn take(steering: &Steering, process: &Process) -> Snapshot {
    let start = Instant::now();
    let snapshot = look_at(steering, process);
    Snapshot { taken_in: start.elapsed(), ..snapshot }
}

fn look_at(steering: &Steering, process: &Process) -> Snapshot {
    if process.has_not_begun() {
        return Snapshot::default();
    }
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
    let records = match Records::of(steering.kernel(), process, &counters, reader) {
        Ok(records) => records,
        Err(reason) => {
            snapshot.losses.push(Loss::NoCanary { reason });
            return snapshot;
        }
    };
    let interrupted: Vec<_> = threads.held.iter().filter_map(|thread| thread.interrupted).collect();
    let heap = process.libraries.as_ref().map_or(Heap::Glibc, |libraries| libraries.heap);
    let log = marks::Log::read(process, reader);
    let mut recorded = records.read(process.canary, &interrupted, heap, log.is_some());
    snapshot.losses.extend(records.losses());
    snapshot.losses.extend(recorded.losses());
    snapshot.heap = records.heap(recorded.counts_canary);
    if process.canary.is_some() && !recorded.has_canary {
        snapshot.losses.push(Loss::NoCanary { reason: "malloc returned it unseen".into() });
    }
    let open = files::list(steering, process);
    let opened = files::Opened::of(steering, process, &counters, open.as_ref(), &mut snapshot.losses);
    let nothing = recorded.has_nothing() && interrupted.is_empty();
    let is_empty = files::has_empty_namespace(process, open.as_ref());
    let ipc = ipc::Found::of(steering, process, &counters, is_empty, &mut snapshot.losses);
    let no_timers = files::has_no_timers(open.as_ref());
    let left = process
        .wanted
        .left
        .then(|| left::Found::of(steering, process, &threads, &counters, no_timers, &mut snapshot.losses));
    let totals = totals::of(steering, process, &counters);
    let mapped = mapped::Found::of(steering, process, &counters, &mut snapshot.losses);
    let growth = process.repeated.as_ref().map(|repeated| growth::of(repeated, &mut recorded.keys));
    if let Some(repeated) = &process.repeated {
        snapshot.iterations = repeated.alive.iter().map(|alive| alive.newest).collect();
    }
    let no_growth = growth.as_ref().is_none_or(|growth| growth.grown.is_empty());
    let at_peak = process.wanted.peak_stacks.then(|| at_peak::of(&records, &mut recorded, log.as_ref()));
    let nothing_at_peak = at_peak.as_ref().is_none_or(|it| it.stacks.is_empty());
    let no_stacks = no_growth
        && nothing_at_peak
        && ipc.is_none()
        && mapped.is_none()
        && left.as_ref().is_none_or(left::Found::has_no_stacks);
    if nothing && opened.is_none() && no_stacks {
        snapshot.left = left.map(left::Found::plain).unwrap_or_default();
        snapshot.left.totals = totals;
        (snapshot.left.growth, snapshot.left.at_peak) = (growth, at_peak);
        return snapshot;
    }
    match mappings(reader) {
        Ok(mappings) => snapshot.mappings = mappings,
        Err(error) => snapshot.losses.push(Loss::Vanished { reason: error.to_string() }),
    }
    let (stacks, indices) = recorded.keys.read(&records, &snapshot.mappings, &process.history);
    snapshot.stacks = stacks;
    let symbolizer = process.libraries.as_ref().map(|libraries| &*libraries.symbolizer);
    let executable = std::fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
    let symbolizer = symbolizer.map(|functions| Symbolizer::new(functions, &snapshot.mappings, &executable));
    let is_std = |stack: &CallStack| symbolizer.as_ref().is_some_and(|symbolizer| symbolizer.has(stack));
    let of_std: Vec<bool> =
        indices.iter().map(|index| index.is_some_and(|index| is_std(&snapshot.stacks[index]))).collect();
    recorded.forget(|key| of_std[key]);
    let nothing = recorded.has_nothing() && interrupted.is_empty();
    let (now, before) = (&snapshot.mappings, &process.history);
    let mut places = Places::new(steering.rows().borrow_mut(), now, before, &mut snapshot.stacks);
    if let Some(left) = left {
        let recorder = process.ledger.as_deref().map(|ledger| ledger.path.as_path());
        snapshot.left = left.describe(recorder, &mut places);
    }
    if let Some(opened) = opened {
        snapshot.is_unexplained |= opened.is_unexplained();
        snapshot.of_others = opened.of_others();
        snapshot.left.descriptors = opened.describe(&mut places, &threads);
    }
    if let Some(ipc) = ipc {
        snapshot.is_unexplained |= ipc.is_unexplained;
        snapshot.left.ipc = ipc.describe(&mut places);
    }
    if let Some(mapped) = mapped {
        snapshot.left.mappings = mapped.describe(now, &mut places);
    }
    snapshot.left.totals = totals;
    drop(places);
    snapshot.left.mappings.retain(|it| it.stack.is_none_or(|stack| !is_std(&snapshot.stacks[stack])));
    snapshot.left.growth = growth.map(|mut growth| {
        growth.grown.iter_mut().for_each(|it| it.stack = it.stack.and_then(|key| indices[key]));
        growth
    });
    snapshot.left.at_peak = at_peak.map(|mut at_peak| {
        at_peak.stacks.iter_mut().for_each(|it| it.stack = it.stack.and_then(|key| indices[key]));
        at_peak
    });
    snapshot.bad_frees = recorded.bad_frees;
    for free in &mut snapshot.bad_frees {
        free.stack = free.stack.and_then(|key| indices[key]);
        free.before = free.before.map(|key| indices[key]);
    }
    if !nothing {
        snapshot.blocks = recorded.blocks;
    }
    snapshot.blocks.map_stacks(|key| indices[key]);
    snapshot.blocks.sort();
    if let Some(log) = log {
        let kept = log.kept(&snapshot.blocks);
        snapshot.heap = snapshot.heap.map(|heap| heap::without_log(heap, kept));
        let (marks, loss) = log.marks(&mut snapshot.blocks, &recorded.threads);
        snapshot.marks = marks;
        snapshot.losses.extend(loss);
    }
    if snapshot.blocks.any_in_window() {
        mark_runtime_blocks(reader, &threads, &mut snapshot.blocks);
        let mut freed = recorded.freed;
        freed.sort_unstable();
        let live = snapshot.blocks.places().iter().map(|place| place.start..place.end());
        let live = live.filter(|_| heap == Heap::Other);
        let ranges: Vec<_> = recorded.freed_ranges.into_iter().chain(live).collect();
        let canary = process.canary;
        let addresses = Addresses { blocks: &snapshot.blocks, freed: &freed, canary, ranges: &ranges };
        let recorders = records.memory(threads.held.iter().map(|thread| thread.registers.fs_base));
        let layout = Layout::of(process, reader, &threads, &snapshot.mappings, &addresses, recorders);
        let finder = Finder::new(&snapshot.blocks);
        let (roots, unread) = layout.read_roots(reader, &snapshot.blocks, &finder);
        snapshot.roots = roots;
        snapshot.storage = layout.storage;
        snapshot.losses.extend(unread);
        let (references, unread) = contents::read(reader, &snapshot.blocks, &finder);
        snapshot.references = references;
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
        losses.push(Loss::LookedUp);
    }
    if process.window == Window::TestBody {
        if counters[process::BODIES] == 0 {
            losses.push(Loss::NoBody);
        } else if counters[process::BEFORE_BODY] < LIBTESTS && process.losses.is_empty() {
            let reason = "the blocks of Rust code do not come from malloc".into();
            losses.push(Loss::Allocator { reason });
        }
    }
    losses
}

/// Marks what glibc allocates for a thread's own needs: its dynamic thread vector, which the word
/// behind the thread pointer leads to, and the thread-local storage that this vector owns
/// (sysdeps/x86_64/nptl/tls.h, `tcbhead_t`; elf/dl-tls.c, `allocate_dtv`).
fn mark_runtime_blocks(reader: Pid, threads: &Threads, blocks: &mut Blocks) {
    let pointers = threads.held.iter().map(|thread| thread.registers.fs_base);
    for pointer in pointers.chain(threads.finished.iter().copied()) {
        let Some(vector) = descriptor::thread_word(reader, pointer, 8) else { continue };
        // The vector's first entry, its length, is in front of where the descriptor points.
        let Some(block) = blocks.starting_at(vector.wrapping_sub(16)) else { continue };
        blocks.set_runtime(block);
        let place = blocks.places()[block];
        for word in words(&read(reader, place.start, place.size as usize)) {
            if let Some(block) = blocks.starting_at(word) {
                blocks.set_runtime(block);
            }
        }
    }
}
