//! How large the kernel side's tables are made.

use leakcheck_common::LOG_PAGE_WORDS;

use crate::options::{KernelBytes, MAX_ENTRIES, MAX_TASKS, TraceOptions};

/// Objects of a file, itself included.
const OBJECTS: u32 = 4;
/// Entries of the table of totals for each test that runs: system calls by places in the kernel.
const TOTALS: u32 = 1 << 10;
/// Most entries of it. Each takes memory for each CPU, from the start.
const MAX_TOTALS: u32 = 1 << 18;

/// Entries of the tables for what the kernel has no memory for at that moment: what they take is taken from the start.
const SPARES: u32 = 256;

/// Entries of the tables whose sizes depend on the run; `records` says that the programs record allocations.
pub fn of_tables(options: &TraceOptions, records: bool) -> [(&'static str, u32); 18] {
    let pages = options.max_blocks / LOG_PAGE_WORDS as u32;
    // With the ledger nobody writes to them.
    let used = |entries: u32| if records { entries } else { 1 };
    let wanted = |entries: u32, wanted: bool| if wanted { entries } else { 1 };
    let all_objects = options.max_files.saturating_mul(OBJECTS).min(MAX_ENTRIES);
    let objects = match options.kernel_bytes {
        _ if options.kernel_report => all_objects,
        KernelBytes::Off => 1,
        // It takes memory from the start, and most runs will not need it.
        KernelBytes::IfLeft => options.max_files,
        KernelBytes::Always => all_objects,
    };
    [
        ("BLOCKS", used(options.max_blocks)),
        ("STACKS", used(options.max_stacks)),
        ("THREADS", options.max_threads),
        ("BAD_FREES", used(options.max_bad_frees)),
        ("FILES", options.max_files),
        // Also without anybody who looks there, something is written.
        ("IPC", wanted(4 << 10, options.ipc)),
        ("OBJECTS", objects),
        ("TOTALS", wanted(TOTALS.saturating_mul(tests(options)).min(MAX_TOTALS), options.kernel_report)),
        ("STARTED", wanted(options.max_threads, options.children || options.ipc)),
        ("ENDED", wanted(options.max_threads, options.ipc)),
        ("PROCESSES", processes(options)),
        // Each process has its last pages half empty.
        ("LOG", used(pages.saturating_mul(2).max(1 << 14))),
        ("SPARE_STACKS", used(SPARES)),
        ("SPARE_LOG", used(SPARES)),
        ("SPARE_FILES", wanted(SPARES, options.descriptors)),
        ("SPARE_IPC", wanted(SPARES, options.ipc)),
        ("SPARE_MAPPINGS", wanted(SPARES, options.mappings)),
        ("SPARE_STARTED", wanted(SPARES, options.children || options.ipc)),
    ]
}

/// Processes at a time: one for each test that runs, and some that are being removed. Of children there can
/// be as many as of threads.
fn processes(options: &TraceOptions) -> u32 {
    let tests = tests(options).saturating_mul(2).saturating_add(64);
    if options.follow_children { tests.max(options.max_threads) } else { tests }
}

/// Tests at a time. libtest takes any number of threads.
fn tests(options: &TraceOptions) -> u32 {
    u32::try_from(options.jobs).unwrap_or(u32::MAX).min(MAX_TASKS)
}
