//! Runs the planned tests under the tracer: probes in place once a run, each process held before
//! its first instruction, followed to its exit, looked at, and let go.

mod accounts;
mod again;
mod allocators;
mod at_peak;
mod breakpoints;
mod btf;
mod bypass;
mod code;
mod cover;
mod created;
mod entry;
mod file_places;
mod files;
mod follow;
mod growth;
mod image;
mod inlined;
mod inspect;
mod ipc;
mod ipc_sites;
mod kernel;
mod ledger;
mod libraries;
mod mapping_sites;
mod mappings;
mod memory;
mod modules;
mod object;
mod objects;
mod outer;
mod output;
mod places;
mod preload;
mod prepare;
mod probed;
mod process;
mod reused;
mod rows;
mod running;
mod runtimes;
mod sees;
mod sites;
mod sizes;
mod started;
mod steered;
mod steering;
mod symbolizer;
mod symbols;
mod table;
mod template;
mod temporary;
mod unused;
pub mod unwind;
mod variables;
mod weigh;

pub(crate) use created::DIRECTORY as SHARED_FILES;
pub(crate) use files::{FileRecord, Files, OpenFile};
pub(crate) use growth::{Alive, Repeated};
pub(crate) use ipc::IpcCall;
pub(crate) use kernel::{BadFreeRecord, BlockRecord, Kernel, ProcessRecord, ThreadRecord};
pub(crate) use libraries::Heap;
pub(crate) use mappings::{Made, MapCall};
pub(crate) use memory::{read, read_into, read_protected, read_word, words, write};
pub(crate) use objects::{Object, Objects, Places};
pub(crate) use process::Process;
pub(crate) use rows::Rows;
pub(crate) use started::{Started, Task};
pub(crate) use steering::Steering;
pub(crate) use symbolizer::Symbolizer;

pub use follow::block_signals;

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::error::{Error, Result};
use crate::model::{Availability, PlannedTest, Ran, Steered};
use crate::options::{Raised, Recorder, TraceOptions};
use crate::snapshot::Snapshot;
use crate::sys::{self, Interrupts};

/// What happens while tests run.
#[derive(Debug)]
pub enum Event {
    /// Everything is in place; no test has been started yet.
    Ready(Steered),
    /// A binary, or a test of it, is recorded by uprobes, in a run whose recorder is the ledger.
    ByUprobe {
        /// The binary.
        binary: Utf8PathBuf,
        /// Why the ledger would be passed by.
        because: String,
    },
    /// Tests of a binary are not forked, but started each for itself.
    NotForked {
        /// The binary.
        binary: Utf8PathBuf,
        /// Why.
        because: String,
    },
    /// A test has been started.
    Started {
        /// Its place in the plan.
        number: usize,
    },
    /// A test has ended.
    Finished(Box<Traced>),
    /// Tests have left descriptors, and may be run once more to see what those hold in the kernel. Where to say
    /// which of them are to be, by their places in the plan.
    Weigh {
        /// Those that may.
        numbers: Vec<usize>,
        /// The answer.
        wanted: SyncSender<Vec<usize>>,
    },
    /// Such a test has ended once more.
    Weighed(Box<Traced>),
    /// All that were to be followed have been, which has taken the thread that does it so long on a processor.
    Followed(Duration),
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
    /// Its children that were followed, in the order they ended.
    pub children: Vec<Child>,
    /// What was seen when it was run once more, to tell where it has opened what it leaves or freed a block first: without
    /// blocks.
    pub second: Option<Box<Traced>>,
}

/// A child of a test that was followed.
#[derive(Debug)]
pub struct Child {
    /// Its executable and arguments.
    pub process: String,
    /// What was seen at its exit.
    pub snapshot: Snapshot,
}

/// The kernel side, while it is being loaded; or why there is none, where it can be done without.
pub struct Loading(Result<JoinHandle<Result<Kernel>>, String>);

/// Starts to load the kernel side, which goes on in the background; whether the kernel takes programs from
/// us is known at once.
///
/// # Errors
/// No privileges, or no kernel support, and the recorder needs them; or /proc shows other processes.
pub fn load(options: &TraceOptions) -> Result<Loading> {
    sys::awake(|| load_awake(options))
}

fn load_awake(options: &TraceOptions) -> Result<Loading> {
    sys::proc_is_own()
        .map_err(|reason| Error::Kernel { what: "look at processes by /proc".into(), reason })?;
    match object::check() {
        Ok(()) => {
            let options = options.clone();
            Ok(Loading(Ok(std::thread::spawn(move || {
                Kernel::load(&options, options.recorder == Recorder::Uprobe)
            }))))
        }
        Err(error) => do_without(error, options).map(|reason| Loading(Err(reason))),
    }
}

/// Why eBPF is not available, if that is what the error says and the ledger can do without.
fn do_without(error: Error, options: &TraceOptions) -> Result<String> {
    let error = match (error, &options.raised) {
        (Error::Privileges { reason }, Raised::Refused(refused)) => {
            Error::Privileges { reason: format!("{reason}; {refused}") }
        }
        (error, _) => error,
    };
    match error {
        _ if options.recorder == Recorder::Uprobe || options.require_ebpf => Err(error),
        Error::Privileges { reason } => Ok(reason),
        Error::Kernel { what, reason } => Ok(format!("{what}: {reason}")),
        error => Err(error),
    }
}

/// Runs `tests` and tells `sink` of each as it goes; whether the run was interrupted. Whatever
/// happens, no probe, process or file is left behind. Processes of `executables` that tests start are
/// recorded as well, where the options ask for it.
///
/// # Errors
/// No privileges, no kernel support, or the system refuses a process.
pub fn run(
    kernel: Loading,
    tests: &[PlannedTest],
    executables: &[Utf8PathBuf],
    options: &TraceOptions,
    interrupts: &Interrupts,
    sink: &mut dyn FnMut(Event),
) -> Result<bool> {
    sys::awake(|| run_awake(kernel, tests, executables, options, interrupts, sink))
}

fn run_awake(
    kernel: Loading,
    tests: &[PlannedTest],
    executables: &[Utf8PathBuf],
    options: &TraceOptions,
    interrupts: &Interrupts,
    sink: &mut dyn FnMut(Event),
) -> Result<bool> {
    let executables = if options.follow_children { executables } else { &[] };
    let ipc = if options.ipc { ipc::namespaces() } else { Availability::Off };
    let private_ipc = ipc == Availability::Checked;
    let prepare = |steering: &mut Steering| {
        interrupts.watch(|| prepare::Prepared::new(steering, tests, executables, options, private_ipc))
    };
    let loaded =
        kernel.0.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    let with_kernel = |kernel| {
        let mut steering = Steering::Kernel(Box::new(kernel));
        let prepared = prepare(&mut steering)?;
        Ok((steering, prepared))
    };
    let without = match loaded.map(|kernel| kernel.and_then(with_kernel)) {
        Ok(Ok((mut steering, prepared))) => {
            if weigh::from_the_start(tests, options) {
                steering.start_files();
                steering.start_objects();
            } else if steering.kernel().is_some_and(Kernel::needs_files) {
                steering.start_files();
            }
            let steered = steered::of(steering.kernel(), &prepared, options, ipc);
            if options.require_ebpf {
                steered::whole(&steered)?;
            }
            sink(Event::Ready(steered));
            for (binary, because) in prepared.passing() {
                sink(Event::ByUprobe { binary: binary.to_owned(), because: because.to_owned() });
            }
            let (mut passing, mut left) = (Vec::new(), BTreeMap::new());
            let weighs = weigh::is_possible(&steering, options);
            let mut sift = |event| match event {
                Event::Finished(traced)
                    if options.recorder == Recorder::Auto && again::reason(&traced).is_some() =>
                {
                    passing.push(*traced);
                }
                event => {
                    if let Event::Finished(traced) = &event
                        && weighs
                        && weigh::may_run_twice(traced)
                    {
                        left.insert(traced.number, traced.ran.duration);
                    }
                    sink(event);
                }
            };
            let mut ended = follow::Follower::new(&mut steering, &prepared, options, interrupts, &mut sift)
                .and_then(|follower| follower.run(tests));
            if matches!(ended, Ok(false)) && !left.is_empty() {
                let (wanted, answer) = sync_channel(1);
                sink(Event::Weigh { numbers: left.keys().copied().collect(), wanted });
                // Without an answer nobody is there any more.
                let numbers = answer.recv().unwrap_or_default();
                if !numbers.is_empty() {
                    let again = (tests, &numbers[..], &left);
                    ended = weigh::run(&mut steering, &prepared, again, options, interrupts, sink);
                }
            }
            if matches!(ended, Ok(false)) && !passing.is_empty() {
                return again::run(
                    &mut steering,
                    passing,
                    executables,
                    options,
                    private_ipc,
                    interrupts,
                    sink,
                );
            }
            passing.into_iter().for_each(|traced| sink(Event::Finished(Box::new(traced))));
            return ended;
        }
        Ok(Err(error)) => do_without(error, options)?,
        Err(reason) => reason,
    };
    let mut steering = Steering::Tracer(Box::new(breakpoints::Breakpoints::new()?));
    let prepared = prepare(&mut steering)?;
    sink(Event::Ready(Steered {
        without_ebpf: Some(without),
        descriptors: Availability::Off,
        objects: Availability::Off,
        ipc,
        ipc_calls: Availability::Off,
        // What has no eBPF program to tell of it is still listed by the kernel.
        children: if options.children { Availability::Checked } else { Availability::Off },
        mappings: Availability::Off,
    }));
    follow::Follower::new(&mut steering, &prepared, options, interrupts, sink)?.run(tests)
}
