use std::collections::BTreeMap;

use super::{Finding, FindingKind, Frame, Left, Measure};

/// What of a test's leaks somebody has accepted: it is reported, and does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// What is accepted, how much of it and by what.
    pub items: BTreeMap<Item, Accepted>,
    /// How the test compares with the baseline; none where there is no baseline.
    pub baseline: Option<Compared>,
    /// The rules that are for something that it has left.
    pub hits: Vec<Hit>,
}

/// What a rule is for in a test.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    /// The rule's name.
    pub rule: String,
    /// How much it is for, what hangs below leak roots included.
    pub bytes: u64,
    /// In how many blocks, leak roots alone; of what is no memory, how many.
    pub blocks: u64,
    /// What is more than it accepts, so that all of it counts: `2 > 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<String>,
}

/// Something that a test has left, by its place in the list of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(tag = "list", content = "place")]
pub enum Item {
    /// Among the findings.
    #[serde(rename = "findings")]
    Finding(usize),
    /// Among the descriptors.
    #[serde(rename = "descriptors")]
    Descriptor(usize),
    /// Among the IPC objects.
    #[serde(rename = "ipc")]
    Ipc(usize),
    /// Among the children.
    #[serde(rename = "children")]
    Child(usize),
    /// Among the threads.
    #[serde(rename = "threads")]
    Thread(usize),
    /// Among the mappings.
    #[serde(rename = "mappings")]
    Mapping(usize),
}

/// A kind of what a test can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leak {
    /// Blocks, or a bad free.
    Memory(FindingKind),
    /// Descriptors.
    Descriptor,
    /// IPC objects.
    Ipc,
    /// Child processes.
    Child,
    /// Threads.
    Thread,
    /// Mapped memory.
    Mapping,
}

/// All kinds, with their public names.
pub const LEAKS: [(Leak, &str); 11] = [
    (Leak::Memory(FindingKind::DefinitelyLost), "definitely_lost"),
    (Leak::Memory(FindingKind::IndirectlyLost), "indirectly_lost"),
    (Leak::Memory(FindingKind::PossiblyLost), "possibly_lost"),
    (Leak::Memory(FindingKind::StillReachable), "still_reachable"),
    (Leak::Memory(FindingKind::DoubleFree), "double_free"),
    (Leak::Memory(FindingKind::UnknownFree), "unknown_free"),
    (Leak::Descriptor, "descriptor"),
    (Leak::Ipc, "ipc"),
    (Leak::Child, "child"),
    (Leak::Thread, "thread"),
    (Leak::Mapping, "mapping"),
];

impl Leak {
    /// Its public name.
    pub fn name(self) -> &'static str {
        LEAKS.iter().find(|(leak, _)| *leak == self).map_or("", |(_, name)| name)
    }
}

/// What was seen of a test, to be judged.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Findings, in the order they are to be reported in.
    pub findings: Vec<Finding<Vec<Frame>>>,
    /// What it has left in the kernel.
    pub left: Left<Vec<Frame>>,
    /// What was not seen.
    pub losses: Vec<crate::snapshot::Loss>,
}

/// How much is accepted, and by what.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Accepted {
    /// How much; blocks are descriptors, objects, processes, threads and mappings as well.
    #[serde(flatten)]
    pub measure: Measure,
    /// By what.
    pub by: By,
}

/// What accepts a leak.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// It was there when the baseline was written.
    Baseline,
    /// The rule of this name.
    Rule(String),
}

/// How what a test leaks compares with what it has leaked before: numbers of leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// As before, or less.
    pub known: u64,
    /// More than before.
    pub grown: u64,
    /// Not there before.
    pub new: u64,
    /// Not there any more.
    pub fixed: u64,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self { known, grown, new, fixed } = other;
        self.known += known;
        self.grown += grown;
        self.new += new;
        self.fixed += fixed;
    }
}

impl Acceptance {
    /// How much of something is accepted.
    pub fn of(&self, item: Item) -> Measure {
        self.items.get(&item).map_or_else(Measure::default, |accepted| accepted.measure)
    }
}
