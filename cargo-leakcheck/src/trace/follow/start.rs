//! How tests are started.

use nix::sys::ptrace::Options as Trace;

use super::Follower;
use super::twice::Why;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, Window};
use crate::options::TraceOptions;
use crate::sys;
use crate::trace::Event;
use crate::trace::growth::Repeated;
use crate::trace::process::{Process, Wanted};
use crate::trace::running::{Launch, Running};

impl Follower<'_> {
    /// Starts a test, or has it started as soon as that can be.
    ///
    /// # Errors
    /// The system refuses a process or a descriptor.
    pub(super) fn start(&mut self, number: usize, test: &PlannedTest) -> Result<()> {
        let again = self.again.get(&number);
        let trace = test.trace(self.options);
        // One that may not be run once more for it, or takes long.
        if test.window == Window::Process && trace.descriptors {
            self.steering.start_files();
        }
        // What it writes has been handed on already.
        let quiet = again.map(|again| test.quiet(self.options, again.first.ran.duration));
        let why = again.map(|again| again.why);
        let (is_first, notes_frees) = (why.is_none(), why == Some(Why::Frees));
        let launch = Launch::new(
            (number, quiet.unwrap_or_else(|| test.clone())),
            is_first,
            notes_frees || trace.free_stacks,
            self.prepared,
            &self.null,
        )?;
        match self.offer(launch)? {
            Some(launch) => self.spawn(launch),
            None => Ok(()),
        }
    }

    /// Starts a test's program.
    pub(super) fn spawn(&mut self, launch: Launch) -> Result<()> {
        let (number, is_first) = (launch.number, launch.is_first);
        let because = self.templates.refusal(&launch.test.binary.path);
        let (running, process) =
            launch.spawn(self.turns, because, self.prepared, self.steering, &self.spawner)?;
        let options = traced(running.test().trace(self.options));
        let pid = process.pid;
        let release = |()| {
            let failed = |source| Error::System { call: format!("starting process {pid}"), source };
            running.held.release().map_err(failed)
        };
        // On an error the child, without the byte it waits for, ends by itself when its pipe is closed.
        sys::seize(pid, options).map_err(|errno| Error::Ptrace { reason: errno.into() }).and_then(release)?;
        self.add(running, process);
        if is_first {
            self.tell(Event::Started { number });
        }
        Ok(())
    }

    /// Follows a test's process from now on.
    pub(super) fn add(&mut self, running: Running, process: Process) {
        let (pid, test) = (process.pid, running.test());
        let wanted = Wanted::of(test, test.trace(self.options));
        let once = self.again.get(&running.number).is_some_and(|again| again.why == Why::Growth);
        let process = Process { wanted, repeated: Repeated::of(test).filter(|_| !once), ..process };
        self.owners.insert(pid, pid);
        self.processes.insert(pid, process);
        self.tests.insert(self.turns, running);
        self.turns += 1;
    }
}

/// What the kernel tells of a process that is traced with these options.
pub(super) fn traced(trace: &TraceOptions) -> Trace {
    let options = Trace::PTRACE_O_TRACEEXEC
        | Trace::PTRACE_O_TRACEEXIT
        | Trace::PTRACE_O_TRACECLONE
        | Trace::PTRACE_O_EXITKILL;
    match trace.follow_children {
        true => options | Trace::PTRACE_O_TRACEFORK | Trace::PTRACE_O_TRACEVFORK,
        false => options,
    }
}
