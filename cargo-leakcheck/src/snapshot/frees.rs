//! Frees of what was not allocated.

/// A free of something that was not allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFree {
    /// The address.
    pub address: u64,
    /// It was a block once, and had been freed.
    pub double: bool,
    /// Index of the call stack.
    pub stack: Option<usize>,
    /// For a double free: what had become of the block before.
    pub before: Before<usize>,
}

/// What had become of a block before it was freed once more, as far as that was recorded. `S` is the call
/// stack, as in [`Finding`](crate::model::Finding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Before<S> {
    /// Where it was allocated.
    pub allocated: Option<S>,
    /// Where it was freed first; only runs that are asked for it record it.
    pub freed: Option<S>,
}

impl<S> Default for Before<S> {
    fn default() -> Self {
        Self { allocated: None, freed: None }
    }
}

impl<S> Before<S> {
    /// The same with other call stacks.
    pub fn map<T>(self, mut each: impl FnMut(S) -> Option<T>) -> Before<T> {
        Before { allocated: self.allocated.and_then(&mut each), freed: self.freed.and_then(each) }
    }
}
