//! What the traced processes report: new threads, programs executed, exits.

use std::time::Instant;

use nix::sys::ptrace::{getevent, getregs};
use nix::unistd::Pid;

use super::{Follower, end_group, end_process, leave, proceed};
use crate::harvest;
use crate::model::{Outcome, Window};
use crate::snapshot::Loss;
use crate::sys::{self, Stop};
use crate::trace::entry;
use crate::trace::libraries::Libraries;
use crate::trace::process::{Phase, Thread, Turn};
use crate::trace::reused;

const SYS_EXIT: u64 = 60;

impl Follower<'_> {
    /// Handles one change of state of a child.
    pub(super) fn handle(&mut self, pid: Pid, stop: Stop) {
        let Some(&owner) = self.owners.get(&pid) else {
            if self.templates.contains(pid) {
                return self.handle_template(pid, stop);
            }
            match self.others.get(&pid) {
                Some(&turn) => self.handle_other(pid, turn, stop),
                None => self.handle_unknown(pid, stop),
            }
            return;
        };
        if pid == owner && self.could_not_begin(pid, stop) {
            return self.abandon(pid, "a process that was forked could not be begun".into());
        }
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => self.ended(pid, owner, stop),
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_CLONE, _) => self.cloned(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK, _) => {
                self.forked(pid, self.processes[&owner].turn);
            }
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => self.exiting(pid, owner),
            // The first stop of a new thread, or a group-stop.
            Stop::Event(_, libc::SIGTRAP) | Stop::Event(libc::PTRACE_EVENT_STOP, 0) => self.begun(pid, owner),
            Stop::Event(..) => drop(sys::listen(pid)),
            Stop::Signal(signal) => {
                let process = self.processes.get_mut(&owner).expect("an owner is a process");
                let forward = match signal {
                    libc::SIGTRAP if pid == owner && entry::trapped(self.steering, process) => 0,
                    libc::SIGTRAP if self.steering.trapped(process, pid) => 0,
                    libc::SIGSTOP if sys::sent_by_kernel(pid) => {
                        self.steering.stopped(process, pid);
                        0
                    }
                    signal => signal,
                };
                proceed(pid, forward);
            }
        }
    }

    fn cloned(&mut self, parent: Pid, owner: Pid) {
        let child = getevent(parent).ok().map(|child| Pid::from_raw(child as i32));
        let Some(child) = child.filter(|child| sys::is_thread_of(owner, *child)) else {
            self.forked(parent, self.processes[&owner].turn);
            return;
        };
        self.adopt(child, owner, Some(parent));
        if self.take_early(child) {
            self.begun(child, owner);
        }
        proceed(parent, 0);
    }

    pub(super) fn adopt(&mut self, thread: Pid, owner: Pid, parent: Option<Pid>) {
        self.owners.insert(thread, owner);
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        process.threads.insert(thread, Thread::new());
        let tracing = process.libraries.is_some() && !matches!(process.phase, Phase::Done);
        if let Some(parent) = parent
            && tracing
            && self.steering.add_thread(parent, thread).is_err()
        {
            match process.losses.iter_mut().find_map(|loss| match loss {
                Loss::Threads { count } => Some(count),
                _ => None,
            }) {
                Some(count) => *count += 1,
                None => process.losses.push(Loss::Threads { count: 1 }),
            }
        }
    }

    /// A thread stops before its first instruction.
    pub(super) fn begun(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if matches!(process.phase, Phase::Forked { .. }) {
            return self.begin_forked(pid);
        }
        if let Some(thread) = process.threads.get_mut(&pid)
            && thread.pointer.is_none()
            && let Ok(registers) = getregs(pid)
        {
            thread.pointer = Some(registers.fs_base);
            // Only who has ended has left one.
            if process.libraries.is_some() && !process.finished.is_empty() {
                reused::clear(pid, registers.rsp, registers.fs_base);
            }
        }
        self.steering.arm(process, pid);
        proceed(pid, 0);
    }

    pub(super) fn executed(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if !matches!(process.phase, Phase::Held) {
            // Its memory is gone, and with it everything that was recorded.
            if !process.losses.contains(&Loss::Exec) {
                process.losses.push(Loss::Exec);
            }
            self.forget(owner);
        } else if process.libraries.is_some() {
            process.threads.insert(pid, Thread::new());
            process.phase = Phase::Running;
            // The window of a child begins at its entry point, where a ledger can be told of it; that of a static
            // executable where its C library is ready.
            let is = |what: fn(&Libraries) -> bool| process.libraries.as_deref().is_some_and(what);
            let (is_static, layers) = (is(Libraries::is_static), is(|libraries| libraries.layers));
            let in_window = process.window == Window::Process && process.child.is_none() && !is_static;
            let ready = self.steering.add_process(pid, in_window, layers).and_then(|()| {
                if process.repeated.is_some() {
                    self.steering.stop_in_body(pid)?;
                }
                if process.wanted.peak_stacks && process.ledger.is_none() {
                    self.steering.count_by_stack(pid)?;
                }
                entry::arm(process)
            });
            if let Err(reason) = ready {
                process.refused(reason);
            }
        } else {
            process.phase = Phase::Done;
        }
        proceed(pid, 0);
    }

    /// A thread has reached its exit: alone, or with its whole process.
    pub(super) fn exiting(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        let Ok(registers) = getregs(pid) else { return };
        if matches!(process.phase, Phase::Done | Phase::Held | Phase::Forked { .. })
            || process.libraries.is_none()
        {
            leave(pid);
            return;
        }
        let alone = registers.orig_rax == SYS_EXIT && process.threads.len() > 1;
        if alone && !matches!(process.phase, Phase::Dying) {
            process.finished.push(registers.fs_base);
            process.threads.remove(&pid);
            self.steering.remove_thread(pid);
            leave(pid);
            return;
        }
        process.phase = Phase::Dying;
        process.threads.entry(pid).or_insert_with(Thread::new).at_exit = Some(registers);
        // `run` looks whether all are there, once for all threads that have come by then.
    }

    /// Looks at a process once all of its threads are kept at their exits, and lets them go.
    pub(super) fn harvest_if_complete(&mut self, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if !matches!(process.phase, Phase::Dying) {
            return;
        }
        // A thread that was killed while it was being stopped is gone without a word, and a leader stays
        // a zombie, unreported, until the others have gone. Its stack is looked at as any other memory.
        let gone = process
            .threads
            .iter()
            .filter(|(id, thread)| thread.at_exit.is_none() && harvest::is_zombie(owner, **id));
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            let thread = process.threads.remove(&id);
            process.finished.extend(thread.and_then(|thread| thread.pointer));
        }
        // A thread that executes a program has the others killed and waits for them.
        let waiting = process.threads.iter().filter(|(_, thread)| thread.at_exit.is_none());
        if waiting.into_iter().any(|(id, _)| harvest::is_executing(owner, *id)) {
            process.phase = Phase::Running;
            for (id, thread) in &mut process.threads {
                if thread.at_exit.take().is_some() {
                    leave(*id);
                }
            }
            return;
        }
        let is_known =
            |thread: &Pid| process.threads.contains_key(thread) || harvest::is_zombie(owner, *thread);
        let complete = process.threads.values().all(|thread| thread.at_exit.is_some())
            && (harvest::has_no_others(owner, process.threads.len())
                || harvest::threads_of(owner).iter().all(is_known));
        if !complete {
            return;
        }
        let since = *process.exited.get_or_insert_with(Instant::now);
        if process.wanted.left && !harvest::is_settled(self.steering, owner, since, &mut process.settled) {
            return;
        }
        self.steering.ending(process);
        process.snapshot = Some(harvest::take(self.steering, process));
        if process.wanted.left {
            harvest::end_children(self.steering, owner);
        }
        let threads: Vec<Pid> = process.threads.keys().copied().collect();
        self.forget(owner);
        for thread in threads {
            leave(thread);
        }
    }

    /// Removes what the kernel side has of a process.
    fn forget(&mut self, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        process.phase = Phase::Done;
        for thread in process.threads.keys() {
            self.steering.remove_thread(*thread);
        }
        self.steering.remove_process(owner);
    }

    fn ended(&mut self, pid: Pid, owner: Pid, stop: Stop) {
        self.owners.remove(&pid);
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        let thread = process.threads.remove(&pid);
        if pid != owner {
            // It was alone at its exit when its process was ended, and did not wait for us.
            let exited = thread.filter(|thread| thread.at_exit.is_none());
            process.finished.extend(exited.and_then(|thread| thread.pointer));
            return;
        }
        let was_held = matches!(process.phase, Phase::Held);
        if !matches!(process.phase, Phase::Done) {
            self.forget(owner);
        }
        let process = self.processes.remove(&owner).expect("it was just there");
        self.owners.retain(|_, other| *other != owner);
        let turn = process.turn;
        if let Some(template) = process.template
            && self.forked_ended(turn, template)
        {
            return;
        }
        let test = self.tests.get_mut(&turn).expect("it lasts as long as its processes");
        if let Some(name) = process.child.clone() {
            test.add(name, process);
        } else {
            let outcome = match stop {
                _ if test.timed_out => Outcome::TimedOut,
                Stop::Exited(_) if was_held => {
                    let reason = test.held.failure();
                    let reason = reason.map_or_else(|| "it ended early".into(), |error| error.to_string());
                    Outcome::NotStarted { reason }
                }
                Stop::Exited(0) => Outcome::Passed,
                Stop::Exited(code) => Outcome::Failed { code },
                Stop::Signalled(signal) => Outcome::Signalled { signal },
                Stop::Signal(_) | Stop::Event(..) => unreachable!("only ends come here"),
            };
            if process.wanted.left && process.snapshot.is_none() {
                harvest::end_children(self.steering, owner);
            }
            test.end(process, outcome);
            // What the test has started and left in its group ends with it, and so do its children that are
            // followed.
            end_group(owner);
            let children = self.processes.values().filter(|process| process.turn == turn);
            for child in children {
                end_process(child.pid);
            }
        }
        self.finish_if_over(turn);
        self.look_for_orphans(turn);
    }

    /// A test is over when its own process has ended, and then its children.
    fn finish_if_over(&mut self, turn: Turn) {
        if self.tests[&turn].has_ended() && self.processes.values().all(|process| process.turn != turn) {
            let test = self.tests.remove(&turn).expect("just looked at");
            self.finished(test.finish(self.interrupted));
        }
    }
}
