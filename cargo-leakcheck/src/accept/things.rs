//! What a test has left, of whichever kind, as rules and the baseline look at it.

use super::path::plain;
use crate::model::{FindingKind, Frame, Item, Leak, Measure, OwnCode, Seen};

/// Something that a test has left.
pub struct Thing<'a> {
    /// Which one.
    pub item: Item,
    /// What kind of leak.
    pub leak: Leak,
    /// Which kind of descriptor, object or mapping: `socket`.
    pub what: Option<&'a str>,
    /// Where it comes from.
    pub stack: Option<&'a [Frame]>,
    /// For indirectly lost blocks: where their leak root comes from.
    pub root: Option<&'a [Frame]>,
    /// How much; of what is no memory, how many.
    pub measure: Measure,
}

impl<'a> Thing<'a> {
    /// Where it comes from, or what it hangs below.
    pub fn origin(&self) -> Option<&'a [Frame]> {
        self.root.or(self.stack)
    }

    /// What kind of leak that is.
    pub fn root_leak(&self) -> Leak {
        match self.leak {
            Leak::Memory(FindingKind::IndirectlyLost) if self.root.is_some() => {
                Leak::Memory(FindingKind::DefinitelyLost)
            }
            leak => leak,
        }
    }
}

/// All that a test has left, but for what one-time initializers keep.
pub fn things(seen: &Seen) -> Vec<Thing<'_>> {
    let left = &seen.left;
    let number = |blocks: usize| Measure { bytes: 0, blocks: blocks as u64 };
    let findings = seen.findings.iter().enumerate().map(|(place, it)| Thing {
        item: Item::Finding(place),
        leak: Leak::Memory(it.kind),
        what: None,
        stack: it.stack.as_deref(),
        root: it.root.as_deref(),
        measure: it.measure,
    });
    let descriptors = left.descriptors.iter().enumerate().filter(|(_, it)| !it.once);
    let descriptors = descriptors.map(|(place, it)| Thing {
        item: Item::Descriptor(place),
        leak: Leak::Descriptor,
        what: Some(&it.kind),
        stack: it.stack.as_deref(),
        root: None,
        measure: number(it.numbers.len()),
    });
    let ipc = left.ipc.iter().enumerate().map(|(place, it)| Thing {
        item: Item::Ipc(place),
        leak: Leak::Ipc,
        what: Some(&it.kind),
        stack: it.stack.as_deref(),
        root: None,
        measure: number(1),
    });
    let children = left.children.iter().enumerate().map(|(place, it)| Thing {
        item: Item::Child(place),
        leak: Leak::Child,
        what: None,
        stack: it.stack.as_deref(),
        root: None,
        measure: number(1),
    });
    let threads = left.threads.iter().enumerate().map(|(place, it)| Thing {
        item: Item::Thread(place),
        leak: Leak::Thread,
        what: None,
        stack: it.stack.as_deref(),
        root: None,
        measure: number(1),
    });
    let mappings = left.mappings.iter().enumerate().filter(|(_, it)| !it.once);
    let mappings = mappings.map(|(place, it)| Thing {
        item: Item::Mapping(place),
        leak: Leak::Mapping,
        what: Some(&it.kind),
        stack: it.stack.as_deref(),
        root: None,
        measure: Measure { bytes: it.bytes, blocks: it.count },
    });
    findings.chain(descriptors).chain(ipc).chain(children).chain(threads).chain(mappings).collect()
}

/// The functions of the user's own packages that a stack goes through, innermost first, by their plain paths; where there are
/// none, those of dependencies. Of calls of one function by itself one is kept: how many of them the compiler has left is
/// its own affair.
pub fn frames(stack: Option<&[Frame]>, own: &OwnCode) -> Vec<String> {
    let stack = stack.unwrap_or_default();
    let path = |frame: &Frame| frame.function.as_deref().map(plain);
    let in_workspace = |frame: &&Frame| frame.file.as_deref().is_some_and(|file| own.in_workspace(file));
    let owned = || stack.iter().filter(|frame| frame.own);
    let mut frames: Vec<String> = owned().filter(in_workspace).filter_map(path).collect();
    if frames.is_empty() {
        frames = owned().filter_map(path).collect();
    }
    frames.dedup();
    frames
}
