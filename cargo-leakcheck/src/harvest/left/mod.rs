//! What a test leaves running or waiting when its process ends: processes, threads, timers.

mod children;
mod look;
mod threads;
mod timers;

use std::time::Instant;

use camino::Utf8Path;
use leakcheck_common::{file, process};
use leakcheck_preload::unwind::{Row, kind};
use nix::unistd::Pid;

use super::Threads;
use super::files::stack;
use super::lost::lost;
use super::places::Places;
use crate::model::{Left, LeftChild, LeftThread};
use crate::snapshot::Loss;
use crate::trace::{FileRecord, Process, ProcessRecord, Started, Steering};

pub use children::end as end_children;

/// What was found, but for the call stacks.
pub struct Found<'a> {
    left: Left<usize>,
    /// Where each of the children was started.
    children: Vec<Option<FileRecord>>,
    threads: Vec<threads::Found<'a>>,
}

impl<'a> Found<'a> {
    /// Looks for them, but not for timers where there are none. What was not seen is added to `losses`.
    pub fn of(
        steering: &Steering,
        process: &Process,
        threads: &'a Threads,
        counters: &ProcessRecord,
        no_timers: bool,
        losses: &mut Vec<Loss>,
    ) -> Self {
        losses.extend(lost(counters[process::LOST_STARTED], "start", |count| Loss::Started { count }));
        let started = started(steering).filter(|_| counters[process::STARTED] > 0);
        let (children, places) = children::of(steering, started, process.pid).into_iter().unzip();
        let timers = if no_timers { Vec::new() } else { timers::of(process.pid) };
        let left = Left { children, timers, ..Left::default() };
        let threads = threads::of(steering, started, process, threads);
        Self { left, children: places, threads }
    }

    /// Whether no call stack is needed.
    pub fn has_no_stacks(&self) -> bool {
        self.threads.is_empty() && self.children.iter().all(Option::is_none)
    }

    /// What was found, without call stacks.
    pub fn plain(self) -> Left<usize> {
        self.left
    }

    /// Says where everything was started, and where the threads are now; one may be in the recorder, which a process
    /// can have inside.
    pub fn describe(self, recorder: Option<&Utf8Path>, places: &mut Places<'_>) -> Left<usize> {
        let start = |place: &FileRecord, places: &mut Places<'_>| {
            let frames = started_at(place, &mut |address| places.row(address));
            places.add(frames)
        };
        let children = self.left.children.into_iter().zip(self.children).map(|(child, place)| {
            let stack = place.map(|place| start(&place, places));
            LeftChild { stack, ..child }
        });
        let children = children.collect();
        let threads = self.threads.into_iter().map(|thread| {
            let stack = thread.place.as_ref().map(|place| start(place, places));
            let now = thread.now(&mut |address| places.row(address));
            let now = now.map(|frames| places.without(recorder, frames)).map(|frames| places.add(frames));
            LeftThread { id: thread.id(), name: thread.name, stack, now }
        });
        Left { children, threads: threads.collect(), ..self.left }
    }
}

/// The call stack of the system call that has started a process or thread. `row` says how the frame at an
/// address is found.
fn started_at(place: &FileRecord, row: &mut impl FnMut(u64) -> Option<Row>) -> Vec<u64> {
    // glibc's `clone3` and `clone` do not describe themselves there, since it would be wrong for the new thread
    // (sysdeps/unix/sysv/linux/x86_64/clone3.S). They have pushed nothing.
    const LEAF: Row = Row { start: 0, cfa_offset: 1, kind: kind::RSP, rbp_at: 0 };
    let call = place[file::IP].wrapping_sub(1);
    stack::unwind(place, &mut |address| {
        let described = row(address).filter(|row| row.kind != kind::NONE);
        described.or((address == call).then_some(LEAF))
    })
}

/// Whether it is clear what processes a test leaves that began to end at `since`. It is asked again until it is;
/// `before` is for that.
pub fn is_settled(steering: &Steering, test: Pid, since: Instant, before: &mut bool) -> bool {
    children::are_settled(steering, account_of(steering, test), test, since, before)
}

/// The kernel side's account, if a test may have started something: to look into it takes long.
fn account_of(steering: &Steering, test: Pid) -> Option<&Started> {
    let nothing = steering.process(test).is_ok_and(|counters| counters[process::STARTED] == 0);
    started(steering).filter(|_| !nothing)
}

/// The kernel side's account, where there is one.
fn started(steering: &Steering) -> Option<&Started> {
    steering.kernel()?.started()?.as_ref().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_of_a_function_that_does_not_describe_its_system_call_is_found() {
        let mut place = [0; file::WORDS];
        (place[file::IP], place[file::SP], place[file::FP]) = (0x102, 0x1000, 77);
        // The return address, and the frame of a function of one word more: its caller.
        (place[file::COPIED], place[file::OUTER_FP]) = (3, 77);
        place[file::COPY..][..3].copy_from_slice(&[0x210, 9, 0x220]);
        let mut row = |address: u64| {
            let kind = if address >> 8 == 1 { kind::NONE } else { kind::RSP };
            Some(Row { start: 0, cfa_offset: 2, kind, rbp_at: 0 })
        };
        assert_eq!(started_at(&place, &mut row), [0x102, 0x210, 0x220]);
    }
}
