//! Processes and threads that tests start: who has started them, and from where.
//!
//! Records are keyed by ids in the kernel's own namespace, since processes may move to others. Whoever is
//! given an id takes an older record of it away, so a record is always that of who has the id now.

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::programs::RawTracePointContext;
use leakcheck_common::{ended, file as file_words, layout, process, started};

use crate::file;
use crate::maps::{self, Current, EMPTY_FILE, ENDED, LAYOUT, PID_NAMESPACE};
use crate::records::put;

/// Levels of process id namespaces (`MAX_PID_NS_LEVEL`), with the outermost one.
const LEVELS: u64 = 33;

/// Records the process or thread that is about to start, if a thread starts it in its window, or it is a
/// process that a recorded one starts.
#[inline(always)]
pub fn starts(ctx: &RawTracePointContext) -> Option<()> {
    // SAFETY: the tracepoint has these arguments, which the tracer has made sure of: who starts it, and it.
    let task = unsafe { *ctx.as_ptr().cast::<u64>().add(1) };
    let layout = LAYOUT.get(0)?;
    let id: u32 = read(task, layout[layout::TASK_ID])?;
    let process: u32 = read(task, layout[layout::TASK_PROCESS])?;
    // SAFETY: a helper without arguments.
    let starter = (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32;
    let is_thread = process == starter;
    // Ids are more than 0. (An option that is looked at twice is too much for the verifier.)
    let mut owner = 0;
    if let Some(current) = Current::get()
        && current.in_window()
    {
        owner = current.process;
    }
    let ancestor = maps::started().get(&starter);
    if let Some(ancestor) = ancestor {
        // SAFETY: the map keeps the value for as long as the program runs. Threads of descendants are theirs.
        owner = if is_thread { 0 } else { unsafe { (*ancestor)[started::OWNER] as u32 } };
    }
    if owner == 0 {
        if maps::started().get(&id).is_some() {
            maps::started().remove(&id);
        }
        return None;
    }
    let account = Current { process: owner, thread: owner };
    account.count(process::STARTED, 1);
    // What a descendant has called is in another address space than the test's: it has the place of the
    // process that it descends from.
    let from = match ancestor {
        // SAFETY: as above.
        Some(ancestor) => unsafe { &*ancestor },
        None => EMPTY_FILE.get(0)?,
    };
    if let Err(refusal) = maps::started().put(&id, from, BPF_ANY) {
        // An older record of the id is as wrong as none.
        maps::started().remove(&id);
        refusal.count(account, process::LOST_STARTED);
        return None;
    }
    // SAFETY: nobody else writes to the record of who has not started yet.
    let record = unsafe { &mut *maps::started().get(&id)? };
    if ancestor.is_none() {
        file::describe(account, record);
        return_from_vfork(record);
    }
    record[started::OWNER] = u64::from(owner) | own_id(task, layout).unwrap_or(0) << 32;
    record[started::IS_THREAD] = u64::from(is_thread);
    Some(())
}

/// glibc's `vfork` has its return address in a register during the call, as both processes go on with the same
/// stack: the call stack begins in its caller.
#[inline(always)]
fn return_from_vfork(record: &mut [u64; file_words::WORDS]) {
    const VFORK: u64 = 58;
    if record[file_words::CALL] == VFORK {
        record[file_words::IP] = file::registers().rdi;
    }
}

/// Forgets the running thread, which ends: nobody can wait for it as for a process, and that it is no more is
/// told late.
#[inline(always)]
pub fn ends() {
    // SAFETY: a helper without arguments.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let (process, id) = ((ids >> 32) as u32, ids as u32);
    if process != id && maps::started().get(&id).is_some() {
        maps::started().remove(&id);
    }
}

/// Forgets who is no more.
#[inline(always)]
pub fn released(ctx: &RawTracePointContext) -> Option<()> {
    // SAFETY: as above: the tracepoint's only argument.
    let task = unsafe { *ctx.as_ptr().cast::<u64>() };
    let id: u32 = read(task, LAYOUT.get(0)?[layout::TASK_ID])?;
    let record = maps::started().get(&id)?;
    // SAFETY: the map keeps the value for as long as the program runs.
    let (owner, is_thread) = unsafe { ((*record)[started::OWNER], (*record)[started::IS_THREAD]) };
    let of = owner as u32;
    let account = Current { process: of, thread: of };
    // Of a test that is no more itself nobody asks.
    if is_thread == 0 && account.is_followed() {
        let mut ended = [0; ended::WORDS];
        ended[ended::OWNER] = owner & 0xffff_ffff;
        // SAFETY: a helper without arguments.
        ended[ended::TIME] = unsafe { bpf_ktime_get_ns() };
        if let Err(refusal) = put(&ENDED, &((owner >> 32) as u32), &ended, BPF_ANY) {
            refusal.count(account, process::LOST_ENDED);
        }
    }
    maps::started().remove(&id);
    Some(())
}

/// The id of a task in the tracer's namespace.
#[inline(always)]
fn own_id(task: u64, layout: &[u64; layout::WORDS]) -> Option<u64> {
    let [_, inode] = *PID_NAMESPACE.get(0)?;
    let numbers: u64 = read(task, layout[layout::TASK_NUMBERS])?;
    let last: u32 = read(numbers, layout[layout::LEVEL])?;
    for level in 0..LEVELS {
        if level > u64::from(last) {
            break;
        }
        let number = numbers + layout[layout::NUMBERS] + level * layout[layout::NUMBER_SIZE];
        let namespace: u64 = read(number, layout[layout::NUMBER_NAMESPACE])?;
        let its_inode: u32 = read(namespace, layout[layout::NAMESPACE_INODE])?;
        if u64::from(its_inode) == inode {
            return read::<u32>(number, layout[layout::NUMBER]).map(u64::from);
        }
    }
    None
}

/// A field of one of the kernel's own objects.
#[inline(always)]
fn read<T>(object: u64, offset: u64) -> Option<T> {
    // SAFETY: the helper checks where it reads.
    unsafe { bpf_probe_read_kernel((object + offset) as *const c_void as *const T) }.ok()
}
