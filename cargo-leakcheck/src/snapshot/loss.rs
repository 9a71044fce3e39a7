//! What was not seen.

use std::sync::Arc;

use super::Blocks;
use crate::model;

/// Something that was not seen, and which therefore makes a verdict impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The block table was full.
    #[error("{} not recorded because the block table is full; use --max-blocks", model::count(*.count, "block"))]
    Blocks {
        /// How many.
        count: u64,
    },
    /// The stack table was full.
    #[error("{} not recorded because the stack table is full; use --max-stacks", model::count(*.count, "call stack"))]
    Stacks {
        /// How many.
        count: u64,
    },
    /// Stacks that the kernel could not read.
    #[error("{} could not be read by the kernel", model::count(*.count, "call stack"))]
    UnreadStacks {
        /// How many.
        count: u64,
    },
    /// Bad frees that found no room.
    #[error("{} not recorded; the first ones are shown; use --max-bad-frees", model::count(*.count, "bad free"))]
    BadFrees {
        /// How many.
        count: u64,
    },
    /// Results the tracer could not read.
    #[error("{} of an allocating function not seen", model::count(*.count, "result"))]
    Results {
        /// How many.
        count: u64,
    },
    /// The log of a process was full.
    #[error("{} not listed because the log is full; use --max-blocks", model::count(*.count, "record"))]
    Log {
        /// How many.
        count: u64,
    },
    /// Blocks for which the ledger found no memory.
    #[error("{} not recorded because the process has no memory left for it", model::count(*.count, "block"))]
    LedgerBlocks {
        /// How many.
        count: u64,
    },
    /// The same of call stacks.
    #[error("{} not recorded because the process has no memory left for it", model::count(*.count, "call stack"))]
    LedgerStacks {
        /// How many.
        count: u64,
    },
    /// The peak or the number of blocks, where there is a limit for them.
    #[error("how much it has allocated is not known, for which it has a limit")]
    Heap,
    /// The peak of a test and its children, where a limit lies between.
    #[error(
        "the peak is {peak}: those of the test and of the children that are followed may have been at different times (budget {limit} B)"
    )]
    Peak {
        /// What is known of it.
        peak: model::Peak,
        /// The limit.
        limit: u64,
    },
    /// Blocks of threads that may not ask for their ids.
    #[error("{} of threads that a filter keeps from asking for their ids (gettid); use --recorder uprobe", model::count(*.count, "block"))]
    Nameless {
        /// How many.
        count: u64,
    },
    /// Blocks beyond the number that can be told apart.
    #[error("{} not looked at: no more than {} can be told apart", model::count(*.count, "block"), Blocks::MAX)]
    Unnumbered {
        /// How many.
        count: u64,
    },
    /// Files that found no room.
    #[error("{} made in the window not recorded because their table is full; use --max-files", model::count(*.count, "file"))]
    Files {
        /// How many.
        count: u64,
    },
    /// Processes and threads that found no room.
    #[error("{} of processes or threads not recorded because their table is full; use --max-threads", model::count(*.count, "start"))]
    Started {
        /// How many.
        count: u64,
    },
    /// The descriptors of the process were not listed, or it was not seen who has made them.
    #[error("its open descriptors could not be looked at: {reason}")]
    Descriptors {
        /// Why.
        reason: String,
    },
    /// What descriptors hold in the kernel is limited and not known.
    #[error(
        "what its descriptors hold in the kernel is not known; use --kernel-bytes and, for many of them, --max-files"
    )]
    KernelBytes,
    /// The IPC objects of the process were not listed.
    #[error("the IPC objects that it leaves could not be listed: {reason}")]
    Ipc {
        /// Why.
        reason: String,
    },
    /// Calls that make IPC objects found no room.
    #[error("{} that make IPC objects not recorded because their table is full", model::count(*.count, "call"))]
    IpcCalls {
        /// How many.
        count: u64,
    },
    /// Mappings found no room.
    #[error("{} not recorded because their table is full", model::count(*.count, "mapping"))]
    Mappings {
        /// How many.
        count: u64,
    },
    /// Records of the kernel side for which the kernel had no memory, although their table has room.
    #[error("{} not recorded because the kernel had no memory for them at that moment, although their table has room; run the test again, with fewer --jobs or less else beside it", model::count(*.count, .what))]
    NoMemory {
        /// What was to be recorded, one of them.
        what: &'static str,
        /// How many.
        count: u64,
    },
    /// The test's body was not run as often as it is to be.
    #[error("its body was not run as often as it is to be: {reason}")]
    Growth {
        /// Why.
        reason: String,
    },
    /// The planted block was not seen.
    #[error("the canary block was not seen: recording does not work in this process ({reason})")]
    NoCanary {
        /// What went wrong while planting it.
        reason: String,
    },
    /// libtest never entered a test body.
    #[error("no test body was entered")]
    NoBody,
    /// The binary has no allocator that can be traced.
    #[error("allocator not covered: {reason}")]
    Allocator {
        /// Why.
        reason: String,
    },
    /// The C library's own allocator was looked up, past the ledger.
    #[error(
        "allocator not covered: it looks up the C library's malloc by a handle (dlsym); use --recorder uprobe"
    )]
    LookedUp,
    /// A thread could not be followed.
    #[error("{} not followed because the thread table is full; use --max-threads", model::count(*.count, "thread"))]
    Threads {
        /// How many.
        count: u64,
    },
    /// A thread could not be steered.
    #[error("a thread was not followed to the end: {reason}")]
    Breakpoints {
        /// Why.
        reason: String,
    },
    /// The process replaced itself.
    #[error("the process replaced itself by exec; what it had allocated is unknown")]
    Exec,
    /// The process was gone before it could be looked at.
    #[error("the process ended before it could be looked at: {reason}")]
    Vanished {
        /// What happened.
        reason: String,
    },
    /// The run has no result of the test.
    #[error("there is no result: {reason}")]
    Unfinished {
        /// What happened.
        reason: String,
    },
    /// As a report tells that was read.
    #[error("{message}")]
    Told {
        /// The public name of its kind.
        kind: String,
        /// All that is known.
        message: String,
    },
    /// Something of a child of the test.
    #[error("in child process {process}: {loss}")]
    Child {
        /// Its executable and arguments.
        process: Arc<str>,
        /// What was not seen.
        loss: Box<Loss>,
    },
    /// What the test's code has said of blocks found no room.
    #[error("{} of leakcheck::ignore, or entering or leaving a scope, not recorded; a test has room for {}", model::count(*.count, "call"), .room)]
    Marks {
        /// How many.
        count: u64,
        /// How many there is room for.
        room: u64,
    },
    /// Memory that could not be read.
    #[error("{bytes} bytes at {address:#x} ({name}) could not be read")]
    Memory {
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
        /// What is mapped there.
        name: String,
    },
}

impl Loss {
    /// What [`Self::NoMemory`] calls records of files.
    pub const FILE: &'static str = "file";

    /// Whether descriptors may be left of which nothing is known.
    pub fn hides_descriptors(&self) -> bool {
        matches!(
            self,
            Self::Files { .. } | Self::Descriptors { .. } | Self::NoMemory { what: Self::FILE, .. }
        )
    }

    /// Why the ledger could not see all, where the uprobe recorder can.
    pub fn passes_ledger(&self) -> Option<&'static str> {
        match self {
            Self::LookedUp => Some("it looks up the C library's malloc by a handle (dlsym)"),
            Self::Nameless { .. } => Some("a filter keeps threads from asking for their ids (gettid)"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_a_child_names_it() {
        let loss = Loss::Child { process: "target/a --b".into(), loss: Box::new(Loss::NoBody) };
        assert_eq!(loss.to_string(), "in child process target/a --b: no test body was entered");
    }

    #[test]
    fn a_full_table_names_the_option_that_helps() {
        let text = |loss: Loss| loss.to_string();
        let one = text(Loss::Blocks { count: 1 });
        assert_eq!(one, "1 block not recorded because the block table is full; use --max-blocks");
        assert!(text(Loss::Stacks { count: 2 }).starts_with("2 call stacks not"));
        let unnumbered = text(Loss::Unnumbered { count: 2 });
        assert_eq!(unnumbered, "2 blocks not looked at: no more than 2147483647 can be told apart");
        for (loss, option) in [
            (Loss::Stacks { count: 2 }, "--max-stacks"),
            (Loss::Log { count: 2 }, "--max-blocks"),
            (Loss::Threads { count: 2 }, "--max-threads"),
            (Loss::BadFrees { count: 2 }, "--max-bad-frees"),
            (Loss::Files { count: 2 }, "--max-files"),
            (Loss::Started { count: 2 }, "--max-threads"),
        ] {
            assert!(text(loss).ends_with(option));
        }
    }
}
