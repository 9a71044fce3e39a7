//! What tells a recorder of bodies, threads and exits: eBPF programs at probes, or, where there are
//! none, the tracer itself at hardware breakpoints. Both keep the same records.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use camino::Utf8Path;
use leakcheck_common::{process as process_words, thread as thread_words};
use nix::sys::ptrace::getregs;
use nix::unistd::Pid;

use super::breakpoints::{Breakpoints, Hit};
use super::created::now_ns;
use super::growth;
use super::kernel::{Kernel, ProcessRecord, ThreadRecord};
use super::places::Places;
use super::process::Process;
use super::rows::Rows;
use super::sees::Sees;
use super::sites::Site;
use crate::error::Result;
use crate::harvest;
use crate::model::Window;
use crate::options::TraceOptions;
use crate::snapshot::{Loss, Mapping};
use crate::sys;

/// Why something of one process is not done.
type Refused<T> = std::result::Result<T, String>;

/// Who steers.
pub enum Steering {
    /// eBPF programs.
    Kernel(Box<Kernel>),
    /// The tracer.
    Tracer(Box<Breakpoints>),
}

impl Steering {
    /// The kernel side, where there is one.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Kernel(kernel) => Some(kernel),
            Self::Tracer(_) => None,
        }
    }

    /// What is known of the frames of modules.
    pub fn rows(&self) -> &RefCell<Rows> {
        match self {
            Self::Kernel(kernel) => kernel.rows(),
            Self::Tracer(breakpoints) => breakpoints.rows(),
        }
    }

    /// Exchanges the eBPF programs, where there are any, for such as have room to record. Probes that were
    /// placed before are removed.
    ///
    /// # Errors
    /// The kernel refuses the large tables.
    pub fn make_room(&mut self, options: &TraceOptions) -> Result<()> {
        if let Self::Kernel(kernel) = self {
            let seen = Sees::of(kernel);
            **kernel = Kernel::load(options, true)?;
            if seen.files {
                kernel.start_files();
            }
            if seen.objects {
                kernel.start_objects();
            }
        }
        Ok(())
    }

    /// What is recorded of processes that start now.
    pub fn sees(&self) -> Sees {
        self.kernel().map(Sees::of).unwrap_or_default()
    }

    /// Has it written down from now on who makes files, where that can be.
    pub fn start_files(&mut self) {
        if let Self::Kernel(kernel) = self {
            kernel.start_files();
        }
    }

    /// Lets the kernel's objects be recorded from now on, where they can be.
    pub fn start_objects(&mut self) {
        if let Self::Kernel(kernel) = self {
            kernel.start_objects();
        }
    }

    /// Ends that.
    pub fn stop_objects(&mut self) {
        if let Self::Kernel(kernel) = self {
            kernel.stop_objects();
        }
    }

    /// Places probes in a file, for every process that maps it.
    ///
    /// # Errors
    /// A probe cannot be placed: nothing would be seen, so nothing is run.
    pub fn attach(&mut self, file: &Utf8Path, sites: &[Site]) -> Result<()> {
        match self {
            Self::Kernel(kernel) => kernel.attach(file, sites),
            Self::Tracer(breakpoints) => {
                breakpoints.attach(file, sites);
                Ok(())
            }
        }
    }

    /// Starts to follow a process by its first thread; `layers` says that functions of several allocators are
    /// probed.
    pub fn add_process(&mut self, pid: Pid, in_window: bool, layers: bool) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => {
                let mut record = [0; thread_words::WORDS];
                record[thread_words::IN_WINDOW] = u64::from(in_window);
                record[thread_words::LAYERS] = u64::from(layers);
                kernel.add_process(pid, &record, 0, false).map_err(|error| error.to_string())
            }
            Self::Tracer(breakpoints) => {
                breakpoints.add_process(pid, in_window);
                Ok(())
            }
        }
    }

    /// Starts to follow a process whose first thread has this record, where this is mapped, and where its ledger counts blocks;
    /// it may have to stop where it enters its first test body.
    pub fn add_loaded(
        &mut self,
        pid: Pid,
        record: &ThreadRecord,
        (mappings, ledger): (&[Mapping], u64),
        stops_in_body: bool,
    ) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => {
                kernel.add_process(pid, record, ledger, stops_in_body).map_err(|error| error.to_string())
            }
            Self::Tracer(breakpoints) => {
                breakpoints.add_process(pid, false);
                breakpoints.set_thread(pid, record);
                breakpoints.introduce(pid, mappings, ledger);
                Ok(())
            }
        }
    }

    /// Starts to follow a thread that `parent` has started; it is in the window if its parent is.
    pub fn add_thread(&mut self, parent: Pid, thread: Pid) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => kernel.add_thread(parent, thread).map_err(|error| error.to_string()),
            Self::Tracer(breakpoints) => breakpoints.add_thread(parent, thread),
        }
    }

    /// Has a process stop where it enters its first test body, whatever else needs that.
    pub fn stop_in_body(&mut self, pid: Pid) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => kernel.stop_in_body(pid).map_err(|error| error.to_string()),
            Self::Tracer(_) => Ok(()),
        }
    }

    /// Has the kernel side count by call stacks what is alive of a process that it records.
    pub fn count_by_stack(&mut self, pid: Pid) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => kernel.count_by_stack(pid).map_err(|error| error.to_string()),
            Self::Tracer(_) => Ok(()),
        }
    }

    /// Where test bodies are entered in a process with these mappings.
    pub fn entries(&self, pid: Pid, mappings: &[Mapping]) -> Vec<u64> {
        match self {
            Self::Kernel(kernel) => Places::of(kernel.bodies(), mappings).entries,
            Self::Tracer(breakpoints) => breakpoints.entries(pid),
        }
    }

    /// A stopped thread is sent to the entry of its test body, with this stack pointer. The kernel side sees it come there.
    pub fn enter(&mut self, thread: Pid, sp: u64) -> Refused<()> {
        if let Self::Tracer(breakpoints) = self {
            let mut record = breakpoints.thread(thread).ok_or("the thread is not followed")?;
            record[thread_words::BODY_SP] = sp;
            record[thread_words::IN_WINDOW] = 1;
            breakpoints.set_thread(thread, &record);
        }
        Ok(())
    }

    /// The record of a thread.
    pub fn thread(&self, thread: Pid) -> Refused<ThreadRecord> {
        match self {
            Self::Kernel(kernel) => kernel.thread(thread).map_err(|error| error.to_string()),
            Self::Tracer(breakpoints) => {
                breakpoints.thread(thread).ok_or_else(|| "the thread is not followed".into())
            }
        }
    }

    /// Replaces the record of a thread that does not run.
    pub fn set_thread(&mut self, thread: Pid, record: &ThreadRecord) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => kernel.set_thread(thread, record).map_err(|error| error.to_string()),
            Self::Tracer(breakpoints) => {
                breakpoints.set_thread(thread, record);
                Ok(())
            }
        }
    }

    /// The window bits, to be mapped by a ledger.
    pub fn window(&self) -> Arc<OwnedFd> {
        match self {
            Self::Kernel(kernel) => kernel.window(),
            Self::Tracer(breakpoints) => breakpoints.window(),
        }
    }

    /// Introduces a process with a ledger that is kept at its entry point: what is mapped there, and where
    /// the ledger counts blocks.
    pub fn introduce(&mut self, pid: Pid, mappings: &[Mapping], ledger: u64) -> Refused<()> {
        match self {
            Self::Kernel(kernel) => kernel.set_ledger(pid, ledger).map_err(|error| error.to_string()),
            Self::Tracer(breakpoints) => {
                breakpoints.introduce(pid, mappings, ledger);
                Ok(())
            }
        }
    }

    /// Whether a process has got hold of an allocator behind the ledger's back.
    pub fn has_looked_up(&self, pid: Pid) -> bool {
        self.process(pid).is_ok_and(|counters| {
            counters[process_words::LOOKED_UP] > 0 || counters[process_words::BYPASSED] > 0
        })
    }

    /// Prepares a stopped thread to go on.
    pub fn arm(&mut self, process: &mut Process, thread: Pid) {
        if let Self::Tracer(breakpoints) = self
            && let Err(reason) = breakpoints.arm(process.pid, thread)
        {
            process.losses.push(Loss::Breakpoints { reason });
        }
    }

    /// Handles a trap; whether it was one of steering's own.
    pub fn trapped(&mut self, process: &mut Process, thread: Pid) -> bool {
        if !sys::is_breakpoint(thread) {
            return false;
        }
        let Self::Tracer(breakpoints) = self else { return growth::returned(self, process, thread) };
        let Ok(registers) = getregs(thread) else { return false };
        match breakpoints.hit(process.pid, thread, &registers) {
            Ok(None) => return false,
            Ok(Some(Hit::Unload)) => self.unloading(process, thread),
            Ok(Some(Hit::Enter)) => growth::entered(self, process, thread),
            Ok(Some(Hit::Return)) => drop(growth::returned(self, process, thread)),
            Ok(Some(Hit::Other)) => {}
            Err(reason) => process.losses.push(Loss::Breakpoints { reason }),
        }
        true
    }

    /// The kernel side has stopped a thread: where it enters the first test body, or is about to unload a module.
    pub fn stopped(&mut self, process: &mut Process, thread: Pid) {
        let is_in_body = || self.thread(thread).is_ok_and(|record| record[thread_words::BODY_SP] != 0);
        let is_stopped = |pid| self.process(pid).is_ok_and(|counters| counters[process_words::LISTED] != 0);
        let has_begun = process.window != Window::TestBody || process.begun_ns.is_some();
        if !has_begun && is_in_body() && is_stopped(process.pid) {
            self.list(process);
            growth::entered(self, process, thread);
        } else {
            self.unloading(process, thread);
        }
    }

    /// Lists what is there at the beginning of a process's window.
    pub fn list(&self, process: &mut Process) {
        let Some(kernel) = self.kernel() else { return };
        process.begun_ns = Some(now_ns());
        if let Some(Ok(files)) = kernel.files() {
            process.before = Some(files.open(process.pid));
        }
        if let Some(Ok(created)) = kernel.created() {
            created.begin(process.pid);
        }
    }

    /// A module is about to be unloaded by a thread.
    pub fn unloading(&mut self, process: &mut Process, thread: Pid) {
        let mappings = harvest::mappings(thread).ok();
        self.look(process, thread, mappings.as_deref());
        process.history.extend(mappings.unwrap_or_default());
    }

    /// All threads of a process are kept at their exits.
    pub fn ending(&mut self, process: &mut Process) {
        if matches!(self, Self::Tracer(_))
            && let Some(reader) = process.threads.keys().next().copied()
        {
            self.look(process, reader, harvest::mappings(reader).ok().as_deref());
        }
    }

    fn look(&mut self, process: &mut Process, reader: Pid, mappings: Option<&[Mapping]>) {
        if let (Self::Tracer(breakpoints), Some(libraries)) = (self, &process.libraries)
            && let Err(reason) = breakpoints.look(process.pid, reader, mappings, &libraries.libc)
        {
            process.losses.push(Loss::Breakpoints { reason });
        }
    }

    /// Forgets a thread that has ended.
    pub fn remove_thread(&mut self, thread: Pid) {
        match self {
            Self::Kernel(kernel) => kernel.remove_thread(thread),
            Self::Tracer(breakpoints) => breakpoints.remove_thread(thread),
        }
    }

    /// The counters of a process.
    pub fn process(&self, pid: Pid) -> Refused<ProcessRecord> {
        match self {
            Self::Kernel(kernel) => kernel.process(pid).map_err(|error| error.to_string()),
            Self::Tracer(breakpoints) => {
                breakpoints.process(pid).ok_or_else(|| "the process is not followed".into())
            }
        }
    }

    /// Removes everything that is recorded of a process.
    pub fn remove_process(&mut self, pid: Pid) {
        match self {
            // What could not be removed only takes room, and is counted when that runs out.
            Self::Kernel(kernel) => drop(kernel.remove_process(pid)),
            Self::Tracer(breakpoints) => breakpoints.remove_process(pid),
        }
    }
}
