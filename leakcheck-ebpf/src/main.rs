//! The kernel side: records what the processes of a run allocate.
//!
//! Threads that are followed have a record in `THREADS`; the tracer makes it before the thread's
//! first instruction. Every other thread of the machine, a forked child included, ends at that
//! lookup. Blocks of a followed process are recorded from its start, so that a free of an unknown
//! address can be told; call stacks are taken inside the window only.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![allow(internal_features)]

mod body;
mod call;
mod file;
mod heap;
mod ipc;
mod lookup;
mod mapping;
mod maps;
mod objects;
mod outer;
mod record;
mod records;
mod shared;
mod started;

use aya_ebpf::macros::{raw_tracepoint, uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext, RetProbeContext};

/// Entry of an allocating function; the cookie is a `site` constant.
#[uprobe]
pub fn allocate(ctx: ProbeContext) -> u32 {
    call::enter(&ctx);
    0
}

/// Return of an allocating function.
#[uretprobe]
pub fn allocated(ctx: RetProbeContext) -> u32 {
    call::leave(&ctx);
    0
}

/// Entry of `free`.
#[uprobe]
pub fn deallocate(ctx: ProbeContext) -> u32 {
    call::free(&ctx);
    0
}

/// libtest's way into and out of a test body; the cookie is a `site` constant.
#[uprobe]
pub fn body(ctx: ProbeContext) -> u32 {
    body::mark(&ctx);
    0
}

/// Entry of a library function that allocates for its caller.
#[uprobe]
pub fn outer(ctx: ProbeContext) -> u32 {
    outer::enter(&ctx);
    0
}

/// Entry of `exit`.
#[uprobe]
pub fn exit(ctx: ProbeContext) -> u32 {
    body::exit(&ctx);
    0
}

/// Entries of `dlopen`, `dlmopen` and `dlclose`; the cookie is a `site` constant.
#[uprobe]
pub fn module(ctx: ProbeContext) -> u32 {
    body::module(&ctx);
    0
}

/// Entry of `dlsym`.
#[uprobe]
pub fn lookup(ctx: ProbeContext) -> u32 {
    lookup::enter(&ctx);
    0
}

/// Functions of the C library that make and remove IPC objects; the cookie is a `site` constant with a kind.
#[uprobe]
pub fn ipc(ctx: ProbeContext) -> u32 {
    ipc::called(&ctx);
    0
}

/// Functions of the C library that change what is mapped; the cookie is a `site` constant.
#[uprobe]
pub fn mapping(ctx: ProbeContext) -> u32 {
    mapping::called(&ctx);
    0
}

/// The kernel allocates an object.
#[raw_tracepoint(tracepoint = "kmem_cache_alloc")]
pub fn make(ctx: RawTracePointContext) -> i32 {
    file::made(&ctx);
    0
}

/// The kernel allocates an object by its size.
#[raw_tracepoint(tracepoint = "kmalloc")]
pub fn sized(ctx: RawTracePointContext) -> i32 {
    objects::sized(&ctx);
    0
}

/// The kernel allocates an object of a cache.
#[raw_tracepoint(tracepoint = "kmem_cache_alloc")]
pub fn cached(ctx: RawTracePointContext) -> i32 {
    objects::cached(&ctx);
    0
}

/// The kernel frees an object (`kfree` and `kmem_cache_free`).
#[raw_tracepoint(tracepoint = "kfree")]
pub fn freed(ctx: RawTracePointContext) -> i32 {
    objects::freed(&ctx);
    0
}

/// Called by the tracer: copies memory of the kernel's.
#[raw_tracepoint(tracepoint = "look")]
pub fn look(ctx: RawTracePointContext) -> i32 {
    objects::look(&ctx)
}

/// A process or thread is about to start.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn start(ctx: RawTracePointContext) -> i32 {
    started::starts(&ctx);
    0
}

/// The running thread ends.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn finish(_: RawTracePointContext) -> i32 {
    started::ends();
    0
}

/// A process or thread is no more: nobody can wait for it.
#[raw_tracepoint(tracepoint = "sched_process_free")]
pub fn release(ctx: RawTracePointContext) -> i32 {
    started::released(&ctx);
    0
}

/// One descriptor of the process that is listed (`struct bpf_iter__task_file`).
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub fn list(ctx: *mut file::Listed) -> i32 {
    file::list(ctx);
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The helpers used are for GPL programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
