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
    /// What it has allocated; none where that is not known.
    pub heap: Option<super::Heap>,
    /// What was not seen.
    pub losses: Vec<crate::snapshot::Loss>,
}

impl Seen {
    /// All that it has left, with how much it is; of what is no memory, how many. What one-time initializers keep is not
    /// among it.
    pub fn items(&self) -> impl Iterator<Item = (self::Item, Leak, Measure)> + '_ {
        let left = &self.left;
        let number = |blocks: usize| Measure { bytes: 0, blocks: blocks as u64 };
        let findings = self.findings.iter().enumerate();
        let findings =
            findings.map(|(place, it)| (self::Item::Finding(place), Leak::Memory(it.kind), it.measure));
        let descriptors = left.descriptors.iter().enumerate().filter(|(_, it)| !it.once);
        let descriptors = descriptors.map(move |(place, it)| {
            (self::Item::Descriptor(place), Leak::Descriptor, number(it.numbers.len()))
        });
        let each = move |of: usize, item: fn(usize) -> self::Item, leak| {
            (0..of).map(move |place| (item(place), leak, number(1)))
        };
        let mappings = left.mappings.iter().enumerate().filter(|(_, it)| !it.once).map(|(place, it)| {
            (self::Item::Mapping(place), Leak::Mapping, Measure { bytes: it.bytes, blocks: it.count })
        });
        findings
            .chain(descriptors)
            .chain(each(left.ipc.len(), self::Item::Ipc, Leak::Ipc))
            .chain(each(left.children.len(), self::Item::Child, Leak::Child))
            .chain(each(left.threads.len(), self::Item::Thread, Leak::Thread))
            .chain(mappings)
    }

    /// Where one of them comes from.
    pub fn stack(&self, item: self::Item) -> Option<&[Frame]> {
        let left = &self.left;
        match item {
            self::Item::Finding(place) => self.findings[place].stack.as_deref(),
            self::Item::Descriptor(place) => left.descriptors[place].stack.as_deref(),
            self::Item::Ipc(place) => left.ipc[place].stack.as_deref(),
            self::Item::Child(place) => left.children[place].stack.as_deref(),
            self::Item::Thread(place) => left.threads[place].stack.as_deref(),
            self::Item::Mapping(place) => left.mappings[place].stack.as_deref(),
        }
    }

    /// Which kind of descriptor, object or mapping it is.
    pub fn what(&self, item: self::Item) -> Option<&str> {
        match item {
            self::Item::Descriptor(place) => Some(&self.left.descriptors[place].kind),
            self::Item::Ipc(place) => Some(&self.left.ipc[place].kind),
            self::Item::Mapping(place) => Some(&self.left.mappings[place].kind),
            self::Item::Finding(_) | self::Item::Child(_) | self::Item::Thread(_) => None,
        }
    }
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
    /// The test's code, at this place (`src/lib.rs:10`).
    Code(String),
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

/// How much there is of something that can fail a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// All but what rules accept: what a limit is for.
    pub all: Measure,
    /// The same but for what the baseline knows.
    pub rest: Measure,
}

impl std::iter::Sum for Counting {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, it| Self { all: sum.all + it.all, rest: sum.rest + it.rest })
    }
}

impl Acceptance {
    /// How much is accepted of something.
    pub fn of(&self, item: Item) -> Measure {
        self.items.get(&item).map_or_else(Measure::default, |accepted| accepted.measure)
    }

    /// Whether a rule, or the test's code, accepts something.
    pub fn is_by_rule(&self, item: Item) -> bool {
        matches!(self.items.get(&item), Some(Accepted { by: By::Rule(_) | By::Code(_), .. }))
    }

    /// What counts of something of which there is so much.
    pub fn counting(&self, item: Item, of: Measure) -> Counting {
        let rest = of.less(self.of(item));
        Counting { all: if self.is_by_rule(item) { rest } else { of }, rest }
    }
}
