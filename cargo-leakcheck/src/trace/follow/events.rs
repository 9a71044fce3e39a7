//! What the traced processes report: new threads, programs executed, exits.

use nix::sys::ptrace::{getevent, getregs};
use nix::unistd::Pid;

use super::{Follower, end_group, finish, proceed};
use crate::harvest;
use crate::model::{Outcome, Stdio, Window};
use crate::snapshot::Loss;
use crate::sys::{self, Stop};
use crate::trace::process::{Phase, Thread};
use crate::trace::{Event, Traced, entry};

const SYS_EXIT: u64 = 60;

impl Follower<'_> {
    /// Handles one change of state of a child.
    pub(super) fn handle(&mut self, pid: Pid, stop: Stop) {
        let Some(&owner) = self.owners.get(&pid) else {
            self.handle_unknown(pid, stop);
            return;
        };
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => self.ended(pid, owner, stop),
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_CLONE, _) => self.cloned(pid, owner),
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => self.exiting(pid, owner),
            // The first stop of a new thread, or a group-stop.
            Stop::Event(_, libc::SIGTRAP) | Stop::Event(libc::PTRACE_EVENT_STOP, 0) => self.begun(pid, owner),
            Stop::Event(..) => drop(sys::listen(pid)),
            Stop::Signal(signal) => {
                let process = self.processes.get_mut(&owner).expect("an owner is a process");
                let forward = match signal {
                    libc::SIGTRAP if pid == owner && entry::trapped(self.steering, process) => 0,
                    libc::SIGTRAP if self.steering.trapped(process, pid) => 0,
                    // Our eBPF program stops a thread that is about to unload a module.
                    libc::SIGSTOP if sys::sent_by_kernel(pid) => {
                        self.steering.unloading(process, pid);
                        0
                    }
                    signal => signal,
                };
                proceed(pid, forward);
            }
        }
    }

    /// A child that is not known: a thread whose creation was not yet reported, or a process that a
    /// test has left to us.
    fn handle_unknown(&mut self, pid: Pid, stop: Stop) {
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => {
                self.early.retain(|early| *early != pid);
                self.strangers.remove(&pid);
            }
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => {
                // Killed before its creation was reported: its process is at its end as well.
                let owner = harvest::process_of(pid).filter(|owner| self.processes.contains_key(owner));
                match owner {
                    Some(owner) => {
                        self.adopt(pid, owner, None);
                        self.exiting(pid, owner);
                    }
                    None => proceed(pid, 0),
                }
            }
            _ if self.strangers.remove(&pid) => release(pid),
            _ => self.early.push(pid),
        }
    }

    fn cloned(&mut self, parent: Pid, owner: Pid) {
        if let Ok(child) = getevent(parent) {
            let child = Pid::from_raw(child as i32);
            let is_thread = harvest::process_of(child) == Some(owner);
            if is_thread {
                self.adopt(child, owner, Some(parent));
            }
            if let Some(place) = self.early.iter().position(|early| *early == child) {
                self.early.swap_remove(place);
                if is_thread { self.begun(child, owner) } else { release(child) }
            } else if !is_thread {
                self.strangers.insert(child);
            }
        }
        proceed(parent, 0);
    }

    fn adopt(&mut self, thread: Pid, owner: Pid, parent: Option<Pid>) {
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
    fn begun(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        if let Some(thread) = process.threads.get_mut(&pid) {
            thread.pointer = getregs(pid).ok().map(|registers| registers.fs_base);
        }
        self.steering.arm(process, pid);
        proceed(pid, 0);
    }

    fn executed(&mut self, pid: Pid, owner: Pid) {
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
            let in_window = process.test.window == Window::Process;
            let ready = self.steering.add_process(pid, in_window).and_then(|()| entry::arm(process));
            if let Err(reason) = ready {
                process.losses.push(Loss::NoCanary { reason });
            }
        } else {
            process.phase = Phase::Done;
        }
        proceed(pid, 0);
    }

    /// A thread has reached its exit: alone, or with its whole process.
    fn exiting(&mut self, pid: Pid, owner: Pid) {
        let process = self.processes.get_mut(&owner).expect("an owner is a process");
        let Ok(registers) = getregs(pid) else { return };
        if matches!(process.phase, Phase::Done | Phase::Held) || process.libraries.is_none() {
            proceed(pid, 0);
            return;
        }
        let alone = registers.orig_rax == SYS_EXIT && process.threads.len() > 1;
        if alone && !matches!(process.phase, Phase::Dying) {
            process.finished.push(registers.fs_base);
            process.threads.remove(&pid);
            self.steering.remove_thread(pid);
            proceed(pid, 0);
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
                    proceed(*id, 0);
                }
            }
            return;
        }
        let complete = process.threads.values().all(|thread| thread.at_exit.is_some())
            && harvest::threads_of(owner)
                .iter()
                .all(|thread| process.threads.contains_key(thread) || harvest::is_zombie(owner, *thread));
        if !complete {
            return;
        }
        self.steering.ending(process);
        process.snapshot = Some(harvest::take(self.steering, process));
        let threads: Vec<Pid> = process.threads.keys().copied().collect();
        self.forget(owner);
        for thread in threads {
            proceed(thread, 0);
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
        let outcome = match stop {
            _ if process.timed_out => Outcome::TimedOut,
            Stop::Exited(_) if matches!(process.phase, Phase::Held) => {
                let reason = process.held.failure();
                let reason = reason.map_or_else(|| "it ended early".into(), |error| error.to_string());
                Outcome::NotStarted { reason }
            }
            Stop::Exited(0) => Outcome::Passed,
            Stop::Exited(code) => Outcome::Failed { code },
            Stop::Signalled(signal) => Outcome::Signalled { signal },
            Stop::Signal(_) | Stop::Event(..) => unreachable!("only ends come here"),
        };
        // What the test has started and left in its group ends with it.
        end_group(owner);
        self.forget(owner);
        let process = self.processes.remove(&owner).expect("it was just there");
        self.owners.retain(|_, other| *other != owner);
        self.finished(finish(process, outcome, self.interrupted));
    }

    /// A test has ended. One that has freed a block twice is run once more, to see where it does so first:
    /// to note the call stacks of all frees takes time that other tests need not spend.
    fn finished(&mut self, traced: Traced) {
        let number = traced.number;
        let misses = |traced: &Traced| {
            let frees = &traced.ran.memory.bad_frees;
            frees.iter().any(|free| free.before.allocated.is_some() && free.before.freed.is_none())
        };
        let notes =
            |traced: &Traced| traced.ran.memory.bad_frees.iter().any(|free| free.before.freed.is_some());
        let result = match self.again.remove(&number) {
            // A program of the user's own choice may do something that it must not do twice.
            None if misses(&traced)
                && !self.options.free_stacks
                && !self.interrupted
                && traced.ran.test.stdio == Stdio::Captured =>
            {
                self.again.insert(number, traced);
                self.queue.push_front(number);
                return;
            }
            Some(first) if traced.interrupted || !notes(&traced) => first,
            _ => traced,
        };
        (self.sink)(Event::Finished(Box::new(result)));
    }
}

/// Lets go of a process that is traced only because it was made by a plain `clone`.
fn release(pid: Pid) {
    // One that was killed meanwhile is free already.
    let _ = nix::sys::ptrace::detach(pid, None);
}
