//! Processes that a test or its descendants have started.
//!
//! The kernel side knows them wherever they have gone: to another parent, session or namespace. Without it,
//! they are looked for from parent to child.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::look::{self, Look, State};
use super::{account_of, started};
use crate::model::LeftChild;
use crate::sys::Owner;
use crate::trace::{FileRecord, Started, Steering, Task};

/// How long a process that is ending may take until it is a zombie, or gone; and how long descendants that are
/// no children of the test may go on: one that ends when the process that it worked for does ends a little
/// later than that one.
const PATIENCE: Duration = Duration::from_millis(250);
/// Characters of a command line.
const LONGEST: usize = 200;
/// How often it is looked for what descendants start while they are ended.
const ROUNDS: usize = 1000;

type Placed = (LeftChild<usize>, Option<FileRecord>);

/// Whether it is clear what a test that began to end at `since` leaves: whatever is about to end has ended. It must
/// be so twice, `before` says whether it was: between taking the signal that kills it and beginning to end a
/// process looks as any other.
pub fn are_settled(
    steering: &Steering,
    account: Option<&Started>,
    test: Pid,
    since: Instant,
    before: &mut bool,
) -> bool {
    let may_change = |look: &Look| match look.state {
        State::Ending => look.parent == test,
        State::Running => look.parent != test,
        // What the tracer has not yet waited for is its parent's only after that.
        State::Zombie => look.is_ours,
    };
    if since.elapsed() > PATIENCE {
        return true;
    }
    let children = list(steering, account, test);
    if children.is_empty() {
        return true;
    }
    let settled = !children.into_iter().filter_map(|child| Look::at(child.id)).any(|look| may_change(&look));
    settled & std::mem::replace(before, settled)
}

/// Those that are left, sorted by their ids, and where each was started.
pub fn of(steering: &Steering, account: Option<&Started>, test: Pid) -> Vec<Placed> {
    let seen = list(steering, account, test);
    let seen: Vec<(Look, Child)> =
        seen.into_iter().filter_map(|child| Some((Look::at(child.id)?, child))).collect();
    // What has ended, or is about to, is its parent's matter, and nobody's if that does not want to know.
    let ended = seen.iter().any(|(look, _)| look.state != State::Running);
    let waits = ended && !look::ignores_children(test);
    let is_left = |look: &Look| look.state == State::Running || (waits && look.parent == test);
    let left = seen.into_iter().filter(|(look, _)| is_left(look));
    left.filter_map(|(look, child)| describe(look, child, account)).collect()
}

/// A process, and how the kernel side knows it.
struct Child {
    id: Pid,
    task: Option<Task>,
}

fn list(steering: &Steering, account: Option<&Started>, test: Pid) -> Vec<Child> {
    if started(steering).is_some() {
        let tasks = account.into_iter().flat_map(|account| account.of(test));
        let processes = tasks.filter(|task| !task.is_thread);
        let mut children: Vec<_> = processes.map(|task| Child { id: task.id, task: Some(task) }).collect();
        children.sort_unstable_by_key(|child| child.id);
        return children;
    }
    let mut found = BTreeSet::new();
    let mut parents = vec![test];
    while let Some(parent) = parents.pop() {
        let children = children_of(parent);
        parents.extend(children.iter().filter(|child| found.insert(**child)));
    }
    found.into_iter().map(|id| Child { id, task: None }).collect()
}

/// The children of all threads of a process.
fn children_of(parent: Pid) -> Vec<Pid> {
    let children = super::super::threads_of(parent).into_iter().flat_map(|thread| {
        let path = format!("/proc/{parent}/task/{thread}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let ids = text.split_whitespace().filter_map(|id| id.parse().ok());
        ids.map(Pid::from_raw).collect::<Vec<_>>()
    });
    children.collect()
}

fn describe(look: Look, child: Child, account: Option<&Started>) -> Option<Placed> {
    let command = command(child.id).unwrap_or(look.name);
    let place = match (account, child.task) {
        // Without its record the id is somebody else's.
        (Some(account), Some(task)) => Some(account.record(task)?),
        _ => None,
    };
    let left = LeftChild {
        id: child.id.as_raw().cast_unsigned(),
        parent: look.parent.as_raw().cast_unsigned(),
        command,
        is_zombie: look.state != State::Running,
        stack: None,
    };
    Some((left, place))
}

/// The arguments of a process; none of one that has no memory any more.
fn command(id: Pid) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let text = words.join(" ");
    match text.char_indices().nth(LONGEST) {
        _ if text.is_empty() => None,
        Some((end, _)) => Some(format!("{}\u{2026}", &text[..end])),
        None => Some(text),
    }
}

/// Ends the processes that a test and its descendants have started, wherever they are. It must not be able to start
/// others itself.
pub fn end(steering: &Steering, test: Pid) {
    let mut ended = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut more = false;
        for child in list(steering, account_of(steering, test), test) {
            // One that was killed starts no others, and its id is its own until it has been waited for.
            if !ended.contains(&child.id) && end_one(steering, &child) {
                more |= ended.insert(child.id);
            }
        }
        if !more {
            return;
        }
    }
}

/// Whether it has been ended. Only who still is known behind the descriptor is meant.
fn end_one(steering: &Steering, child: &Child) -> bool {
    let Ok(owner) = Owner::of(child.id) else { return false };
    let is_meant = match (started(steering), child.task) {
        (Some(account), Some(task)) => account.record(task).is_some(),
        // It has a parent that was just seen to be in the test's family, and no other process can be that while
        // the parent has not waited for it.
        _ => Look::at(child.id).is_some_and(|look| look.state != State::Zombie),
    };
    is_meant && owner.end().is_ok()
}
