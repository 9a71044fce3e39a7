//! Runs the planned tests under the tracer: probes in place once a run, each process held before
//! its first instruction, followed to its exit, looked at, and let go.

mod breakpoints;
mod btf;
mod bypass;
mod code;
mod entry;
mod files;
mod follow;
mod kernel;
mod ledger;
mod memory;
mod object;
mod outer;
mod output;
mod places;
mod prepare;
mod process;
mod rows;
mod sites;
mod steering;
mod table;
pub mod unwind;

pub(crate) use files::{FileRecord, Files};
pub(crate) use kernel::{BadFreeRecord, BlockRecord, Kernel, ProcessRecord, ThreadRecord};
pub(crate) use memory::{read, read_into, read_protected, read_word};
pub(crate) use process::Process;
pub(crate) use steering::Steering;

pub use follow::block_signals;

use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::model::{Availability, PlannedTest, Ran, Steered};
use crate::options::{Recorder, TraceOptions};
use crate::snapshot::Snapshot;
use crate::sys::Interrupts;

/// What happens while tests run.
#[derive(Debug)]
pub enum Event {
    /// Everything is in place; no test has been started yet.
    Ready(Steered),
    /// A test has been started.
    Started {
        /// Its place in the plan.
        number: usize,
    },
    /// A test has ended.
    Finished(Box<Traced>),
}

/// A test that has run.
#[derive(Debug)]
pub struct Traced {
    /// Its place in the plan.
    pub number: usize,
    /// The run was being interrupted: its end says nothing.
    pub interrupted: bool,
    /// How it went.
    pub ran: Ran<Snapshot>,
}

/// The kernel side, while it is being loaded; or why there is none, where it can be done without.
pub struct Loading(Result<JoinHandle<Result<Kernel>>, String>);

/// Starts to load the kernel side. Most of that is making large tables, which goes on in the
/// background; whether the kernel takes the programs is known at once.
///
/// # Errors
/// No privileges, or no kernel support, and the recorder needs them.
pub fn load(options: &TraceOptions) -> Result<Loading> {
    match object::load(&["BLOCKS", "STACKS", "THREADS", "LOG", "FILES"].map(|table| (table, 1))) {
        Ok(_) => {
            let options = options.clone();
            Ok(Loading(Ok(std::thread::spawn(move || Kernel::load(&options)))))
        }
        Err(error) => do_without(error, options).map(|reason| Loading(Err(reason))),
    }
}

/// Why eBPF is not available, if that is what the error says and the ledger can do without.
fn do_without(error: Error, options: &TraceOptions) -> Result<String> {
    match error {
        _ if options.recorder == Recorder::Uprobe => Err(error),
        Error::Privileges { reason } => Ok(reason),
        Error::Kernel { what, reason } => Ok(format!("{what}: {reason}")),
        error => Err(error),
    }
}

/// Runs `tests` and tells `sink` of each as it goes; whether the run was interrupted. Whatever
/// happens, no probe, process or file is left behind.
///
/// # Errors
/// No privileges, no kernel support, or the system refuses a process.
pub fn run(
    kernel: Loading,
    tests: &[PlannedTest],
    options: &TraceOptions,
    interrupts: &Interrupts,
    sink: &mut dyn FnMut(Event),
) -> Result<bool> {
    let loaded =
        kernel.0.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    let with_kernel = |kernel| {
        let mut steering = Steering::Kernel(Box::new(kernel));
        let prepared = interrupts.watch(|| prepare::Prepared::new(&mut steering, tests, options))?;
        Ok((steering, prepared))
    };
    let without = match loaded.map(|kernel| kernel.and_then(with_kernel)) {
        Ok(Ok((mut steering, prepared))) => {
            let descriptors = match steering.kernel().and_then(Kernel::files) {
                None => Availability::Off,
                Some(Ok(_)) => Availability::Checked,
                Some(Err(reason)) => Availability::Unavailable { reason: reason.clone() },
            };
            sink(Event::Ready(Steered { without_ebpf: None, descriptors }));
            return follow::Follower::new(&mut steering, &prepared, options, interrupts, sink)?.run(tests);
        }
        Ok(Err(error)) => do_without(error, options)?,
        Err(reason) => reason,
    };
    let mut steering = Steering::Tracer(breakpoints::Breakpoints::new()?);
    let prepared = interrupts.watch(|| prepare::Prepared::new(&mut steering, tests, options))?;
    sink(Event::Ready(Steered { without_ebpf: Some(without), descriptors: Availability::Off }));
    follow::Follower::new(&mut steering, &prepared, options, interrupts, sink)?.run(tests)
}
