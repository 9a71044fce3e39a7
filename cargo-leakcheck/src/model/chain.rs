/// A step on the way from a root to a block, or around a lost cycle. `S` is the call stack, as in
/// [`Finding`](super::Finding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<S> {
    /// Where it starts.
    Root(Held),
    /// A block.
    Block(Through<S>),
    /// So many blocks that are left out.
    More(u64),
}

/// A block on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through<S> {
    /// Where it was allocated, as far as it is known.
    pub stack: Option<S>,
    /// Its size.
    pub bytes: u64,
    /// The type that it was allocated for, where the call stack says it.
    pub type_name: Option<String>,
    /// How many bytes into it the word is that leads on: to the next block, or from a cycle's last one to its first.
    pub offset: Option<u64>,
}

/// What holds a block by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// What it is.
    pub by: HeldBy,
    /// The thread that it is of, other than the main one.
    pub thread: Option<String>,
    /// The file of the module that it is in.
    pub module: Option<String>,
    /// The variable.
    pub symbol: Option<String>,
    /// How many bytes into that the word is; without one, its address in the module.
    pub offset: u64,
}

/// What it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// A static variable.
    Static,
    /// A thread-local variable.
    ThreadLocal,
    /// A thread's stack.
    Stack,
    /// A thread's registers.
    Registers,
    /// What the C library keeps of a thread.
    ThreadDescriptor,
    /// Memory that the program has mapped.
    #[default]
    Mapping,
}
