//! The call stacks of a snapshot.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::records::Records;
use crate::snapshot::{CallStack, Mapping};

/// Keys by which a recorder knows call stacks, numbered as they come.
#[derive(Default)]
pub struct Keys {
    all: Vec<u64>,
    numbers: HashMap<u64, u32, BuildHasherDefault<Spread>>,
}

impl Keys {
    /// The number of a key; none for 0, by which no stack is known.
    pub fn number(&mut self, key: u64) -> Option<usize> {
        if key == 0 {
            return None;
        }
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.all.push(key);
            self.all.len() as u32 - 1
        });
        Some(number as usize)
    }

    /// By their numbers.
    pub fn all(&self) -> &[u64] {
        &self.all
    }

    /// The call stacks by their keys' numbers, and for each number which it is; none that was lost.
    pub fn read(
        &self,
        records: &Records<'_>,
        now: &[Mapping],
        before: &[Mapping],
    ) -> (Vec<CallStack>, Vec<Option<usize>>) {
        let code = Code::of(now, before);
        let mut stacks = Vec::new();
        let indices = self.all.iter().map(|key| {
            stacks.push(CallStack { frames: code.plausible(records.stack(*key)?) });
            Some(stacks.len() - 1)
        });
        let indices = indices.collect();
        (stacks, indices)
    }
}

/// Where there is code.
pub struct Code(Vec<Range<u64>>);

impl Code {
    /// Of mappings now and before.
    pub fn of(now: &[Mapping], before: &[Mapping]) -> Self {
        let code = now.iter().chain(before).filter(|mapping| mapping.executable);
        let code: HashSet<Range<u64>> = code.map(|mapping| mapping.range.clone()).collect();
        Self(code.into_iter().collect())
    }

    /// The frames of a call stack up to the first that cannot be one.
    pub fn plausible(&self, mut frames: Vec<u64>) -> Vec<u64> {
        // Where a stack was taken at a function's very first instruction, the kernel has read the
        // caller as well. (No function calls two others, one below the other, by one instruction.)
        if frames.len() > 1 && frames[0] == frames[1] {
            frames.remove(0);
        }
        // A frame-pointer walk that meets code without them ends in words that are no code.
        let is_code = |frame: &u64| self.0.iter().any(|code| code.contains(frame));
        let end = frames.iter().skip(1).position(|frame| !is_code(frame));
        frames.truncate(end.map_or(frames.len(), |end| end + 1));
        frames
    }
}

/// Hashes keys that are hashes, or numbers of records: the standard library's way, which no
/// choice of keys makes slow, would take longer than all else that is done with a block.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_once() {
        let mut keys = Keys::default();
        let numbers = [0, 9, 1 << 40, 9, 0].map(|key| keys.number(key));
        assert_eq!(numbers, [None, Some(0), Some(1), Some(0), None]);
    }

    #[test]
    fn a_stack_ends_where_there_is_no_code() {
        let code = Code(vec![0x10..0x20, 0x40..0x50]);
        assert_eq!(code.plausible(vec![0x99, 0x11, 0x41, 0x30, 0x12]), [0x99, 0x11, 0x41]);
        assert_eq!(code.plausible(vec![0x11, 0x11, 0x12]), [0x11, 0x12]);
    }
}
