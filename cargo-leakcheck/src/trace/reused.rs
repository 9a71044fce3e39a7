//! Stacks that one thread has had and another gets: glibc keeps those of ended threads, with some pages of what they
//! have left there (nptl/pthread_create.c, `advise_stack_range`). A new thread writes over part of it only, and whatever
//! lies between its own words would seem to be held by it.

use nix::unistd::Pid;

use super::memory::{read, read_into, words, write};
use crate::harvest::DESCRIPTOR;

/// The x86-64 ABI leaves what is further below a stack pointer to signal handlers.
const RED_ZONE: u64 = 128;
const PAGE: usize = 4096;
/// `vm.mmap_min_addr` as kernels have it.
const LOWEST: u64 = 0x1_0000;
/// So many pages without a word in them are more than glibc keeps.
const EMPTY: u32 = 8;

/// Clears what is below the stack pointer of a thread that has not begun.
pub fn clear(thread: Pid, stack_pointer: u64, thread_pointer: u64) {
    let descriptor = read(thread, thread_pointer, DESCRIPTOR as usize);
    let Some(lowest) = stack(&descriptor, stack_pointer, thread_pointer) else { return };
    let mut end = stack_pointer - RED_ZONE;
    let mut page = [0; PAGE];
    let mut empty = 0;
    while empty < EMPTY && lowest < end {
        let start = ((end - 1) & !(PAGE as u64 - 1)).max(lowest);
        let bytes = &mut page[..(end - start) as usize];
        if read_into(thread, start, bytes) < bytes.len() {
            return;
        }
        if bytes.iter().all(|&byte| byte == 0) {
            empty += 1;
        } else {
            empty = 0;
            bytes.fill(0);
            write(thread, start, bytes);
        }
        end = start;
    }
}

/// Where the stack begins that a descriptor is at the upper end of, by what it says itself: an address, a size and the size of its
/// guard, side by side (`stackblock`, `stackblock_size` and `guardsize` in `struct pthread`, nptl/descr.h). None where it has no such words, as in other C libraries, or another stack is in use.
///
/// None either where there is no guard: so it is with a stack that the program has given the thread
/// (`pthread_attr_setstack`), and what is in there is the program's, below the stack pointer too.
fn stack(descriptor: &[u8], stack_pointer: u64, thread_pointer: u64) -> Option<u64> {
    let ends = thread_pointer.saturating_add(1)..=thread_pointer.saturating_add(2 * DESCRIPTOR);
    let is_stack = |&(start, size, guard): &(u64, u64, u64)| {
        // Nothing is at the lowest addresses: that would be a number, with one of the descriptor's own addresses behind it.
        if start < LOWEST || guard == 0 {
            return false;
        }
        let used = start.saturating_add(RED_ZONE)..thread_pointer;
        used.contains(&stack_pointer) && start.checked_add(size).is_some_and(|end| ends.contains(&end))
    };
    let words = words(descriptor);
    let mut triples = words.windows(3).map(|words| (words[0], words[1], words[2]));
    triples.find(is_stack).map(|(start, ..)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_says_where_its_stack_is() {
        let thread = 0x7f00_001f_f6c0;
        let found = |words: &[u64], stack_pointer| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            stack(&bytes, stack_pointer, thread)
        };
        let words = [thread, 0, thread, 0x7f00_0000_0000, 0x20_0000, 0x1000];
        assert_eq!(found(&words, 0x7f00_001f_f000), Some(0x7f00_0000_0000));
        // The program's own.
        assert_eq!(found(&[thread, 0, thread, 0x7f00_0000_0000, 0x20_0000, 0], 0x7f00_001f_f000), None);
        // The thread is on another stack, below it or above.
        assert_eq!(found(&words, 0x7e00_001f_f000), None);
        assert_eq!(found(&words, 0x7f00_001f_ff00), None);
        // Not a stack with this descriptor at its end, and no descriptor.
        assert_eq!(found(&[thread, 0, thread, 0x7f00_0000_0000, 0x80_0000, 0x1000], 0x7f00_001f_f000), None);
        assert_eq!(found(&[0, thread + 0x2e0, 1, thread + 0x2e0, 1], 0x7f00_001f_f000), None);
        assert_eq!(found(&[], 0x7f00_001f_f000), None);
        assert_eq!(found(&[0x7f00_0000_0000, u64::MAX, 0x1000], 0x7f00_001f_f000), None);
    }
}
