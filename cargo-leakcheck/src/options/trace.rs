use std::time::Duration;

use super::{Raised, Recorder, Spawn};

/// Most entries that a table in the kernel may have: of its hash tables the buckets, 16 bytes each and as many as the next
/// power of two, take less than 4 GiB (`htab_map_alloc`).
pub const MAX_ENTRIES: u32 = 1 << 27;
/// Most processes and threads that there can be at a time (`PID_MAX_LIMIT`).
pub const MAX_TASKS: u32 = 1 << 22;

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Do without nothing that needs eBPF.
    pub require_ebpf: bool,
    /// Where privileges come from.
    pub raised: Raised,
    /// What writes allocations down.
    pub recorder: Recorder,
    /// How processes of tests are made.
    pub spawn: Spawn,
    /// Tests at a time.
    pub jobs: usize,
    /// Time for one test.
    pub timeout: Option<Duration>,
    /// How often a test that fails or leaks is run once more.
    pub retries: u32,
    /// After how many tests that fail or leak no other is started.
    pub max_fail: Option<usize>,
    /// Record the workspace's executables too where tests start them.
    pub follow_children: bool,
    /// Note where every block is freed; otherwise a test with a double free is run once more for it.
    pub free_stacks: bool,
    /// Say what was alive at each test's peak, by call stacks.
    pub peak_stacks: bool,
    /// Look at descriptors that are left open.
    pub descriptors: bool,
    /// Say what descriptors hold in the kernel.
    pub kernel_bytes: KernelBytes,
    /// Say what the kernel has allocated for each test, by system call and place.
    pub kernel_report: bool,
    /// Give tests IPC namespaces of their own, and look at IPC objects that are left behind.
    pub ipc: bool,
    /// Give tests (no program of `exec`) temporary directories of their own, and say what is left there.
    pub files: bool,
    /// Look at processes, threads and timers that are left behind.
    pub children: bool,
    /// Look at mappings that are left behind.
    pub mappings: bool,
    /// Entries of the block table.
    pub max_blocks: u32,
    /// Entries of the stack table.
    pub max_stacks: u32,
    /// Entries of the thread table.
    pub max_threads: u32,
    /// Entries of the table of bad frees.
    pub max_bad_frees: u32,
    /// Entries of the table of files.
    pub max_files: u32,
    /// Probe functions at their first instruction (only the benchmark wants this).
    pub probe_at_entry: bool,
    /// Record in the spare tables only, as if the kernel had no memory at hand (only tests want this).
    pub spare_only: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            require_ebpf: false,
            raised: Raised::No,
            recorder: Recorder::Auto,
            spawn: Spawn::Exec,
            jobs: 1,
            timeout: None,
            retries: 0,
            max_fail: None,
            follow_children: false,
            free_stacks: false,
            peak_stacks: false,
            descriptors: true,
            kernel_bytes: KernelBytes::IfLeft,
            kernel_report: false,
            ipc: true,
            files: true,
            children: true,
            mappings: true,
            max_blocks: 2_097_152,
            max_stacks: 65_536,
            max_threads: 16_384,
            max_bad_frees: 16_384,
            max_files: 16_384,
            probe_at_entry: false,
            spare_only: false,
        }
    }
}

/// When to say what descriptors hold in the kernel: what it takes slows the whole machine a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelBytes {
    /// Never.
    Off,
    /// By a second run of tests that have left descriptors.
    IfLeft,
    /// In the first run.
    Always,
}
