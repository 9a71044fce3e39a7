//! Files: who has made the open file descriptions that a process's descriptors refer to.
//!
//! Which descriptors are left open is told by the process's own table, at its end. Here is written down what
//! that table does not know: which system call has made a file, on which thread, and from where.

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_ANY, BPF_F_USER_STACK, pt_regs, seq_file};
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_get_stack, bpf_probe_read_user, bpf_seq_write, bpf_task_pt_regs,
};
use aya_ebpf::programs::RawTracePointContext;
use leakcheck_common::{MAX_FRAMES, file, process, stack, thread};

use crate::maps::{Current, EMPTY_FILE, FILE_SITES, FILES};

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
    let maker = Current::get()
        .filter(|current| current.thread().is_some_and(|record| record[thread::IN_WINDOW] != 0));
    let found = FILES.get_ptr_mut(&address);
    let Some(current) = maker else {
        if found.is_some() {
            let _ = FILES.remove(&address);
        }
        return None;
    };
    current.count(process::FILES, 1);
    let record = match found {
        Some(record) => record,
        None => {
            // If this fails, the look-up does so as well.
            let _ = FILES.insert(&address, EMPTY_FILE.get(0)?, BPF_ANY.into());
            let Some(record) = FILES.get_ptr_mut(&address) else {
                current.count(process::LOST_FILES, 1);
                return None;
            };
            record
        }
    };
    // SAFETY: the address is that of the running thread's own new object: nobody else changes its record.
    describe(ctx, current, unsafe { &mut *record });
    Some(())
}

/// Writes down where the running thread is in user mode.
#[inline(always)]
fn describe(ctx: &RawTracePointContext, current: Current, record: &mut [u64; file::WORDS]) {
    const FRAMES: usize = file::CHAIN + stack::FRAMES;
    record[file::MAKER] = u64::from(current.process) | u64::from(current.thread) << 32;
    // SAFETY: helpers without memory arguments; what they return are the running thread's registers.
    let registers = unsafe { &*(bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs) };
    record[file::CALL] = registers.orig_rax;
    record[file::IP] = registers.rip;
    record[file::SP] = registers.rsp;
    record[file::FP] = registers.rbp;
    let copy = record[file::COPY..].as_mut_ptr().cast::<c_void>();
    let from = registers.rsp as *const c_void;
    record[file::COPIED] = 0;
    // Near the end of a stack there may be less.
    for words in [file::COPY_WORDS, file::COPY_WORDS / 4] {
        // SAFETY: there is room for so many words; the helper checks where they come from.
        if unsafe { bpf_probe_read_user(copy, (words * 8) as u32, from) } == 0 {
            record[file::COPIED] = words as u64;
            break;
        }
    }
    // SAFETY: there is room for MAX_FRAMES words.
    let bytes = unsafe {
        let room = record.as_mut_ptr().add(FRAMES).cast();
        bpf_get_stack(ctx.as_ptr(), room, (MAX_FRAMES * 8) as u32, BPF_F_USER_STACK.into())
    };
    record[file::CHAIN + stack::COUNT] = if bytes > 0 { bytes as u64 / 8 } else { 0 };
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

/// Writes a descriptor to who reads the list: its number and the address of its file.
#[inline(always)]
pub fn list(ctx: *mut Listed) {
    // SAFETY: the context is the one this program was called with; without a file it is the list's end.
    unsafe {
        let file = (*ctx).file;
        if file.is_null() {
            return;
        }
        let entry = [u64::from((*ctx).number), file as u64];
        // If there is no room, the kernel calls once more with a larger one.
        bpf_seq_write((*(*ctx).meta).output, (&raw const entry).cast(), size_of_val(&entry) as u32);
    }
}
