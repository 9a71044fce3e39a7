//! What templates report, and the processes that are forked from them until their programs begin.

use std::sync::Arc;

use leakcheck_preload::layout::control;
use nix::sys::ptrace::{getevent, getregs};
use nix::sys::signal::kill;
use nix::unistd::{Pid, setpgid};

use super::start::traced;
use super::{Follower, end, end_process, leave, proceed};
use crate::model::Spawned;
use crate::sys::{self, Held, Stop};
use crate::trace::process::{Phase, Process, Thread, Turn};
use crate::trace::running::Running;
use crate::trace::template::{Preparing, Step, descriptors};
use crate::trace::{Event, entry, memory};

impl Follower<'_> {
    /// Something of a template has changed its state.
    pub(super) fn handle_template(&mut self, pid: Pid, stop: Stop) {
        match stop {
            Stop::Exited(_) | Stop::Signalled(_) => return self.template_ended(pid),
            Stop::Event(libc::PTRACE_EVENT_EXIT, _) => return leave(pid),
            _ => {}
        }
        let Some(template) = self.templates.all.get_mut(&pid) else { return proceed(pid, 0) };
        match stop {
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) if matches!(template.process.phase, Phase::Held) => {
                let process = &mut template.process;
                template.inherited = descriptors(pid).unwrap_or_default();
                process.threads.insert(pid, Thread::new());
                process.phase = Phase::Running;
                let ready = self.steering.add_process(pid, false, false).and_then(|()| entry::arm(process));
                match ready {
                    Ok(()) => proceed(pid, 0),
                    Err(reason) => self.give_up(pid, reason),
                }
            }
            Stop::Event(libc::PTRACE_EVENT_FORK, _) if matches!(template.step, Step::Forking { .. }) => {
                self.has_forked(pid);
            }
            Stop::Event(
                libc::PTRACE_EVENT_CLONE
                | libc::PTRACE_EVENT_FORK
                | libc::PTRACE_EVENT_VFORK
                | libc::PTRACE_EVENT_EXEC,
                _,
            ) => {
                if let Ok(child) = getevent(pid).map(|child| Pid::from_raw(child as i32))
                    && child != pid
                {
                    end_process(child);
                    self.templates.ending.insert(child);
                }
                self.give_up(pid, "it starts threads or processes before main".into());
            }
            Stop::Event(_, libc::SIGTRAP) | Stop::Event(libc::PTRACE_EVENT_STOP, 0) => proceed(pid, 0),
            Stop::Event(..) => drop(sys::listen(pid)),
            Stop::Signal(libc::SIGTRAP) => self.template_trapped(pid),
            Stop::Signal(signal) => proceed(pid, signal),
            Stop::Exited(_) | Stop::Signalled(_) => unreachable!("dealt with above"),
        }
    }

    /// A template has come to a breakpoint.
    fn template_trapped(&mut self, pid: Pid) {
        let template = self.templates.all.get_mut(&pid).expect("the caller has it");
        let Ok(registers) = getregs(pid) else { return };
        match (template.take_step(), &template.process.phase) {
            (Step::Loading, &Phase::Loading { entry, modules }) if registers.rip == entry.address + 1 => {
                let registers = nix::libc::user_regs_struct { rip: entry.address, ..registers };
                let prepared = match template.has_written() {
                    true => Err("it writes something before main".into()),
                    false => {
                        let at = (entry, modules);
                        Preparing::begin(self.steering, &template.process, at, registers)
                    }
                };
                self.steering.remove_thread(pid);
                self.steering.remove_process(pid);
                match prepared {
                    Ok(preparing) => {
                        template.go_on(Step::Preparing(Box::new(preparing)));
                        proceed(pid, 0);
                    }
                    Err(reason) => self.give_up(pid, reason),
                }
            }
            (Step::Loading, _) => {
                template.step = Step::Loading;
                let process = &mut template.process;
                let losses = process.losses.len();
                let handled = entry::trapped(self.steering, process);
                match process.losses.get(losses) {
                    Some(loss) => {
                        let reason = loss.to_string();
                        self.give_up(pid, reason);
                    }
                    None => proceed(pid, if handled { 0 } else { libc::SIGTRAP }),
                }
            }
            (Step::Preparing(preparing), _) => match preparing.finish(template, registers.rax) {
                Ok(source) => {
                    template.go_on(Step::Ready(Arc::new(source)));
                    self.serve(pid);
                }
                Err(reason) => self.give_up(pid, reason),
            },
            (Step::Forking { launch, .. }, _) => {
                template.waiting.push_front(*launch);
                let reason = match registers.rax.cast_signed() {
                    // How many system calls it has made before.
                    0.. => "it gets no descriptors".into(),
                    errno => nix::errno::Errno::from_raw(-errno as i32).to_string(),
                };
                self.give_up(pid, format!("the kernel refuses to fork it: {reason}"));
            }
            (step, _) => {
                template.step = step;
                proceed(pid, libc::SIGTRAP);
            }
        }
    }

    /// A template has forked: its child is a test's process.
    pub(super) fn has_forked(&mut self, pid: Pid) {
        let template = self.templates.all.get_mut(&pid).expect("the caller has it");
        // One that has been killed meanwhile will say so.
        let Ok(child) = getevent(pid).map(|child| Pid::from_raw(child as i32)) else { return };
        let Step::Forking { source, launch, changed } = template.take_step() else { return };
        if kill(child, None).is_err() {
            // It was killed, and is gone, before this was told.
            self.queue.push_front(launch.number);
            return self.retire(pid);
        }
        let held = Held::forked(child, launch.private_ipc);
        let (running, process) =
            launch.begin(self.turns, held, Spawned::Forked, self.prepared, self.steering);
        let thread = source.thread(&template.process);
        let log = template.process.log;
        template.forks += 1;
        template.go_on(Step::Ready(source.clone()));
        let phase = Phase::Forked { changed, source };
        let process = Process { template: Some(pid), phase, log, ..process };
        self.add(running, process);
        let process = self.processes.get_mut(&child).expect("it was just added");
        process.threads.insert(child, thread);
        if self.interrupted {
            end(child);
        }
        if self.take_early(child) {
            self.begin_forked(child);
        }
        self.serve(pid);
    }

    /// The child of a template is stopped before it has come back from the system call that made it.
    pub(super) fn begin_forked(&mut self, pid: Pid) {
        let process = self.processes.get_mut(&pid).expect("an owner is a process");
        let Phase::Forked { changed, source } = std::mem::replace(&mut process.phase, Phase::Done) else {
            return;
        };
        let test = &self.tests[&process.turn];
        let (number, options) = (test.number, traced(test.test().trace(self.options)));
        let ready = setpgid(pid, pid)
            .and_then(|()| nix::sys::ptrace::setoptions(pid, options))
            .map_err(|errno| errno.to_string())
            .and_then(|()| source.begin(self.steering, process, *changed));
        match ready {
            Ok(()) => proceed(pid, 0),
            Err(reason) => return self.abandon(pid, reason),
        }
        if !self.again.contains_key(&number) {
            self.tell(Event::Started { number });
        }
    }

    /// Whether a process that was sent on its way into the program, which ends where there is a canary, has come to a trap
    /// before: a system call has failed.
    pub(super) fn could_not_begin(&mut self, pid: Pid, stop: Stop) -> bool {
        let process = self.processes.get_mut(&pid).expect("an owner is a process");
        let is_on_its_way = process.template.is_some() && !matches!(process.phase, Phase::Forked { .. });
        if !is_on_its_way || matches!(stop, Stop::Exited(_) | Stop::Signalled(_)) {
            return false;
        }
        let canary = process.control.map(|words| words + control::CANARY as u64 * 8);
        process.canary = canary.and_then(|at| memory::read_word(pid, at)).filter(|address| *address != 0);
        if process.canary.is_some() {
            process.template = None;
        }
        process.canary.is_none() && stop == Stop::Signal(libc::SIGTRAP)
    }

    /// A process that was forked cannot be begun: its test is started instead, as all others of its binary.
    pub(super) fn abandon(&mut self, pid: Pid, reason: String) {
        let process = self.processes.remove(&pid).expect("the caller has it");
        self.owners.retain(|_, owner| *owner != pid);
        self.steering.remove_thread(pid);
        self.steering.remove_process(pid);
        if let Some(test) = self.tests.remove(&process.turn) {
            self.queue.push_front(test.number);
        }
        end_process(pid);
        self.templates.ending.insert(pid);
        proceed(pid, 0);
        if let Some(template) = process.template {
            self.give_up(template, reason);
        }
    }

    /// A test's process that was forked has ended before it had begun; whether its test is to have another one.
    pub(super) fn forked_ended(&mut self, turn: Turn, template: Pid) -> bool {
        self.has_died(template);
        let has_end = |test: &Running| self.interrupted || test.timed_out;
        if self.tests.get(&turn).is_none_or(has_end) {
            return false;
        }
        if let Some(test) = self.tests.remove(&turn) {
            self.queue.push_front(test.number);
        }
        true
    }
}
