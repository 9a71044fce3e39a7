//! What tests start: children that execute the workspace's programs, which are followed; all others,
//! which are traced no further than to what they start and execute; and what is not known yet.

use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use nix::sys::ptrace::getevent;
use nix::unistd::Pid;

use super::twice::Why;
use super::{Follower, end_process, leave, proceed};
use crate::harvest;
use crate::model::Window;
use crate::sys::{self, Stop};
use crate::trace::process::{Process, Turn, Wanted};

/// How long it is tried to end what is left.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);
/// Characters of a child's name.
const LONGEST_NAME: usize = 200;

impl Follower<'_> {
    /// A thread of a descendant that is not followed. Whatever happens to it happens as without us.
    pub(super) fn handle_other(&mut self, pid: Pid, turn: Turn, stop: Stop) {
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => {
                self.others.remove(&pid);
                self.look_for_orphans(turn);
            }
            // One that was made by a plain `clone`, which is traced like the making of a thread.
            _ if !self.follows(turn) => {
                self.others.remove(&pid);
                release(pid);
            }
            Stop::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK, _) => {
                self.forked(pid, turn)
            }
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed_other(pid, turn),
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => leave(pid),
            // Its first stop, or the end of a group-stop.
            Stop::Event(_, libc::SIGTRAP) | Stop::Event(libc::PTRACE_EVENT_STOP, 0) => proceed(pid, 0),
            Stop::Event(..) => drop(sys::listen(pid)),
            Stop::Signal(signal) => proceed(pid, signal),
        }
    }

    /// Whether children of the test are followed; of one that is over they may be.
    fn follows(&self, turn: Turn) -> bool {
        let trace = self.tests.get(&turn).map_or(self.options, |test| test.test().trace(self.options));
        trace.follow_children
    }

    /// A child that is not known: one whose creation was not yet reported, or a process that a
    /// test has left to us.
    pub(super) fn handle_unknown(&mut self, pid: Pid, stop: Stop) {
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => self.early.retain(|early| *early != pid),
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => {
                // Killed before its creation was reported: its process is at its end as well.
                let owner = harvest::process_of(pid).filter(|owner| self.processes.contains_key(owner));
                match owner {
                    Some(owner) => {
                        self.adopt(pid, owner, None);
                        self.exiting(pid, owner);
                    }
                    None => leave(pid),
                }
            }
            _ => self.early.push(pid),
        }
    }

    /// A thread of a descendant has started a process, or a descendant that is not followed a thread.
    pub(super) fn forked(&mut self, parent: Pid, turn: Turn) {
        if let Ok(child) = getevent(parent) {
            let child = Pid::from_raw(child as i32);
            self.others.insert(child, turn);
            if self.take_early(child) {
                self.handle_other(child, turn, Stop::Event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP));
            }
        }
        proceed(parent, 0);
    }

    /// Whether it has stopped before its creation was reported.
    pub(super) fn take_early(&mut self, pid: Pid) -> bool {
        let place = self.early.iter().position(|early| *early == pid);
        place.map(|place| self.early.swap_remove(place)).is_some()
    }

    /// Lets processes start whose parents have been killed as they made them: nobody reports those.
    pub(super) fn look_for_orphans(&mut self, turn: Turn) {
        // What a template forks is a child of the tool's, too.
        if self.templates.are_forking() {
            return;
        }
        for pid in self.early.clone() {
            let parent = harvest::parent_of(pid);
            let is_known = |parent| self.owners.contains_key(&parent) || self.others.contains_key(&parent);
            if harvest::process_of(pid) == Some(pid) && !parent.is_some_and(is_known) {
                self.take_early(pid);
                self.others.insert(pid, turn);
                self.handle_other(pid, turn, Stop::Event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP));
            }
        }
    }

    /// A descendant has executed a program, and is followed from here on if that is one of the workspace's.
    fn executed_other(&mut self, pid: Pid, turn: Turn) {
        // Another thread than the first has gone on as the first.
        if let Ok(before) = getevent(pid)
            && before != i64::from(pid.as_raw())
        {
            self.others.remove(&Pid::from_raw(before as i32));
        }
        let test = self.tests.get(&turn).filter(|test| !test.has_ended());
        let coverage = test.and_then(|_| self.prepared.child(pid));
        let Some(coverage) = coverage else {
            proceed(pid, 0);
            return;
        };
        let trace = test.map_or(self.options, |test| test.test().trace(self.options));
        let wanted = test.map_or(Wanted::NOTHING, |test| Wanted::of(test.test(), trace));
        let again = test.and_then(|test| self.again.get(&test.number));
        let notes_frees = trace.free_stacks || again.is_some_and(|again| again.why == Why::Frees);
        // What it leaves running is the test's, as whose child it is looked for.
        // Its peak is another one than the test's.
        let wanted = Wanted { left: false, peak_stacks: false, ..wanted };
        let ledger = self.prepared.ledger(coverage);
        let process = Process::new(turn, pid, Window::Process, coverage, ledger, notes_frees);
        self.others.remove(&pid);
        self.owners.insert(pid, pid);
        self.processes.insert(pid, Process { child: Some(name(pid)), wanted, ..process });
        self.executed(pid, pid);
    }

    /// Ends descendants that are still traced, after the last test, and waits for templates that are being ended.
    pub(super) fn end_others(&mut self) {
        let start = Instant::now();
        let is_done = |it: &Self| it.others.is_empty() && it.templates.ending.is_empty();
        while !is_done(self) && start.elapsed() < PATIENCE {
            self.others.retain(|pid, _| end_process(*pid));
            while let Some((pid, stop)) = sys::wait_any() {
                self.handle(pid, stop);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Executable and arguments of a process.
fn name(pid: Pid) -> String {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(&arguments);
    let words = arguments.split(|byte| *byte == 0).skip(1);
    let words = std::iter::once(executable.as_os_str().as_bytes()).chain(words);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let name = words.join(" ");
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// Lets go of a process.
fn release(pid: Pid) {
    // One that was killed meanwhile is free already.
    let _ = nix::sys::ptrace::detach(pid, None);
}
