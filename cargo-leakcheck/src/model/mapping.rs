use std::borrow::Cow;

/// Memory that a test has mapped and left mapped: what one line has made of one kind. `S` is the call stack of the call
/// that has made it, as in [`Finding`](super::Finding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftMapping<S> {
    /// What it is: `anonymous`, `shared anonymous`, `file`, `memfd`, `shared memory` (System V).
    pub kind: Cow<'static, str>,
    /// Which file; empty for memory without a name.
    pub description: String,
    /// The function of the C library that has made it.
    pub call: Cow<'static, str>,
    /// How many mappings.
    pub count: u64,
    /// What is left of them, whole pages.
    pub bytes: u64,
    /// Where the first of them begins.
    pub address: u64,
    /// It was made in a one-time initializer, to be kept as long as the process lives.
    pub once: bool,
    /// Where it was called.
    pub stack: Option<S>,
}
