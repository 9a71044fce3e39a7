//! What this crate tells `cargo leakcheck`.
//!
//! The tool finds [`LOG_1`] by its symbol and sets its first word before the program begins, and reads the rest when the
//! process ends. Nothing is written without the tool.
//!
//! Each entry is a block of its own: so the recorder, whichever it is, has written down which thread has made it, and when, by
//! the same clock as for all other blocks. That is what tells whether a block at an address is the one that was there at a
//! call, and in which scope it was allocated.

use alloc::boxed::Box;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Entries that there is room for. What finds none is counted, and makes a verdict *incomplete*.
const ROOM: usize = 1 << 18;

/// Where the tool says that it is there.
const ON: usize = 0;
/// How many entries there were to be.
const COUNT: usize = 1;
/// The first entry. An entry is the address of its words with all bits changed, so that it does not refer to them.
const FIRST: usize = 2;

/// All of it. The number in the name is that of the format, here and in the words of entries.
static LOG_1: [AtomicUsize; FIRST + ROOM] = [const { AtomicUsize::new(0) }; FIRST + ROOM];

/// First words of entries.
pub mod kind {
    /// What is at an address is to be ignored: the address with all bits changed, file (address, length), line.
    pub const IGNORE: usize = 1;
    /// A scope begins on this thread: name (address, length), then five limits, see `scope.rs`.
    pub const SCOPE: usize = 2;
    /// This thread enters a scope once more: its number.
    pub const ENTER: usize = 3;
    /// This thread leaves a scope: its number.
    pub const LEAVE: usize = 4;
    /// As [`IGNORE`], but what is at the address has no size: the block may as well end there.
    pub const IGNORE_EMPTY: usize = 5;
}

/// Whether the tool is there.
#[inline]
pub fn is_on() -> bool {
    LOG_1[ON].load(Relaxed) != 0
}

/// The words of an entry, which stay where they are.
pub type Words<const N: usize> = &'static [AtomicUsize; N];

/// Adds an entry; its number and its words, if there was room.
#[cold]
pub fn add<const N: usize>(words: [usize; N]) -> Option<(usize, Words<N>)> {
    let number = LOG_1[COUNT].fetch_add(1, Relaxed);
    let slot = LOG_1.get(FIRST.checked_add(number)?)?;
    let words: Words<N> = Box::leak(Box::new(words.map(AtomicUsize::new)));
    slot.store(!words.as_ptr().addr(), Release);
    Some((number, words))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::{ignore, scope};

    fn calls() {
        let value = Box::new(7);
        ignore(&value);
        let opened = scope("a").bytes(1).outstanding_bytes(2);
        opened.handle().run(|| {});
        drop(opened);
    }

    fn written() -> Vec<usize> {
        LOG_1.iter().map(|word| word.load(Relaxed)).filter(|word| *word != 0).collect()
    }

    /// One test, since all threads of the process have one log.
    #[test]
    fn nothing_is_written_without_the_tool() {
        calls();
        assert_eq!(written(), []);
        LOG_1[ON].store(1, Relaxed);
        calls();
        // The tool, the count, and what was called: ignored, begun, entered, left twice.
        assert_eq!(LOG_1[COUNT].load(Relaxed), 5);
        let written = written();
        assert_eq!((written.len(), &written[..2]), (7, &[1, 5][..]));
        // No address of anything: those of a process are in the lower half.
        assert!(written[2..].iter().all(|word| word >> 63 == 1));
        LOG_1[COUNT].store(ROOM, Relaxed);
        calls();
        assert_eq!(
            LOG_1[COUNT].load(Relaxed),
            ROOM + 2,
            "a scope that found no room is none to enter or leave"
        );
    }
}
