//! Runs the planned tests under the tracer: probes in place once a run, each process held before
//! its first instruction, followed to its exit, looked at, and let go.

mod code;
mod entry;
mod follow;
mod kernel;
mod ledger;
mod memory;
mod object;
mod outer;
mod output;
mod prepare;
mod process;
mod sites;
pub mod unwind;

pub(crate) use kernel::{BlockRecord, Kernel, ProcessRecord, ThreadRecord};
pub(crate) use memory::{read, read_into, read_protected, read_word};
pub(crate) use process::Process;

pub use follow::block_signals;

use std::thread::JoinHandle;

use crate::error::Result;
use crate::model::{PlannedTest, Ran};
use crate::options::TraceOptions;
use crate::snapshot::Snapshot;
use crate::sys::Interrupts;

/// What happens while tests run.
#[derive(Debug)]
pub enum Event {
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

/// The kernel side, while it is being loaded.
pub struct Loading(JoinHandle<Result<Kernel>>);

/// Starts to load the kernel side. Most of that is making large tables, which goes on in the
/// background; whether the kernel takes the programs is known at once.
///
/// # Errors
/// No privileges, or no kernel support.
pub fn load(options: &TraceOptions) -> Result<Loading> {
    object::load(&["BLOCKS", "STACKS", "THREADS", "LOG"].map(|table| (table, 1)))?;
    let options = options.clone();
    Ok(Loading(std::thread::spawn(move || Kernel::load(&options))))
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
    let mut kernel = kernel.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let prepare = || prepare::Prepared::new(&mut kernel, tests, options);
    let prepared = interrupts.watch(prepare)?;
    follow::Follower::new(&mut kernel, &prepared, options, interrupts, sink)?.run(tests)
}
