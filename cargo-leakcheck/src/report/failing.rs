//! Everything of a test that can fail it, as formats list it that show places in the user's sources.

use super::{View, descriptors, findings, text};
use crate::judge::{self, growth};
use crate::model::{CheckedTest, FindingKind, Frame, Item, Measure};

/// What a test has left, or done wrong, at one place.
pub(super) struct Failing<'a> {
    pub what: What,
    /// By which it may be accepted; none where it cannot be.
    pub item: Option<Item>,
    /// Of what is no memory, each is a block; of growth each iteration is.
    pub measure: Measure,
    pub stack: Option<&'a Vec<Frame>>,
    /// For which type the blocks were allocated, where that is known.
    pub type_name: Option<String>,
    /// Which one it is, where more is known than how much.
    pub which: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Blocks(FindingKind),
    Descriptor,
    Ipc,
    Process,
    Thread,
    Mapping,
    Growth,
}

impl What {
    pub const ALL: [Self; 12] = [
        Self::Blocks(FindingKind::DefinitelyLost),
        Self::Blocks(FindingKind::IndirectlyLost),
        Self::Blocks(FindingKind::PossiblyLost),
        Self::Blocks(FindingKind::StillReachable),
        Self::Blocks(FindingKind::DoubleFree),
        Self::Blocks(FindingKind::UnknownFree),
        Self::Descriptor,
        Self::Ipc,
        Self::Process,
        Self::Thread,
        Self::Mapping,
        Self::Growth,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks(kind) => text::kind(kind),
            Self::Descriptor => "descriptor left open",
            Self::Ipc => "IPC object left behind",
            Self::Process => "process left",
            Self::Thread => "thread left running",
            Self::Mapping => "memory left mapped",
            Self::Growth => "growth",
        }
    }

    /// Whether it has bytes.
    pub fn is_memory(self) -> bool {
        match self {
            Self::Blocks(kind) => !matches!(kind, FindingKind::DoubleFree | FindingKind::UnknownFree),
            Self::Mapping | Self::Growth => true,
            Self::Descriptor | Self::Ipc | Self::Process | Self::Thread => false,
        }
    }

    /// `4096 B definitely lost in 1 block`, `descriptor left open (3 times)`.
    pub fn amount(self, Measure { bytes, blocks }: Measure) -> String {
        match self {
            Self::Mapping => format!("{bytes} B left mapped in {}", text::count(blocks, "mapping")),
            Self::Growth => format!("{bytes} B added in {}", text::count(blocks, "iteration")),
            _ if self.is_memory() => {
                format!("{bytes} B {} in {}", self.name(), text::count(blocks, "block"))
            }
            _ => format!("{} ({})", self.name(), text::count(blocks, "time")),
        }
    }
}

/// All of a test's, whatever its verdict.
pub(super) fn failing<'a>(test: &'a CheckedTest, view: &View) -> Vec<Failing<'a>> {
    let left = &test.memory.left;
    let number = |blocks: usize| Measure { bytes: 0, blocks: blocks as u64 };
    let budget = &test.test.budget;
    let view = View { full_stacks: false, ..view.clone() };
    let of = |what, item, stack: &'a Option<Vec<Frame>>, measure, which: &str| {
        let which = text::line(which.trim_end()).into_owned();
        let item = Some(item);
        Failing { what, item, measure, stack: stack.as_ref(), type_name: None, which }
    };
    let mut all = Vec::new();
    for (place, it) in test.memory.findings.iter().enumerate() {
        if findings::is_shown(it, test, &view) && judge::is_judged(it, &test.test.judge) {
            let child = it.process.as_deref().map_or_else(String::new, |it| format!("in child process {it}"));
            let failing = of(What::Blocks(it.kind), Item::Finding(place), &it.stack, it.measure, &child);
            all.push(Failing { type_name: it.origin.type_name.clone(), ..failing });
        }
    }
    for (place, it) in left.descriptors.iter().enumerate() {
        if !it.once && descriptors::are_judged(test) {
            let which = format!("{} {}", it.kind, it.description);
            let (item, number) = (Item::Descriptor(place), number(it.numbers.len()));
            all.push(of(What::Descriptor, item, &it.stack, number, &which));
        }
    }
    for (place, it) in left.ipc.iter().enumerate() {
        let which = format!("{} {}", it.kind, it.name);
        all.push(of(What::Ipc, Item::Ipc(place), &it.stack, number(1), &which));
    }
    for (place, it) in left.children.iter().enumerate() {
        all.push(of(What::Process, Item::Child(place), &it.stack, number(1), &it.command));
    }
    for (place, it) in left.threads.iter().enumerate().filter(|_| budget.threads.is_some()) {
        all.push(of(What::Thread, Item::Thread(place), &it.stack, number(1), &it.name));
    }
    for (place, it) in left.mappings.iter().enumerate() {
        if !it.once && budget.mapped_bytes.is_some() {
            let which = format!("{} {}", it.kind, it.description);
            let measure = Measure { bytes: it.bytes, blocks: it.count };
            all.push(of(What::Mapping, Item::Mapping(place), &it.stack, measure, &which));
        }
    }
    if let Some(growth) = left.growth.as_ref().filter(|it| it.is_whole())
        && growth::exceeded(budget, growth).is_some()
    {
        for it in &growth.grown {
            let (bytes, blocks) = growth::added(&it.bytes, growth.warmup);
            let which = growth::pattern(&it.bytes, growth.warmup).to_string();
            let (measure, stack) = (Measure { bytes, blocks }, it.stack.as_ref());
            all.push(Failing { what: What::Growth, item: None, measure, stack, type_name: None, which });
        }
    }
    all
}
