//! From `execve` to the program's entry point, in two stops. Where the loader begins to load
//! libraries it has read the environment, and nothing else has: what it was lent is taken back there. At
//! the entry point the private C library is there, and nothing of the program has run: the canary
//! block is planted.

use leakcheck_common::{CANARY_SIZE, thread};
use nix::sys::ptrace::{getregs, setregs};
use nix::unistd::Pid;

use super::ledger::Says;
use super::libraries::{Library, Start};
use super::process::{Breakpoint, Phase, Process};
use super::steering::Steering;
use super::{ThreadRecord, memory, preload};
use crate::model::Window;
use crate::snapshot::{Loss, Mapping};
use crate::{harvest, sys};

const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SECURE: u64 = 23;
const BREAKPOINT: u64 = 0xcc;

/// Has the process, which has just executed its program, preload the libraries, and stops it where its
/// loader begins to load.
///
/// # Errors
/// Why that is not possible.
pub fn arm(process: &mut Process) -> Result<(), String> {
    let libraries = process.libraries.as_ref().ok_or("the binary is not covered")?;
    let path = format!("/proc/{}/auxv", process.pid);
    let vector = sys::contents(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8")))
        .collect();
    let value = |key: u64| {
        let mut pairs = words.chunks_exact(2);
        let found = pairs.find_map(|pair| (pair[0] == key).then_some(pair[1]));
        found.ok_or_else(|| format!("{path} has no entry {key}"))
    };
    process.log = libraries.log.and_then(|behind| Some(value(AT_ENTRY).ok()?.wrapping_add(behind)));
    let loader = match libraries.start {
        Start::Loader(loader) => loader,
        Start::Function(offset) => {
            let begin = first_page(process.pid, &libraries.libc)? + offset;
            process.phase = Phase::Loading { entry: place(process.pid, begin)?, modules: None };
            return Ok(());
        }
    };
    let (base, entry) = (value(AT_BASE)?, value(AT_ENTRY)?);
    if value(AT_SECURE)? != 0 {
        return Err("it has privileges of its file (set-uid): its loader preloads nothing".into());
    }
    let stack = getregs(process.pid).map_err(|errno| format!("cannot read its registers: {errno}"))?.rsp;
    let loading = place(process.pid, base + loader.loading)?;
    let modules = Some(base + loader.modules);
    let lent =
        preload::lend(process.pid, stack, |theirs| libraries.preload(process.ledger.as_deref(), theirs))
            .inspect_err(|_| lift(process.pid, loading))?;
    process.phase = Phase::Starting { loading, lent, entry, modules };
    Ok(())
}

/// Where the first page of a module is.
fn first_page(pid: Pid, module: &Library) -> Result<u64, String> {
    let mappings = harvest::mappings(pid).map_err(|error| error.to_string())?;
    let first = mappings.iter().find(|mapping| mapping.path == module.path && mapping.offset == 0);
    first.map(|mapping| mapping.range.start).ok_or_else(|| format!("{} is not mapped", module.path))
}

fn place(pid: Pid, address: u64) -> Result<Breakpoint, String> {
    let placed = sys::read_word(pid, address).and_then(|word| {
        sys::write_word(pid, address, word & !0xff | BREAKPOINT)?;
        Ok(Breakpoint { address, word })
    });
    placed.map_err(|errno| format!("cannot place a breakpoint at {address:#x}: {errno}"))
}

/// Handles a breakpoint trap of the main thread; false if it is not ours but the program's own.
pub fn trapped(steering: &mut Steering, process: &mut Process) -> bool {
    let Ok(mut registers) = getregs(process.pid) else { return false };
    let is_at = |breakpoint: Breakpoint| registers.rip == breakpoint.address + 1;
    match std::mem::replace(&mut process.phase, Phase::Running) {
        Phase::Starting { loading, lent, entry, modules } if is_at(loading) => {
            registers.rip = loading.address;
            preload::give_back(process.pid, &lent);
            match place(process.pid, entry) {
                Ok(entry) => process.phase = Phase::Loading { entry, modules },
                Err(reason) => process.refused(reason),
            }
            resume(process.pid, loading, registers);
            true
        }
        Phase::Loading { entry, modules } if is_at(entry) => {
            registers.rip = entry.address;
            match plant(steering, process, registers, entry.address, modules) {
                Ok(()) => process.phase = Phase::Canary { entry, registers: Box::new(registers) },
                Err(reason) => {
                    process.refused(reason);
                    resume(process.pid, entry, registers);
                }
            }
            true
        }
        Phase::Canary { entry, registers: saved } if is_at(entry) => {
            // The harvest looks whether it is there.
            process.canary = Some(registers.rax);
            if process.window == Window::Process {
                open_window(steering, process);
            }
            turn_log_on(process);
            steering.arm(process, process.pid);
            resume(process.pid, entry, *saved);
            true
        }
        phase => {
            process.phase = phase;
            false
        }
    }
}

/// Pushes a call of the private library's `malloc` in front of the program; it returns to the
/// breakpoint.
fn plant(
    steering: &mut Steering,
    process: &mut Process,
    registers: nix::libc::user_regs_struct,
    entry: u64,
    modules: Option<u64>,
) -> Result<(), String> {
    let loaded = Loaded::of(process, modules)?;
    loaded.record(steering, process)?;
    if process.held.is_some() && process.window == Window::Process {
        steering.list(process);
    }
    let mut malloc = loaded.malloc;
    if let Some(ledger) = &process.ledger {
        let (control, enter) = ledger.introduce(process.pid, &loaded.mappings, &Says::of(process))?;
        malloc = enter;
        process.control = Some(control);
        loaded.introduce(steering, process.pid, control)?;
        if process.wanted.peak_stacks {
            harvest::begin(steering, process, process.pid, control)?;
        }
    }
    call(process.pid, registers, registers.rsp - 256, entry, (malloc, [CANARY_SIZE, 0, 0]))
}

/// Has a process that is kept call a function with arguments, below a place of its stack; it returns to `back`.
///
/// # Errors
/// It cannot be written to.
pub fn call(
    pid: Pid,
    registers: nix::libc::user_regs_struct,
    below: u64,
    back: u64,
    (function, [a, b, c]): (u64, [u64; 3]),
) -> Result<(), String> {
    let mut call = registers;
    call.rip = function;
    (call.rdi, call.rsi, call.rdx) = (a, b, c);
    // Below the red zone, aligned as the ABI wants it at a function's entry.
    call.rsp = (below & !15) - 8;
    call.orig_rax = u64::MAX;
    if !memory::write(pid, call.rsp, &back.to_ne_bytes()) {
        return Err("its stack cannot be written".into());
    }
    setregs(pid, call).map_err(|errno| format!("cannot set its registers: {errno}"))
}

/// What is there when a process comes to its entry point.
pub struct Loaded {
    /// All mappings.
    pub mappings: Vec<Mapping>,
    /// Words of the first thread's record.
    words: Vec<(usize, u64)>,
    /// Where the C library's `malloc` is.
    malloc: u64,
}

impl Loaded {
    /// In a process that is kept there.
    ///
    /// # Errors
    /// The libraries that it was to preload are not there.
    pub fn of(process: &Process, modules: Option<u64>) -> Result<Self, String> {
        let libraries = process.libraries.as_ref().ok_or("the binary is not covered")?;
        let mappings = harvest::mappings(process.pid).map_err(|error| error.to_string())?;
        let of = |library: &Library| {
            let path = library.path.clone();
            mappings.iter().filter(move |mapping| mapping.path == path)
        };
        let code =
            |library: &Library| of(library).find(|mapping| mapping.executable).map(|it| it.range.clone());
        let first = of(&libraries.libc).find(|mapping| mapping.offset == 0);
        let (Some(first), Some(libc)) = (first, code(&libraries.libc)) else {
            return Err("the private copy of the C library was not loaded".into());
        };
        let libc = libraries.span.map_or(libc, |(start, size)| {
            let start = first.range.start + start;
            start..start + size
        });
        let mut words = vec![(thread::LIBC_START, libc.start), (thread::LIBC_SIZE, libc.end - libc.start)];
        if let Some(cxx) = libraries.cxx.as_deref().and_then(code) {
            words.extend([(thread::CXX_START, cxx.start), (thread::CXX_SIZE, cxx.end - cxx.start)]);
        }
        // The second word of the list is its first module, whose address is the handle of the program.
        let program = modules.and_then(|modules| memory::read_word(process.pid, modules + 8));
        words.push((thread::PROGRAM, program.unwrap_or(0)));
        let malloc = first.range.start + libraries.malloc;
        Ok(Self { mappings, words, malloc })
    }

    /// Writes it into the record of the first thread, which is not in the window.
    ///
    /// # Errors
    /// There is none.
    pub fn record(&self, steering: &mut Steering, process: &Process) -> Result<(), String> {
        let mut record = steering.thread(process.pid)?;
        self.write(&mut record, process);
        steering.set_thread(process.pid, &record)
    }

    fn write(&self, record: &mut ThreadRecord, process: &Process) {
        self.words.iter().for_each(|(word, value)| record[*word] = *value);
        record[thread::NOTES] = u64::from(process.notes_frees);
        record[thread::IN_WINDOW] = 0;
    }

    /// Says what is mapped, and where the ledger with these control words counts blocks.
    ///
    /// # Errors
    /// The process is not followed.
    pub fn introduce(&self, steering: &mut Steering, pid: Pid, control: u64) -> Result<(), String> {
        steering.introduce(pid, &self.mappings, blocks(control))
    }

    /// Starts to follow a process that was forked where this is loaded, with its ledger's control words there, and says all of
    /// this at once.
    ///
    /// # Errors
    /// It cannot be followed.
    pub fn follow(&self, steering: &mut Steering, process: &Process, control: u64) -> Result<(), String> {
        let mut record = [0; thread::WORDS];
        record[thread::LAYERS] =
            u64::from(process.libraries.as_ref().is_some_and(|libraries| libraries.layers));
        self.write(&mut record, process);
        let stops_in_body = process.repeated.is_some();
        steering.add_loaded(process.pid, &record, (&self.mappings, blocks(control)), stops_in_body)
    }
}

/// Where the ledger with these control words counts blocks.
fn blocks(control: u64) -> u64 {
    control + leakcheck_preload::layout::control::BLOCKS as u64 * 8
}

/// Has the crate `leakcheck` write down what it is told.
fn turn_log_on(process: &mut Process) {
    if let Some(address) = process.log
        && !memory::write(process.pid, address, &1_u64.to_ne_bytes())
    {
        let name = "the log of leakcheck::ignore and leakcheck::scope".to_owned();
        process.losses.push(Loss::Memory { address, bytes: 8, name });
    }
}

fn open_window(steering: &mut Steering, process: &Process) {
    // Without a record nothing is seen in the window, and `BODIES` or the canary tells.
    if let Ok(mut record) = steering.thread(process.pid) {
        record[thread::IN_WINDOW] = 1;
        let _ = steering.set_thread(process.pid, &record);
    }
}

fn resume(pid: Pid, breakpoint: Breakpoint, registers: nix::libc::user_regs_struct) {
    lift(pid, breakpoint);
    // A process that is gone needs no registers.
    let _ = setregs(pid, registers);
}

/// Removes a breakpoint.
pub fn lift(pid: Pid, breakpoint: Breakpoint) {
    // Nor does it need its code.
    let _ = sys::write_word(pid, breakpoint.address, breakpoint.word);
}
