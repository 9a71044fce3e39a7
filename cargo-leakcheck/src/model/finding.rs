use std::sync::Arc;

use super::{Acceptance, Heap, InCode, Left, LeftFiles, Measure, Origin, Ran, Seen};
use crate::snapshot::{Before, Loss};

/// What is wrong with some blocks. The words are those of `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// No reference anywhere; of a lost cycle, the block that was allocated first.
    DefinitelyLost,
    /// Referenced only from lost blocks.
    IndirectlyLost,
    /// Referenced only by a disguised word (tag bits, unaligned), or from such a block.
    PossiblyLost,
    /// A chain of references leads to it from the root set.
    StillReachable,
    /// A free of a block that had been freed.
    DoubleFree,
    /// A free of an address that was never allocated.
    UnknownFree,
}

/// Blocks of one kind with one call stack. `S` is the call stack: an index into
/// `Snapshot::stacks` first, [`Frame`]s after symbolization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<S> {
    /// What is wrong.
    pub kind: FindingKind,
    /// How much.
    pub measure: Measure,
    /// Where the blocks were allocated (or freed, for bad frees); none when the stack was lost.
    pub stack: Option<S>,
    /// For definitely lost blocks: what hangs below them and is lost with them.
    pub below: Measure,
    /// For indirectly lost blocks: where the leak root was allocated that they hang below; none where that is not known.
    pub root: Option<S>,
    /// For still reachable blocks: the only running thread that holds them.
    pub held_by: Option<String>,
    /// For double frees: what had become of the block before.
    pub before: Before<S>,
    /// The child of the test that has done it; none for the test's own process.
    pub process: Option<Arc<str>>,
    /// Where it comes from.
    pub origin: Origin<S>,
    /// What the test's code says of it.
    pub in_code: InCode,
}

/// One frame of a call stack; an inlined call is a frame of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Demangled name without hash; none where it is not known.
    pub function: Option<String>,
    /// Source file, as the debug information has it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// File of the module the address is in.
    pub module: Option<String>,
    /// Address within that module (its ELF virtual address), or the raw address without a module.
    pub address: u64,
    /// Inlined into the frame that follows.
    pub inlined: bool,
    /// Whether the frame is the user's own code: not std, not an allocator, not the harness, not
    /// the C or C++ runtime.
    pub own: bool,
}

/// What a test's memory came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was seen, nothing exceeds the budget.
    Clean,
    /// Something exceeds the budget: one reason a limit ("4096 B definitely lost in 1 block
    /// (budget 0 B)").
    Leaks(Vec<String>),
    /// Something was not seen.
    Incomplete(Vec<Loss>),
    /// There was nothing to look at, or the budget says not to.
    NotChecked(String),
}

/// The judged memory of one test.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Findings, largest first within a kind, kinds in their order.
    pub findings: Vec<Finding<Vec<Frame>>>,
    /// Sums over the findings.
    pub totals: Totals,
    /// What it has left in the kernel.
    pub left: Left<Vec<Frame>>,
    /// What it has left in its temporary directory; none where it had none of its own.
    pub files: Option<LeftFiles>,
    /// What it has allocated in its window; none where that is not known.
    pub heap: Option<Heap>,
    /// What was not seen.
    pub losses: Vec<Loss>,
    /// What of it is accepted.
    pub acceptance: Acceptance,
    /// The verdict on what was seen.
    pub verdict: Verdict,
    /// How the attempts at the test came out, where it was run more than once.
    pub attempts: Option<Attempts>,
    /// Whether the verdict counts for the exit code (a failed test's leaks do not, by default).
    pub counts: bool,
}

impl Judged {
    /// What was seen of it, to be judged again.
    pub fn seen(&self) -> Seen {
        let (findings, left, losses) = (self.findings.clone(), self.left.clone(), self.losses.clone());
        Seen { findings, left, heap: self.heap, losses }
    }
}

/// How the attempts at one test came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Attempts {
    /// How many there were.
    pub total: u64,
    /// Of which exceeded the budget, where that counts.
    pub leaking: u64,
    /// Of which did not pass.
    pub failed: u64,
}

/// Sums over a test's findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Definitely lost.
    pub definitely_lost: Measure,
    /// Indirectly lost.
    pub indirectly_lost: Measure,
    /// Possibly lost.
    pub possibly_lost: Measure,
    /// Still reachable.
    pub still_reachable: Measure,
    /// Double and unknown frees.
    pub bad_frees: u64,
}

/// A test with its verdict.
pub type CheckedTest = Ran<Judged>;
