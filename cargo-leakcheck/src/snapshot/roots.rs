//! Memory that refers to blocks by itself.

use std::ops::Range;

use super::Reference;

/// Memory that refers to blocks by itself.
#[derive(Clone, Debug)]
pub struct Root {
    /// Whose it is.
    pub kind: RootKind,
    /// What it is.
    pub part: Part,
    /// What it refers to, each once.
    pub references: Vec<Reference>,
    /// Where the word is that refers to it, the first of several, and on stacks the last; as many as there are references.
    pub places: Vec<u64>,
}

/// Kinds of root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// Static data of a module or another writable mapping.
    Static,
    /// Registers, live stack, thread-local storage or descriptor of a thread that was running when
    /// the process ended and is not the main thread.
    Thread {
        /// Its id.
        id: u32,
        /// Its name (`/proc/PID/task/TID/comm`).
        name: String,
    },
    /// The same of the main thread, or of the thread that ended the process.
    Main,
    /// The descriptor of a finished thread whose stack glibc keeps.
    FinishedThread,
}

/// What memory is by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Registers of a thread; places are offsets.
    Registers,
    /// The stack of a thread, and what glibc has at its upper end.
    Stack,
    /// Other memory.
    Data,
}

/// Thread-local storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Where it is; it ends where the thread pointer leads.
    pub range: Range<u64>,
    /// Where the C library has what it keeps of the thread.
    pub descriptor: Range<u64>,
    /// The name of the thread; none of the main one.
    pub thread: Option<String>,
}
