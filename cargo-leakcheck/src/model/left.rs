use super::{AtPeak, Descriptor, Growth, IpcObject, KernelTotals, LeftMapping};

/// What a test has left at its end besides blocks, in the kernel; what it has added while it was run again and again; and what it had at its peak. `S` is a call stack, as in [`Finding`](super::Finding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left<S> {
    /// Descriptors left open, by their numbers.
    pub descriptors: Vec<Descriptor<S>>,
    /// IPC objects left behind.
    pub ipc: Vec<IpcObject<S>>,
    /// Processes that it or its descendants have started, by their ids.
    pub children: Vec<LeftChild<S>>,
    /// Threads that were started in the window, by their ids.
    pub threads: Vec<LeftThread<S>>,
    /// POSIX timers.
    pub timers: Vec<LeftTimer>,
    /// Memory left mapped.
    pub mappings: Vec<LeftMapping<S>>,
    /// What the kernel has allocated for it; none where that was not asked for.
    pub totals: Option<KernelTotals>,
    /// What its body has added each time; none where it was not to be run again.
    pub growth: Option<Growth<S>>,
    /// What was alive at its peak; none where that was not asked for.
    pub at_peak: Option<AtPeak<S>>,
}

impl<S> Left<S> {
    /// Bytes that its descriptors hold in the kernel, but for those that one-time initializers keep; none where
    /// that is not known of one.
    pub fn kernel_bytes(&self) -> Option<u64> {
        self.descriptors.iter().filter(|descriptor| !descriptor.once).map(|descriptor| descriptor.bytes).sum()
    }
}

impl<S> Default for Left<S> {
    fn default() -> Self {
        Self {
            descriptors: Vec::new(),
            ipc: Vec::new(),
            children: Vec::new(),
            threads: Vec::new(),
            timers: Vec::new(),
            totals: None,
            mappings: Vec::new(),
            growth: None,
            at_peak: None,
        }
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftChild<S> {
    /// Its id.
    pub id: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its arguments; its name, where it has ended.
    pub command: String,
    /// It has ended, and the test has not waited for it.
    pub is_zombie: bool,
    /// Where the test has started it, or the process that it descends from; none where that was not seen.
    pub stack: Option<S>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftThread<S> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it was started; none where that was not seen.
    pub stack: Option<S>,
    /// Where it was when the process ended; none where it had not begun.
    pub now: Option<S>,
}

/// A POSIX timer (`timer_create`).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftTimer {
    /// Its number.
    pub id: u64,
    /// Its clock: `CLOCK_MONOTONIC`.
    pub clock: String,
    /// What it does: `signal 14`, `thread`, `none`.
    pub notify: String,
}
