//! glibc's thread descriptors (nptl/descr.h, `struct pthread`): where the thread pointer leads.

use std::ops::Range;

use nix::unistd::Pid;

use super::pages::Memory;
use crate::snapshot::Blocks;
use crate::trace::read_word;

/// Size of glibc's thread descriptor, rounded up (`struct pthread`, nptl/descr.h; 2304 bytes in
/// glibc 2.36).
pub const DESCRIPTOR: u64 = 0xa00;

/// A thread's descriptor.
pub struct Descriptor {
    /// Its address, which is the thread pointer.
    pub address: u64,
    /// When the thread was created, by the clock of the blocks; none when it has finished.
    pub created: Option<u64>,
}

/// Blanks what threads were started with. glibc keeps the argument in the descriptor, behind the
/// function, for ever (nptl/descr.h, `start_routine` and `arg`); std frees it at once, and the
/// next block often gets its address. Of a thread that runs, or has yet to begin, the argument
/// stays a reference unless that is what happened: the block is younger than the thread.
pub fn forget_arguments(
    descriptors: &[Descriptor],
    code: &[Range<u64>],
    memory: &mut Memory,
    blocks: &Blocks,
) {
    for descriptor in descriptors {
        let Some(start) = descriptor.address.checked_sub(memory.address) else { continue };
        let end = (start + DESCRIPTOR).min(memory.bytes.len() as u64);
        let Some(bytes) = memory.bytes.get_mut(start as usize..end as usize) else { continue };
        let value = |word: &[u8]| u64::from_ne_bytes(word.try_into().expect("chunks of 8"));
        let mut words = bytes.chunks_exact_mut(8);
        while let Some(word) = words.next() {
            let function = value(word);
            if code.iter().any(|code| code.contains(&function))
                && let Some(argument) = words.next()
                && descriptor.created.is_none_or(|created| {
                    blocks.containing(value(argument)).is_some_and(|block| blocks.time(block) > created)
                })
            {
                argument.fill(0);
            }
        }
    }
}

/// A word of a thread descriptor, if `pointer` is one.
pub fn thread_word(reader: Pid, pointer: u64, offset: u64) -> Option<u64> {
    if pointer == 0 || read_word(reader, pointer)? != pointer || read_word(reader, pointer + 16)? != pointer {
        return None;
    }
    read_word(reader, pointer + offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Block;

    /// A descriptor behind two words of other memory: a function, what it was started with, a word.
    fn started_with(argument: u64, created: Option<u64>) -> u64 {
        let descriptors = [Descriptor { address: 0x9010, created }];
        let code = [0x4000..0x5000, 0x6000..0x7000];
        let block =
            |address, time| Block { address, size: 24, stack: None, in_window: true, runtime: false, time };
        let words = [0x4100_u64, 1, 0x9010, 2, 0x4200, argument, 4];
        let bytes = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let mut memory = Memory { address: 0x9000, bytes };
        let blocks = [block(0x100, 50), block(0x200, 150)].into_iter().collect();
        forget_arguments(&descriptors, &code, &mut memory, &blocks);
        let left: Vec<u64> =
            memory.bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        // Nothing else changes.
        assert_eq!((&left[..5], left[6]), (&words[..5], 4));
        left[5]
    }

    #[test]
    fn what_a_thread_was_started_with_is_forgotten() {
        // Finished.
        assert_eq!(started_with(0x100, None), 0);
        // Created before the block at this address was allocated: it is not what it was started with.
        assert_eq!(started_with(0x208, Some(100)), 0);
    }

    #[test]
    fn a_thread_that_has_not_begun_keeps_what_it_is_started_with() {
        assert_eq!(started_with(0x100, Some(100)), 0x100);
        // No block: nothing to forget.
        assert_eq!(started_with(0x118, Some(100)), 0x118);
    }
}
