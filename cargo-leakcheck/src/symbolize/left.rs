//! What was left in the kernel, with frames for call stacks.

use std::collections::HashMap;

use super::{Symbolizer, THE_ALLOCATOR, family};
use crate::model::{
    Allocated, AtPeak, Descriptor, Frame, Grown, Growth, IpcObject, Left, LeftChild, LeftMapping, LeftThread,
};
use crate::snapshot::Snapshot;

/// Where std calls the closure of a thread.
const AT_WORK: &str = "__rust_begin_short_backtrace";
/// std's function that a thread starts with and ends in.
const THREAD: &str = "::thread_start";
/// Where std destroys what is thread-local.
const DESTRUCTORS: &str = "std::sys::thread_local::";

impl Symbolizer {
    /// What the process of a snapshot has left, with frames for the indices of call stacks. Threads that have
    /// done their work and are about to end are left out: nobody waits for the last steps of a scoped one. So are
    /// mappings that runtimes and allocators have made for themselves.
    pub fn explain_left(&mut self, snapshot: &Snapshot) -> Left<Vec<Frame>> {
        let mut by_address = HashMap::new();
        let mut explain = |stack: Option<usize>| {
            let stack = snapshot.stacks.get(stack?)?;
            Some(self.frames(&snapshot.mappings, stack, &mut by_address))
        };
        let Left { descriptors, ipc, children, threads, timers, totals, mappings, growth, at_peak } =
            snapshot.left.clone();
        let descriptors = descriptors.into_iter().map(|descriptor| {
            let Descriptor { numbers, kind, description, call, held_by, once, bytes, stack } = descriptor;
            Descriptor { numbers, kind, description, call, held_by, once, bytes, stack: explain(stack) }
        });
        let descriptors = descriptors.collect();
        let ipc = ipc.into_iter().map(|object| {
            let IpcObject { kind, name, bytes, call, stack } = object;
            IpcObject { kind, name, bytes, call, stack: explain(stack) }
        });
        let ipc = ipc.collect();
        let children = children.into_iter().map(|child| {
            let LeftChild { id, parent, command, is_zombie, stack } = child;
            LeftChild { id, parent, command, is_zombie, stack: explain(stack) }
        });
        let children = children.collect();
        let threads = threads.into_iter().map(|LeftThread { id, name, stack, now }| {
            let (stack, now) = (explain(stack), explain(now));
            LeftThread { id, name, stack, now }
        });
        let threads: Vec<_> = threads.collect();
        let mappings = mappings.into_iter().map(|mapping| {
            let LeftMapping { kind, description, call, count, bytes, address, once, stack } = mapping;
            let stack = explain(stack);
            LeftMapping { kind, description, call, count, bytes, address, once, stack }
        });
        let mappings: Vec<_> = mappings.collect();
        let growth = growth.map(|Growth { iterations, warmup, alive, descriptors, grown, ended }| {
            let grown =
                grown.into_iter().map(|Grown { bytes, stack }| Grown { bytes, stack: explain(stack) });
            Growth { iterations, warmup, alive, descriptors, grown: grown.collect(), ended }
        });
        let at_peak = at_peak.map(|AtPeak { stacks, rest, unknown }| {
            let stacks = stacks
                .into_iter()
                .map(|Allocated { measure, stack }| Allocated { measure, stack: explain(stack) });
            AtPeak { stacks: stacks.collect(), rest, unknown }
        });
        let is_users = |mapping: &LeftMapping<Vec<Frame>>| mapping.stack.as_deref().is_none_or(is_own_call);
        let mappings = mappings.into_iter().filter(is_users).collect();
        let is_left = |thread: &LeftThread<Vec<Frame>>| thread.now.as_deref().is_none_or(is_at_work);
        let threads = threads.into_iter().filter(is_left).collect();
        Left { descriptors, ipc, children, threads, timers, totals, mappings, growth, at_peak }
    }
}

/// Whether the caller of the C library's function that a stack begins in is neither the C library (for a
/// stack, an arena, a large block), nor std (for the signal stack of a thread, symbols for a backtrace), nor an
/// allocator.
fn is_own_call(stack: &[Frame]) -> bool {
    let function = stack.first().map(|frame| frame.address);
    let caller = stack.iter().find(|frame| Some(frame.address) != function);
    // An allocator that is linked in has functions of any name below those that programs call.
    caller.is_none_or(|frame| family(frame).is_none())
        && stack.iter().all(|frame| family(frame) != Some(THE_ALLOCATOR))
}

/// Whether a thread that is here is not about to end, or to begin.
fn is_at_work(stack: &[Frame]) -> bool {
    let has = |part: &str| {
        stack.iter().any(|frame| frame.function.as_ref().is_some_and(|function| function.contains(part)))
    };
    if has(AT_WORK) {
        return true;
    }
    // One that was not started by std is at work where anybody's code but the C library's runs.
    let outermost = stack.last().and_then(|frame| frame.module.as_deref());
    !has(THREAD) && !has(DESTRUCTORS) && stack.iter().any(|frame| frame.module.as_deref() != outermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(function, module): &(&str, &str)| Frame {
            function: (!function.is_empty()).then(|| (*function).to_owned()),
            module: Some((*module).to_owned()),
            ..Frame::default()
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn threads_of_std_are_at_work_in_their_closures() {
        let start = ("std::sys::thread::unix::Thread::new::thread_start", "test");
        let (libc, closure) =
            (("", "libc.so.6"), ("std::sys::backtrace::__rust_begin_short_backtrace", "test"));
        assert!(is_at_work(&stack(&[libc, ("own::f", "test"), closure, start, libc, libc])));
        assert!(!is_at_work(&stack(&[("alloc::sync::Arc::drop", "test"), start, libc, libc])));
        assert!(!is_at_work(&stack(&[start, libc, libc])));
        let destructors = ("std::sys::thread_local::destructors::list::run", "test");
        assert!(!is_at_work(&stack(&[("own::drop", "test"), destructors, libc, libc, libc])));
        assert!(!is_at_work(&stack(&[libc, libc, libc])));
    }

    #[test]
    fn what_runtimes_map_for_themselves_is_not_the_users() {
        let stack = |caller: (&str, &str)| {
            let mut frames = stack(&[("mmap64", "/usr/lib/libc.so.6"), caller, ("own::f", "test")]);
            frames.iter_mut().zip(1..).for_each(|(frame, address)| frame.address = address);
            frames
        };
        assert!(is_own_call(&stack(("own::map", "test"))));
        assert!(is_own_call(&stack(("memmap2::os::MmapInner::new", "test"))));
        assert!(is_own_call(&stack(("", "/opt/libvendor.so"))));
        assert!(!is_own_call(&stack(("pthread_create", "/usr/lib/libc.so.6"))));
        assert!(!is_own_call(&stack(("std::sys::pal::unix::stack_overflow::imp::get_stack", "test"))));
        assert!(!is_own_call(&stack(("_rjem_je_pages_map", "test"))));
        // What catches panics around every thread is no allocator.
        let mut thread = stack(("own::map", "test"));
        thread[2].function = Some("__rust_try".into());
        assert!(is_own_call(&thread));
        // A static function of an allocator that is linked in, below one that is known.
        let mut below = stack(("os_pages_map", "test"));
        assert!(is_own_call(&below));
        below[2].function = Some("_rjem_mallocx".into());
        assert!(!is_own_call(&below));
    }

    #[test]
    fn other_threads_are_at_work_outside_of_the_c_library() {
        let libc = ("", "libc.so.6");
        assert!(is_at_work(&stack(&[libc, ("work", "test"), libc, libc])));
        assert!(!is_at_work(&stack(&[libc])));
    }
}
