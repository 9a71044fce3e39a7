//! What is known of a test's process at its exit. The seam: everything that needs the live process
//! or privileges comes before it, everything after it is pure.

mod blocks;
mod frees;
mod loss;
mod marks;
mod references;
mod roots;

use std::ops::Range;
use std::time::Duration;

use crate::model;

pub use blocks::{Block, Blocks, Place};
pub use frees::{BadFree, Before};
pub use loss::Loss;
pub use marks::Marks;
pub use references::{Reference, References, Rows};
pub use roots::{Part, Root, RootKind, Storage};

/// The state of one process at its exit.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Every block alive at exit, also those allocated outside the window, by ascending address.
    pub blocks: Blocks,
    /// The call stacks that blocks, bad frees and what is left in the kernel refer to by index.
    pub stacks: Vec<CallStack>,
    /// Frees of addresses that were not allocated, in the order seen.
    pub bad_frees: Vec<BadFree>,
    /// What it has left in the kernel. Of descriptors: those that were not there when the window began, and where it was
    /// seen who has made their files, only those of files that the test has made; otherwise also others' files.
    pub left: model::Left<usize>,
    /// It has left something of which only a second run can tell where it was made, and whether that matters.
    pub is_unexplained: bool,
    /// Descriptors that it has left open, of files that others have made: another process, or a thread outside of the window.
    pub of_others: Vec<OfOthers>,
    /// What it has left in its temporary directory; none where it had none of its own.
    pub files: Option<model::LeftFiles>,
    /// What it has allocated in its window; none where that is not known.
    pub heap: Option<model::Heap>,
    /// What was mapped where; a module that was unloaded stays listed after those alive.
    pub mappings: Vec<Mapping>,
    /// What refers to blocks by itself.
    pub roots: Vec<Root>,
    /// Thread-local storage of threads that were running.
    pub storage: Vec<Storage>,
    /// What the contents of blocks refer to.
    pub references: References,
    /// What the test's code has said of blocks.
    pub marks: Marks,
    /// When the newest block was allocated that was alive after each iteration of the test's body.
    pub iterations: Vec<u64>,
    /// What could not be seen. Only an empty list can be called clean.
    pub losses: Vec<Loss>,
    /// How long it took to take it.
    pub taken_in: Duration,
}

/// A descriptor of a file that others have made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfOthers {
    /// Its numbers, as in [`model::Descriptor`].
    pub numbers: Vec<u32>,
    /// What it is.
    pub kind: std::borrow::Cow<'static, str>,
    /// Which one.
    pub description: String,
}

/// Return addresses, innermost first; the first is in the direct caller of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallStack {
    /// The addresses. Look up `address - 1`: a return address is behind its call.
    pub frames: Vec<u64>,
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses.
    pub range: Range<u64>,
    /// Offset of the start in the file.
    pub offset: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// The file or the kernel's name for it (`[heap]`); empty for anonymous memory.
    pub path: String,
}
