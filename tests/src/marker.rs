//! What a comment says. `fixtures/README.md` describes it for people; `parse` has its grammar.

mod parse;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use crate::report::Heap;

/// The kinds of finding, as the report names them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No reference anywhere.
    DefinitelyLost,
    /// Referenced from lost blocks only.
    IndirectlyLost,
    /// Referenced by a disguised word only.
    PossiblyLost,
    /// Referenced.
    StillReachable,
    /// A free of a freed block.
    DoubleFree,
    /// A free of what never was a block.
    UnknownFree,
}

/// Every kind with its name in comments and in the report.
pub const KINDS: [(&str, Kind); 6] = [
    ("definitely_lost", Kind::DefinitelyLost),
    ("indirectly_lost", Kind::IndirectlyLost),
    ("possibly_lost", Kind::PossiblyLost),
    ("still_reachable", Kind::StillReachable),
    ("double_free", Kind::DoubleFree),
    ("unknown_free", Kind::UnknownFree),
];

/// How much a finding comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this, in each of `times` findings with stacks of their own.
    Exactly {
        /// Sum of the requested sizes.
        bytes: u64,
        /// Number of blocks.
        blocks: u64,
        /// Number of findings.
        times: usize,
    },
    /// Bad frees: their number.
    Frees(u64),
    /// Any number of findings of any size, also none: memory that belongs to std or the C library, in
    /// sizes that are theirs.
    Any,
}

/// A finding that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its kind.
    pub kind: Kind,
    /// Its size.
    pub amount: Amount,
    /// The user's line may be missing from the stack, as a library without frame pointers is in between.
    pub site_unknown: bool,
    /// The running thread that holds the blocks.
    pub held_by: Option<String>,
    /// A word of the child process that it is in.
    pub child: Option<String>,
    /// The scope that they were allocated in.
    pub scope: Option<String>,
    /// The test's code has them ignored.
    pub ignored: bool,
    /// The type that the blocks were allocated for, as the report names it; it does not matter where none is given.
    pub type_name: Option<String>,
}

impl Announced {
    /// One of which no more is said.
    pub fn new(kind: Kind, amount: Amount) -> Self {
        let (held_by, child, scope, type_name) = (None, None, None, None);
        Self { kind, amount, site_unknown: false, held_by, child, scope, ignored: false, type_name }
    }
}

/// Descriptors left open that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// What they are, as the report names it.
    pub kind: String,
    /// How many refer to one file.
    pub numbers: usize,
    /// How many files.
    pub times: usize,
    /// The running thread that has made them.
    pub held_by: Option<String>,
    /// They were made in a one-time initializer.
    pub once: bool,
    /// Whether the line that made them is known.
    pub has_line: bool,
}

/// IPC objects left behind that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What they are, as the report names it.
    pub kind: String,
    /// How many.
    pub times: usize,
    /// Whether the line that made them is known.
    pub has_line: bool,
}

/// Memory left mapped that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// What it is, as the report names it.
    pub kind: String,
    /// What is left of it.
    pub bytes: u64,
    /// How many mappings.
    pub count: u64,
    /// It was made in a one-time initializer.
    pub once: bool,
}

/// What of a test a comment announces to be left running or waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What it is.
    pub what: Remains,
    /// A word of its command line, or of a thread's name.
    pub word: Option<String>,
    /// How many; none for any number, also none.
    pub times: Option<usize>,
    /// The process that has started it is gone: without eBPF nobody knows whose it is.
    pub orphaned: bool,
}

/// What can be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// A process that runs.
    Running,
    /// A process that has ended, and was not waited for.
    Zombie,
    /// A thread.
    Thread,
}

/// How a crate is run: more arguments for the tool, and variables in its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rerun {
    /// Words that begin with `-`.
    pub args: Vec<String>,
    /// `NAME=VALUE`.
    pub variables: Vec<(String, String)>,
}

/// What a comment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A finding with its site at the comment's line.
    Finding(Announced),
    /// Descriptors with their site at the comment's line, or, above a test, without one.
    Open(Open),
    /// IPC objects with their site at the comment's line, or, above a test, without one.
    Object(Object),
    /// Mappings with their site at the comment's line.
    Mapped(Mapped),
    /// A process or thread with its site at the comment's line.
    Left(Left),
    /// How many timers the test leaves.
    Timers(usize),
    /// What the test allocates: bytes at the peak, and bytes and blocks in all.
    Heap(Heap),
    /// The test's outcome.
    Outcome(String),
    /// The test's verdict.
    Verdict(String),
    /// The test's findings are not looked at.
    FindingsAny,
    /// How many files the test leaves in its temporary directory.
    Files(u64),
    /// The tool's exit code for the crate.
    CrateExit(i32),
    /// More arguments for the tool.
    CrateArgs(Vec<String>),
    /// Run the crate once more, in another way.
    CrateRerun(Rerun),
    /// Something in the report's list of what was not checked must contain this.
    CrateNotChecked(String),
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Lines above the comment's own; 0 is its own (or the next, when it stands alone).
    pub up: usize,
    /// The tests it is meant for; empty where it stands in the test itself.
    pub tests: Vec<String>,
    /// What it says.
    pub body: Body,
}
