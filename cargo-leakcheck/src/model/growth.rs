use super::Measure;

/// How often a test's body is run in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iterations {
    /// All of them, from 2.
    pub total: u64,
    /// The first ones, which may fill what is kept; fewer than all.
    pub warmup: u64,
    /// The test itself asks for it, and not the run.
    pub by_test: bool,
}

/// How often a body is run at most: what is alive is noted down after each.
pub const MAX_ITERATIONS: u64 = 1000;
/// Iterations that are not judged, where nobody says how many.
pub const WARMUP: u64 = 3;

/// What a test's body, run again and again in its process, has added to what is alive. `S` is a call stack, as in
/// [`Finding`](super::Finding).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth<S> {
    /// Iterations that were asked for.
    pub iterations: u64,
    /// How many of them are not judged.
    pub warmup: u64,
    /// What was alive of all that was allocated in the window, after each iteration that was seen to its end.
    pub alive: Vec<Measure>,
    /// Open descriptors after each; empty where they could not be listed.
    pub descriptors: Vec<u64>,
    /// By call stack, where more was alive after the last iteration than after the warm-up. Most bytes come first.
    pub grown: Vec<Grown<S>>,
    /// Why there are fewer iterations than were asked for.
    pub ended: Option<String>,
}

/// What one call stack has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown<S> {
    /// Bytes that were alive of it after each iteration.
    pub bytes: Vec<u64>,
    /// Where it was allocated; none where the stack was lost.
    pub stack: Option<S>,
}

impl<S> Grown<S> {
    /// How much more it was after the last iteration than after the warm-up.
    pub fn added_after(&self, warmup: usize) -> u64 {
        let before =
            warmup.checked_sub(1).map_or(0, |last| self.bytes.get(last).copied().unwrap_or(u64::MAX));
        self.bytes.last().map_or(0, |after| after.saturating_sub(before))
    }
}

impl<S> Growth<S> {
    /// Whether all iterations were seen.
    pub fn is_whole(&self) -> bool {
        self.ended.is_none() && self.alive.len() as u64 == self.iterations
    }

    /// Bytes that were alive after each iteration.
    pub fn bytes(&self) -> Vec<u64> {
        self.alive.iter().map(|measure| measure.bytes).collect()
    }
}
