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
    let root = |item| match item {
        Item::Finding(place) => seen.findings[place].root.as_deref(),
        _ => None,
    };
    let thing = |(item, leak, measure)| Thing {
        item,
        leak,
        what: seen.what(item),
        stack: seen.stack(item),
        root: root(item),
        measure,
    };
    seen.items().map(thing).collect()
}

/// The functions of the user's own packages that a stack goes through, innermost first, by their plain paths; where there are
/// none, those of dependencies, and at last whatever is known. Of calls of one function by itself one is kept: how many of them the compiler has left is
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
    if frames.is_empty() {
        // A library's own thread: all that there is.
        frames = stack.iter().filter_map(path).collect();
    }
    frames.dedup();
    frames
}
