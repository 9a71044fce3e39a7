//! Which memory of a process refers to blocks by itself: the root set.
//!
//! Roots are registers, live stacks from the stack pointer up (with the thread-local storage and
//! the descriptor that glibc puts at a stack's upper end), static data, and other writable mappings.
//! No roots are the heap (blocks refer to each other by their own contents, and free memory holds
//! stale words), dead parts of stacks, and the stacks of finished threads, which glibc keeps; of
//! those only the descriptor is one.
//!
//! Where another allocator than glibc's is in the process, nobody knows which anonymous memory is its own, with
//! free blocks and with tables that have the addresses of all blocks. There anonymous memory is no root, except
//! for stacks, and for static data as the modules declare it.

use std::ops::Range;

use nix::unistd::Pid;

use super::allocator::{Addresses, allocator_parts};
use super::descriptor::{DESCRIPTOR, Descriptor, forget_arguments, thread_word};
use super::pages::{Pages, copy, written};
use super::statics::Statics;
use super::{Threads, arena, proc};
use crate::references::{Finder, Memory, Which};
use crate::snapshot::{Blocks, Loss, Mapping, Part, Root, RootKind, Storage};
use crate::trace::{Heap, Process};

const PAGE: u64 = 4096;
/// The x86-64 ABI lets a function use this much below its stack pointer.
const RED_ZONE: u64 = 128;

/// The root set of a process.
pub struct Layout {
    roots: Vec<(RootKind, Range<u64>, String)>,
    registers: Vec<(RootKind, Vec<u8>)>,
    libc: Option<String>,
    descriptors: Vec<Descriptor>,
    code: Vec<Range<u64>>,
    /// Thread-local storage of the threads that run.
    pub storage: Vec<Storage>,
}

impl Layout {
    /// Finds the root set; `recorders` is memory that is none of the program's.
    pub fn of(
        process: &Process,
        reader: Pid,
        threads: &Threads,
        mappings: &[Mapping],
        addresses: &Addresses<'_>,
        recorders: Vec<Range<u64>>,
    ) -> Self {
        let mut taken = recorders.clone();
        let libc = process.libraries.as_ref().map(|libraries| libraries.libc.path.to_string());
        let code = mappings.iter().filter(|mapping| mapping.executable).map(|mapping| mapping.range.clone());
        let running = threads
            .held
            .iter()
            .map(|thread| Descriptor { address: thread.registers.fs_base, created: Some(thread.created) });
        let finished = threads.finished.iter();
        let finished = finished.map(|&address| Descriptor { address, created: None });
        let mut layout = Self {
            roots: Vec::new(),
            registers: Vec::new(),
            libc,
            descriptors: running.chain(finished).collect(),
            code: code.collect(),
            storage: Vec::new(),
        };
        let statics = Statics::of(reader, mappings);
        let main_stack = mappings.iter().find(|mapping| mapping.path == "[stack]");
        for thread in &threads.held {
            let kind = if thread.id == process.pid || thread.registers.orig_rax == EXIT_GROUP {
                RootKind::Main
            } else {
                let name = proc::thread_name(process.pid, thread.id);
                RootKind::Thread { id: thread.id.as_raw().cast_unsigned(), name }
            };
            // Whatever `exit` and the handlers it ran have left on the stack is nobody's any more.
            let (pointer, registers) = match thread.exit {
                Some([pointer, saved @ ..]) => (pointer, saved.to_vec()),
                // Nothing comes behind these calls that could use what else is in registers.
                None if [EXIT, EXIT_GROUP].contains(&thread.registers.orig_rax) => {
                    (thread.registers.rsp, saved_words(&thread.registers).to_vec())
                }
                None => (thread.registers.rsp.saturating_sub(RED_ZONE), register_words(&thread.registers)),
            };
            let range = statics.storage(thread.registers.fs_base);
            let descriptor = range.end..range.end.saturating_add(DESCRIPTOR);
            let name = (thread.id != process.pid).then(|| proc::thread_name(process.pid, thread.id));
            layout.storage.push(Storage { range, descriptor, thread: name });
            let registers = registers.into_iter().flat_map(u64::to_ne_bytes).collect();
            layout.registers.push((kind.clone(), registers));
            let Some(stack) = stack_of(mappings, thread.registers.rsp, thread.registers.fs_base) else {
                continue;
            };
            let live = pointer.max(stack.start)..stack.end;
            for part in subtract(&live, overlaps(&live, &recorders)) {
                layout.roots.push((kind.clone(), part, "stack".into()));
            }
            // A stack of the program's own making (for signals, for coroutines) lies among other memory.
            let is_main = main_stack.is_some_and(|main| main.range == stack);
            if is_main || stack.contains(&thread.registers.fs_base) {
                taken.push(stack);
            }
        }
        for &pointer in &threads.finished {
            // The descriptor begins with its own address, twice; memory that was reused does not.
            if thread_word(reader, pointer, 0) != Some(pointer)
                || taken.iter().any(|range| range.contains(&pointer))
            {
                continue;
            }
            let Some(stack) = stack_of(mappings, pointer, pointer) else { continue };
            let descriptor = pointer..(pointer + DESCRIPTOR).min(stack.end);
            layout.roots.push((RootKind::FinishedThread, descriptor, "thread descriptor".into()));
            taken.push(stack);
        }
        let knows_heap = process.libraries.as_ref().is_none_or(|libraries| libraries.heap == Heap::Glibc);
        // Of the first thread; others have it on their stacks. That of a static executable is in the heap.
        let storage: Vec<_> =
            threads.held.iter().map(|thread| statics.of_thread(thread.registers.fs_base)).collect();
        for mapping in mappings {
            if !may_refer(mapping) {
                continue;
            }
            let is_heap = mapping.path == "[heap]";
            let mut taken = overlaps(&mapping.range, &taken);
            if is_heap || !knows_heap && is_anonymous(mapping) {
                let mut kept = overlaps(&mapping.range, &storage);
                if !is_heap {
                    kept.extend(overlaps(&mapping.range, &statics.data));
                }
                taken.extend(subtract(&mapping.range, kept));
            } else if knows_heap {
                taken.extend(allocator_parts(reader, mapping, addresses));
            }
            if !knows_heap {
                // An arena may be a static variable.
                taken.extend(overlaps(&mapping.range, addresses.ranges));
            }
            for rest in subtract(&mapping.range, taken) {
                let parts = if mapping.writable { vec![rest] } else { written(reader, &rest) };
                let roots = parts.into_iter().map(|part| (RootKind::Static, part, mapping.path.clone()));
                layout.roots.extend(roots);
            }
        }
        layout
    }

    /// Reads what the root set refers to; also what of it could not be read.
    pub fn read_roots(&self, reader: Pid, blocks: &Blocks, finder: &Finder<'_>) -> (Vec<Root>, Vec<Loss>) {
        let registers = self.registers.iter().map(|(kind, bytes)| {
            let mut memory = Memory::new(finder, Which::First);
            memory.read(0, bytes);
            let (references, places) = memory.finish();
            Root { kind: kind.clone(), part: Part::Registers, references, places }
        });
        let mut roots: Vec<Root> = registers.collect();
        let mut unread = Vec::new();
        let mut pages = Pages::of(reader);
        for (kind, range, name) in &self.roots {
            let which = if *kind == RootKind::Static { Which::First } else { Which::Last };
            let mut memory = Memory::new(finder, which);
            let is_libc = self.libc.as_deref() == Some(name);
            let missing = if is_libc || *kind != RootKind::Static {
                let (copies, missing) = copy(reader, range);
                for mut copy in copies {
                    if is_libc {
                        arena::blank(copy.address, &mut copy.bytes);
                    }
                    if *kind != RootKind::Static {
                        forget_arguments(&self.descriptors, &self.code, &mut copy, blocks);
                    }
                    memory.read(copy.address, &copy.bytes);
                }
                missing
            } else {
                pages.read(range, |address, bytes| memory.read(address, bytes))
            };
            let part = if *kind == RootKind::Static { Part::Data } else { Part::Stack };
            let (references, places) = memory.finish();
            roots.push(Root { kind: kind.clone(), part, references, places });
            // Device memory cannot be read by anyone but its owner, and holds no references.
            if let Some(missing) = missing
                && !name.starts_with("/dev/")
                && !name.starts_with("anon_inode:")
            {
                let bytes = missing.end - missing.start;
                unread.push(Loss::Memory { address: missing.start, bytes, name: name.clone() });
            }
        }
        (roots, unread)
    }
}

const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;

fn register_words(r: &nix::libc::user_regs_struct) -> Vec<u64> {
    let scratch = [r.rax, r.rcx, r.rdx, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11];
    [&scratch[..], &saved_words(r)].concat()
}

/// The registers that a function must preserve.
fn saved_words(r: &nix::libc::user_regs_struct) -> [u64; 6] {
    [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15]
}

/// The stack that contains `inside`: from the start of its mapping (a guard is below) to the end of
/// the page that the descriptor at `pointer` begins in, if that is in the same mapping: what lies
/// behind it in the mapping is other memory that happens to be adjacent. A stack that has overflowed ends
/// in its guard, and begins behind that.
fn stack_of(mappings: &[Mapping], inside: u64, pointer: u64) -> Option<Range<u64>> {
    let mut mapping = mappings.iter().find(|mapping| mapping.range.contains(&inside))?;
    if !mapping.readable {
        mapping = mappings.iter().find(|next| next.range.start == mapping.range.end)?;
    }
    if mapping.path != "[stack]" && pointer >= inside && mapping.range.contains(&pointer) {
        // The descriptor is smaller than a page, and the last thing in it.
        let end = (pointer + 1).next_multiple_of(PAGE).min(mapping.range.end);
        return Some(mapping.range.start..end);
    }
    Some(mapping.range.clone())
}

/// Whether a mapping can hold references: it is writable, or may have been before the program
/// protected it.
fn may_refer(mapping: &Mapping) -> bool {
    let special = ["[vvar]", "[vvar_vclock]", "[vdso]", "[vsyscall]"];
    !special.contains(&mapping.path.as_str()) && (mapping.writable || !mapping.executable)
}

/// Whether it is memory without a file.
fn is_anonymous(mapping: &Mapping) -> bool {
    mapping.path.is_empty() || mapping.path.starts_with("[anon")
}

/// What two ranges have in common.
pub fn overlap(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (both.start < both.end).then_some(both)
}

/// What others have in common with one range.
fn overlaps(one: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    others.iter().filter_map(|other| overlap(one, other)).collect()
}

/// What is left of `whole` without `parts`.
fn subtract(whole: &Range<u64>, mut parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    parts.sort_unstable_by_key(|part| part.start);
    let mut left = Vec::new();
    let mut start = whole.start;
    for part in parts {
        if part.start > start {
            left.push(start..part.start);
        }
        start = start.max(part.end);
    }
    if start < whole.end {
        left.push(start..whole.end);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_out() {
        assert_eq!(subtract(&(0..10), vec![]).as_slice(), std::slice::from_ref(&(0..10)));
        assert_eq!(subtract(&(0..10), vec![6..8, 2..4]), [0..2, 4..6, 8..10]);
        assert_eq!(subtract(&(0..10), vec![0..5, 3..10]), []);
    }

    #[test]
    fn a_stack_ends_with_its_descriptor() {
        let mapping = |range: Range<u64>, path: &str| Mapping {
            range,
            offset: 0,
            readable: true,
            writable: true,
            executable: false,
            path: path.into(),
        };
        // The mapping goes on behind the stack: the kernel merges adjacent mappings.
        let guard = Mapping { readable: false, writable: false, ..mapping(0xf000..0x10000, "") };
        let mappings = [guard, mapping(0x10000..0x30000, ""), mapping(0x40000..0x50000, "[stack]")];
        assert_eq!(stack_of(&mappings, 0x1e000, 0x1f5c0), Some(0x10000..0x20000));
        assert_eq!(stack_of(&mappings, 0xff00, 0x1f5c0), Some(0x10000..0x20000));
        assert_eq!(stack_of(&mappings, 0x4f000, 0x12340), Some(0x40000..0x50000));
        assert_eq!(stack_of(&mappings, 0x60000, 0x12340), None);
    }
}
