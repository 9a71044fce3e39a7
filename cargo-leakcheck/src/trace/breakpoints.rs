//! Steering without eBPF: the tracer, which follows the process by `ptrace` anyway, has the processor
//! stop threads where the eBPF programs would have run.
//!
//! These are hardware breakpoints. A thread has four, in its debug registers: nothing is written into
//! the process, so no child can run into one (neither threads nor children inherit them), no other
//! thread passes through while one is lifted, and the kernel steps over them by itself. Four are
//! enough, since a thread that is in the test body needs none at the entries into it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_common::{process, thread};
use leakcheck_preload::layout::{WINDOW_BYTES, WINDOW_MAGIC};
use nix::errno::Errno;
use nix::libc::user_regs_struct as Registers;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Pid, ftruncate};

use super::bypass::Bypass;
use super::kernel::{ProcessRecord, ThreadRecord};
use super::libraries::Library;
use super::memory::{read, read_word};
use super::places::{Armed, Places};
use super::rows::Rows;
use super::sites::Site;
use crate::error::{Error, Result};
use crate::model::ALLOCATOR;
use crate::snapshot::Mapping;
use crate::sys::{self, SharedBits};

/// libtest catches a test's panic within so many bytes of stack of the call of its body, as the eBPF
/// program has it.
const NEAR: u64 = 16 << 10;

/// Why a look into a process has failed.
const CLOSED: &str = "its memory cannot be read (prctl(PR_SET_DUMPABLE)?)";

/// More than the name of a function of the allocator has.
const LONGEST: usize = 16;

/// What is known of the processes that are steered.
pub struct Breakpoints {
    /// Sites by the paths of their files.
    files: HashMap<Utf8PathBuf, Vec<Site>>,
    processes: HashMap<Pid, Steered>,
    threads: HashMap<Pid, Followed>,
    rows: RefCell<Rows>,
    window: SharedBits,
    window_fd: Arc<OwnedFd>,
}

/// A process.
struct Steered {
    counters: ProcessRecord,
    places: Places,
    /// Once it has come to its entry point.
    bypass: Option<Bypass>,
}

/// A thread.
struct Followed {
    record: ThreadRecord,
    /// Where its test body returns to.
    back: u64,
    armed: Armed,
}

/// What a thread has been stopped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It is about to unload a module.
    Unload,
    /// It enters a test body.
    Enter,
    /// It has returned from there.
    Return,
    /// Something that has been dealt with.
    Other,
}

impl Breakpoints {
    /// Steers no process yet.
    ///
    /// # Errors
    /// The system has no memory for the window bits.
    pub fn new() -> Result<Self> {
        let failed = |source| Error::System { call: "making the window bits".into(), source };
        let file = memfd_create(c"leakcheck-window", MFdFlags::MFD_CLOEXEC);
        let file = file.map_err(|errno| failed(errno.into()))?;
        ftruncate(&file, WINDOW_BYTES as i64).map_err(|errno| failed(errno.into()))?;
        let window = SharedBits::map(file.as_fd(), WINDOW_BYTES / 8).map_err(failed)?;
        window.set_word(WINDOW_BYTES / 8 - 1, WINDOW_MAGIC);
        Ok(Self {
            files: HashMap::new(),
            processes: HashMap::new(),
            threads: HashMap::new(),
            rows: RefCell::default(),
            window,
            window_fd: Arc::new(file),
        })
    }

    /// What is known of the frames of modules.
    pub fn rows(&self) -> &RefCell<Rows> {
        &self.rows
    }

    /// Remembers the sites of a file for every process that maps it.
    pub fn attach(&mut self, file: &Utf8Path, sites: &[Site]) {
        // Mappings have the names of the files themselves.
        let file = file.canonicalize_utf8().unwrap_or_else(|_| file.to_owned());
        self.files.insert(file, sites.to_vec());
    }

    /// Starts to follow a process by its first thread.
    pub fn add_process(&mut self, pid: Pid, in_window: bool) {
        let steered = Steered { counters: [0; process::WORDS], places: Places::default(), bypass: None };
        self.processes.insert(pid, steered);
        let mut record = [0; thread::WORDS];
        record[thread::IN_WINDOW] = u64::from(in_window);
        self.set_thread(pid, &record);
    }

    /// Starts to follow a thread that `parent` has started; it is in the window if its parent is.
    pub fn add_thread(&mut self, parent: Pid, id: Pid) -> std::result::Result<(), String> {
        let parent = self.thread(parent).ok_or("its parent is not followed")?;
        let mut record = [0; thread::WORDS];
        for word in [thread::IN_WINDOW, thread::PROGRAM] {
            record[word] = parent[word];
        }
        self.set_thread(id, &record);
        Ok(())
    }

    /// The record of a thread.
    pub fn thread(&self, id: Pid) -> Option<ThreadRecord> {
        self.threads.get(&id).map(|followed| followed.record)
    }

    /// Replaces the record of a thread that does not run.
    pub fn set_thread(&mut self, id: Pid, record: &ThreadRecord) {
        self.window.set(id.as_raw() as usize, record[thread::IN_WINDOW] != 0);
        let new = || Followed { record: *record, back: 0, armed: [None; 4] };
        self.threads.entry(id).or_insert_with(new).record = *record;
    }

    /// Forgets a thread that has ended.
    pub fn remove_thread(&mut self, id: Pid) {
        self.threads.remove(&id);
        self.window.set(id.as_raw() as usize, false);
    }

    /// The window bits, to be mapped by a ledger.
    pub fn window(&self) -> Arc<OwnedFd> {
        self.window_fd.clone()
    }

    /// The counters of a process.
    pub fn process(&self, pid: Pid) -> Option<ProcessRecord> {
        self.processes.get(&pid).map(|steered| steered.counters)
    }

    /// Forgets a process.
    pub fn remove_process(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }

    /// Finds the places of a process that is kept at its entry point. `ledger` is where its ledger counts
    /// blocks.
    pub fn introduce(&mut self, pid: Pid, mappings: &[Mapping], ledger: u64) {
        let Some(steered) = self.processes.get_mut(&pid) else { return };
        steered.counters[process::LEDGER] = ledger;
        steered.places = Places::of(&self.files, mappings);
        steered.bypass = Some(Bypass::new(mappings));
    }

    /// Where test bodies are entered in a process.
    pub fn entries(&self, pid: Pid) -> Vec<u64> {
        self.processes.get(&pid).map(|steered| steered.places.entries.clone()).unwrap_or_default()
    }

    /// Looks for libraries whose calls of the allocator the ledger does not see, before one is unloaded
    /// and at the end. `reader` is a thread that is stopped.
    ///
    /// # Errors
    /// Its memory is closed to us.
    pub fn look(
        &mut self,
        pid: Pid,
        reader: Pid,
        mappings: Option<&[Mapping]>,
        libc: &Library,
    ) -> std::result::Result<(), String> {
        if let Some(Steered { counters, bypass: Some(bypass), .. }) = self.processes.get_mut(&pid) {
            let count = mappings.and_then(|mappings| bypass.count(reader, mappings, libc));
            counters[process::BYPASSED] += count.ok_or(CLOSED)?;
        }
        Ok(())
    }

    /// Sets the breakpoints that a stopped thread needs next.
    ///
    /// # Errors
    /// The system has none left. A thread that is gone needs none.
    pub fn arm(&mut self, owner: Pid, id: Pid) -> std::result::Result<(), String> {
        let (Some(steered), Some(followed)) = (self.processes.get(&owner), self.threads.get_mut(&id)) else {
            return Ok(());
        };
        let wanted = if followed.record[thread::BODY_SP] != 0 {
            steered.places.in_body(followed.back)
        } else if steered.counters[process::BODIES] > 0 {
            steered.places.after_start()
        } else {
            steered.places.before(id == owner)
        };
        if wanted == followed.armed {
            return Ok(());
        }
        // Some may be set where others are refused: a hit at any of them is ours.
        let before = std::mem::replace(&mut followed.armed, wanted);
        match sys::set_breakpoints(id, before, wanted) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(format!("the system refuses a hardware breakpoint: {errno}")),
        }
    }

    /// Deals with a thread that a breakpoint has stopped; none if that was no breakpoint of ours.
    ///
    /// # Errors
    /// As for `arm`, or its memory is closed to us. It was a breakpoint of ours all the same.
    pub fn hit(
        &mut self,
        owner: Pid,
        id: Pid,
        registers: &Registers,
    ) -> std::result::Result<Option<Hit>, String> {
        let (Some(steered), Some(followed)) = (self.processes.get_mut(&owner), self.threads.get_mut(&id))
        else {
            return Ok(None);
        };
        if !followed.armed.contains(&Some(registers.rip)) {
            return Ok(None);
        }
        let (record, sp) = (&mut followed.record, registers.rsp);
        let body = record[thread::BODY_SP];
        let mut hit = Hit::Other;
        if Some(registers.rip) == steered.places.exit {
            note_exit(record, registers);
        } else if Some(registers.rip) == steered.places.unload {
            return Ok(Some(Hit::Unload));
        } else if steered.places.lookups.contains(&registers.rip) {
            let asks = asks_around(id, record, registers).ok_or(CLOSED)?;
            steered.counters[process::LOOKED_UP] += u64::from(asks);
            return Ok(Some(Hit::Other));
        } else if body == 0 {
            let back = read_word(id, sp).ok_or(CLOSED)?;
            followed.back = back;
            record[thread::BODY_SP] = sp;
            record[thread::IN_WINDOW] = 1;
            if steered.counters[process::BODIES] == 0 {
                let ledger = steered.counters[process::LEDGER];
                steered.counters[process::BEFORE_BODY] = read_word(id, ledger).unwrap_or(0);
            }
            steered.counters[process::BODIES] += 1;
            self.window.set(id.as_raw() as usize, true);
            hit = Hit::Enter;
        } else if is_end(registers, followed.back, body) {
            record[thread::BODY_SP] = 0;
            record[thread::IN_WINDOW] = 0;
            self.window.set(id.as_raw() as usize, false);
            if registers.rip == followed.back {
                hit = Hit::Return;
            }
        }
        self.arm(owner, id).map(|()| Some(hit))
    }
}

/// Whether a body ends: its very frame has returned, or a panic has been caught by the frame that
/// catches, as high as the body's caller or a little higher. Far higher is another stack, of a
/// coroutine.
fn is_end(registers: &Registers, back: u64, body: u64) -> bool {
    let above = registers.rsp.wrapping_sub(body);
    if registers.rip == back { above == 8 } else { above < NEAR }
}

/// Whether a handle is asked for a function of the allocator, as the eBPF program has it: the program's
/// own finds the ledger's, like `RTLD_DEFAULT`; `RTLD_NEXT` is for libraries that take the allocator over.
/// None if its memory is closed to us.
fn asks_around(id: Pid, record: &ThreadRecord, registers: &Registers) -> Option<bool> {
    if [0, u64::MAX, record[thread::PROGRAM]].contains(&registers.rdi) {
        return Some(false);
    }
    let name = read(id, registers.rsi, LONGEST);
    let name = name.split(|byte| *byte == 0).next().filter(|_| !name.is_empty())?;
    Some(ALLOCATOR.iter().any(|function| function.as_bytes() == name))
}

/// Remembers where `exit` was called: from there down the stack holds nothing of the program's.
fn note_exit(record: &mut ThreadRecord, registers: &Registers) {
    record[thread::EXIT_SP] = registers.rsp;
    let Registers { rbx, rbp, r12, r13, r14, r15, .. } = *registers;
    record[thread::EXIT_REGISTERS..][..6].copy_from_slice(&[rbx, rbp, r12, r13, r14, r15]);
}
