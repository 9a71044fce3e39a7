/// What a budget limits. Limits are inclusive: a test may use exactly its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Bytes definitely and indirectly lost.
    pub bytes: Option<u64>,
    /// Blocks definitely and indirectly lost.
    pub blocks: Option<u64>,
    /// Bytes still reachable.
    pub reachable_bytes: Option<u64>,
    /// Blocks still reachable.
    pub reachable_blocks: Option<u64>,
    /// Bytes allocated in the window and alive at exit, whatever refers to them.
    pub outstanding_bytes: Option<u64>,
    /// Descriptors left open.
    pub fds: Option<u64>,
    /// Bytes that those hold in the kernel.
    pub kernel_bytes: Option<u64>,
    /// IPC objects left behind.
    pub ipc: Option<u64>,
    /// Child processes left.
    pub children: Option<u64>,
    /// Threads left running.
    pub threads: Option<u64>,
    /// Bytes left mapped.
    pub mapped_bytes: Option<u64>,
    /// How often the body is run in one process.
    pub iterations: Option<u64>,
    /// How many of these are not judged.
    pub warmup: Option<u64>,
    /// Bytes that each of the others may add to what is alive, on average; 0 where that is not said.
    pub bytes_per_iteration: Option<u64>,
    /// Bytes of blocks allocated in the window that are alive at a time.
    pub peak_bytes: Option<u64>,
    /// Blocks allocated in the window.
    pub total_blocks: Option<u64>,
    /// Why this test's leaks are reported but not judged.
    pub ignore: Option<String>,
}

/// Bytes in blocks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Measure {
    /// Sum of the requested sizes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Measure {
    /// Adds one block of `bytes`.
    pub fn add(&mut self, bytes: u64) {
        // What a process has written into the recorder's memory has any size.
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += 1;
    }

    /// What is left of it without another one; nothing where that is more.
    pub fn less(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            blocks: self.blocks.saturating_sub(other.blocks),
        }
    }
}

impl std::ops::Add for Measure {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let add = u64::saturating_add;
        Self { bytes: add(self.bytes, other.bytes), blocks: add(self.blocks, other.blocks) }
    }
}

impl std::iter::Sum for Measure {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), std::ops::Add::add)
    }
}
