//! Files: who has made the open file descriptions that a process's descriptors refer to.
//!
//! Which descriptors are left open is told by the process's own table, at its end. Here is written down what
//! that table does not know: which system call has made a file, on which thread, and from where.

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_ANY, pt_regs, seq_file};
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_user, bpf_seq_write, bpf_task_pt_regs,
};
use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_user as read_user};
use aya_ebpf::programs::RawTracePointContext;
use leakcheck_common::{file, listed, places, process};

use crate::maps::{Current, EMPTY_FILE, FILE_MARK_WORDS, FILE_MARKS, FILE_SITES, PLACES, files};
use crate::shared;

/// Records the file that is being made, if a thread makes it in its window. What is known of another one
/// with the same address is over.
#[inline(always)]
pub fn made(ctx: &RawTracePointContext) -> Option<()> {
    let arguments = ctx.as_ptr().cast::<u64>();
    // SAFETY: the tracepoint has these arguments, which the tracer has made sure of: where the allocator
    // was called from, and the object.
    let (site, address) = unsafe { (*arguments, *arguments.add(1)) };
    let [start, size, other_start, other_size] = *FILE_SITES.get(0)?;
    if site.wrapping_sub(start) >= size && site.wrapping_sub(other_start) >= other_size {
        return None;
    }
    if address == 0 {
        return None;
    }
    // Ids are more than 0. (An option that is looked at twice is too much for the verifier.)
    let mut maker = Current { process: 0, thread: 0 };
    if let Some(current) = Current::get()
        && current.in_window()
    {
        maker = current;
    }
    shared::opens(maker);
    let marks = FILE_MARKS.get_ptr_mut(0)?;
    // A `struct file` begins with a cache line.
    let (word, bit) = ((address >> 12) as usize % FILE_MARK_WORDS, 1 << (address >> 6 & 63));
    // SAFETY: the word is one of the value's. If another thread writes to it meanwhile, a bit may get lost,
    // but not that of an address which only the running thread has.
    let mark = unsafe { &mut (*marks)[word] };
    if maker.process == 0 {
        if *mark & bit != 0 && files().get(&address).is_some() {
            files().remove(&address);
        }
        return None;
    }
    *mark |= bit;
    maker.count(process::FILES, 1);
    let mut record = files().get(&address);
    if record.is_none() {
        if let Err(refusal) = files().put(&address, EMPTY_FILE.get(0)?, BPF_ANY) {
            refusal.count(maker, process::LOST_FILES);
            return None;
        }
        record = files().get(&address);
    }
    if let Some(record) = record {
        // SAFETY: the address is that of the running thread's own new object: no other thread changes its record.
        describe(maker, unsafe { &mut *record });
    }
    // The tracer sweeps out what it takes for another file's, which this record was until now.
    if files().get(&address).is_none() {
        maker.count(process::LOST_FILES, 1);
    }
    Some(())
}

/// Writes down where the running thread is in user mode.
#[inline(always)]
pub fn describe(current: Current, record: &mut [u64; file::WORDS]) {
    record[file::MAKER] = u64::from(current.process) | u64::from(current.thread) << 32;
    let registers = registers();
    let (sp, fp) = (registers.rsp, registers.rbp);
    record[file::CALL] = registers.orig_rax;
    record[file::IP] = registers.rip;
    record[file::SP] = sp;
    record[file::FP] = fp;
    record[file::COPIED] = 0;
    // Near the end of a stack there may be less, and above there may be pages that were never touched. The
    // return address is there in any case.
    for words in [file::COPY_WORDS, file::COPY_WORDS / 4, file::COPY_WORDS / 16, 1] {
        let copy = record[file::COPY..].as_mut_ptr().cast::<c_void>();
        // SAFETY: there is room for so many words; the helper checks where they come from.
        if unsafe { bpf_probe_read_user(copy, (words * 8) as u32, sp as *const c_void) } == 0 {
            record[file::COPIED] = words as u64;
            break;
        }
    }
    follow(record, sp, fp);
}

/// The running thread's registers in user mode.
#[inline(always)]
pub fn registers() -> &'static pt_regs {
    // SAFETY: helpers without memory arguments; the registers are there as long as the program runs.
    unsafe { &*(bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs) }
}

/// Follows the chain of frame pointers out of the copy, and takes the return addresses from there on.
#[inline(always)]
fn follow(record: &mut [u64; file::WORDS], sp: u64, mut fp: u64) {
    /// Frames of the copy.
    const INNER: usize = 64;
    /// A frame has no more bytes.
    const FRAME: u64 = 1 << 20;
    for _ in 0..INNER {
        let word = fp.wrapping_sub(sp) / 8;
        // SAFETY: it is a variable. Only for one that is read like this do compiler and verifier agree on
        // what the comparison says of it.
        let word = unsafe { core::ptr::read_volatile(&raw const word) };
        if word >= file::COPY_WORDS as u64 {
            break;
        }
        let next = record[file::COPY + word as usize];
        if next.wrapping_sub(fp) > FRAME {
            break;
        }
        fp = next;
    }
    record[file::OUTER_FP] = fp;
    record[file::OUTER_COUNT] = 0;
    for number in 0..file::OUTER_FRAMES {
        // SAFETY: the helper checks the address.
        let Ok(frame) = (unsafe { read_user(fp as *const [u64; 2]) }) else { break };
        if frame[1] == 0 {
            break;
        }
        record[file::OUTER + number] = frame[1];
        record[file::OUTER_COUNT] = number as u64 + 1;
        if frame[0] <= fp || frame[0] - fp > FRAME {
            break;
        }
        fp = frame[0];
    }
}

/// `struct bpf_iter__task_file` (kernel/bpf/task_iter.c).
#[repr(C)]
pub struct Listed {
    meta: *mut Meta,
    task: *mut c_void,
    number: u32,
    file: *mut c_void,
}

/// The beginning of `struct bpf_iter_meta`.
#[repr(C)]
struct Meta {
    output: *mut seq_file,
}

/// Writes a descriptor to who reads the list: its number, the address of its file, and what tells that from another
/// file which had or gets the address.
#[inline(always)]
pub fn list(ctx: *mut Listed) -> Option<()> {
    // SAFETY: the context is the one this program was called with.
    let (number, file) = unsafe { ((*ctx).number, &raw const (*ctx).file) };
    // Read as a number: the verifier wants nothing added to a pointer that it does not know beforehand.
    // SAFETY: the helper checks where it reads.
    let file = unsafe { bpf_probe_read_kernel(file.cast::<u64>()) }.ok()?;
    // Without a file it is the list's end.
    if file == 0 {
        return None;
    }
    let places = PLACES.get(0)?;
    let mut entry = [0; listed::WORDS];
    (entry[listed::NUMBER], entry[listed::FILE]) = (u64::from(number), file);
    for (place, offset) in places.iter().enumerate().take(places::LISTED) {
        let of = if place < places::OF_FILE { file } else { entry[listed::PLACES + places::INODE] };
        // SAFETY: the helper checks where it reads. What cannot be read is 0 each time.
        entry[listed::PLACES + place] =
            unsafe { bpf_probe_read_kernel((of + offset) as *const u64) }.unwrap_or(0);
    }
    // SAFETY: the context is the one this program was called with.
    let task = unsafe { bpf_probe_read_kernel((&raw const (*ctx).task).cast::<u64>()) }.ok()?;
    let namespace =
        pointer(task, places[places::NAMESPACES]).and_then(|all| pointer(all, places[places::IPC]));
    entry[listed::NAMESPACE] = namespace.unwrap_or(0);
    entry[listed::HAS_OBJECTS] = u64::from(has_objects(entry[listed::NAMESPACE], places));
    entry[listed::HAS_TIMERS] = u64::from(has_timers(task, places).unwrap_or(true));
    // If there is no room, the kernel calls once more with a larger one.
    // SAFETY: the output is the context's.
    unsafe { bpf_seq_write((*(*ctx).meta).output, (&raw const entry).cast(), size_of_val(&entry) as u32) };
    Some(())
}

/// Whether there is an IPC object in a namespace, as far as can be read.
#[inline(always)]
fn has_objects(namespace: u64, places: &[u64; places::WORDS]) -> bool {
    for kind in 0..places::KINDS {
        let count = (namespace + places[places::COUNTS + kind]) as *const u32;
        // SAFETY: the helper checks where it reads.
        if unsafe { bpf_probe_read_kernel(count) }.unwrap_or(1) != 0 {
            return true;
        }
    }
    false
}

/// Whether a process has a POSIX timer; none where that cannot be read.
#[inline(always)]
fn has_timers(task: u64, places: &[u64; places::WORDS]) -> Option<bool> {
    let signal = pointer(task, places[places::SIGNAL])?;
    let first = pointer(signal, places[places::TIMERS])?;
    // The head of a list that has none is 0 (`hlist_head`), or points to itself (`list_head`, before Linux 6.13).
    Some(first != 0 && first != signal + places[places::TIMERS])
}

/// The pointer at an offset of one of the kernel's objects.
#[inline(always)]
fn pointer(object: u64, offset: u64) -> Option<u64> {
    // SAFETY: the helper checks where it reads.
    unsafe { bpf_probe_read_kernel((object + offset) as *const u64) }.ok()
}
