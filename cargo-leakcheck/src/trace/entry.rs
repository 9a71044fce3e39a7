//! Between the loader and the program: the private C library is loaded, nothing of the program or
//! its constructors has run. Here our entry is taken out of the environment, and the canary block
//! is planted.

use leakcheck_common::{CANARY_SIZE, thread};
use nix::sys::ptrace::{getregs, setregs};
use nix::unistd::Pid;

use super::kernel::Kernel;
use super::memory;
use super::prepare::Library;
use super::process::{Phase, Process};
use crate::model::Window;
use crate::snapshot::Loss;
use crate::{harvest, sys};

const AT_ENTRY: u64 = 9;
const BREAKPOINT: u64 = 0xcc;

/// Stops the process at its entry point, the next time it comes there.
///
/// # Errors
/// Why that is not possible.
pub fn arm(process: &mut Process) -> Result<(), String> {
    let path = format!("/proc/{}/auxv", process.pid);
    let vector = std::fs::read(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8")))
        .collect();
    let entry = words
        .chunks_exact(2)
        .find_map(|pair| (pair[0] == AT_ENTRY).then_some(pair[1]))
        .ok_or_else(|| format!("{path} names no entry point"))?;
    let stopped = sys::read_word(process.pid, entry).and_then(|word| {
        sys::write_word(process.pid, entry, word & !0xff | BREAKPOINT)?;
        Ok(word)
    });
    let word = stopped.map_err(|errno| format!("cannot place a breakpoint at {entry:#x}: {errno}"))?;
    process.phase = Phase::Loading { entry, word };
    Ok(())
}

/// Handles a breakpoint trap of the main thread; false if it is not ours but the program's own.
pub fn trapped(kernel: &mut Kernel, process: &mut Process) -> bool {
    let Ok(mut registers) = getregs(process.pid) else { return false };
    match std::mem::replace(&mut process.phase, Phase::Running) {
        Phase::Loading { entry, word } if registers.rip == entry + 1 => {
            registers.rip = entry;
            match plant(kernel, process, registers, entry) {
                Ok(()) => {
                    let registers = Box::new(registers);
                    process.phase = Phase::Canary { entry, word, registers };
                }
                Err(reason) => {
                    process.losses.push(Loss::NoCanary { reason });
                    resume(process.pid, entry, word, registers);
                }
            }
            true
        }
        Phase::Canary { entry, word, registers: saved } if registers.rip == entry + 1 => {
            // The harvest looks whether it is there.
            process.canary = Some(registers.rax);
            set_window(kernel, process, process.test.window == Window::Process);
            resume(process.pid, entry, word, *saved);
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
    kernel: &mut Kernel,
    process: &mut Process,
    registers: nix::libc::user_regs_struct,
    entry: u64,
) -> Result<(), String> {
    let libraries = process.libraries.clone().ok_or("the binary is not covered")?;
    let mappings = harvest::mappings(process.pid).map_err(|error| error.to_string())?;
    let of = |library: &Library| {
        let path = library.path.clone();
        mappings.iter().filter(move |mapping| mapping.path == path)
    };
    let code = |library: &Library| of(library).find(|mapping| mapping.executable).map(|it| it.range.clone());
    let first = of(&libraries.libc).find(|mapping| mapping.offset == 0);
    let (Some(first), Some(libc)) = (first, code(&libraries.libc)) else {
        return Err("the private copy of the C library was not loaded".into());
    };
    hide(process.pid, registers.rsp, &mappings, &libraries.preload(process.ledger.as_deref()));
    let mut record = kernel.thread(process.pid).map_err(|error| error.to_string())?;
    record[thread::LIBC_START] = libc.start;
    record[thread::LIBC_SIZE] = libc.end - libc.start;
    if let Some(cxx) = libraries.cxx.as_deref().and_then(code) {
        record[thread::CXX_START] = cxx.start;
        record[thread::CXX_SIZE] = cxx.end - cxx.start;
    }
    record[thread::IN_WINDOW] = 0;
    kernel.set_thread(process.pid, &record).map_err(|error| error.to_string())?;

    let mut malloc = first.range.start + libraries.malloc;
    if let Some(ledger) = &process.ledger {
        let (control, enter) = ledger.introduce(process.pid, &mappings)?;
        malloc = enter;
        kernel
            .set_ledger(process.pid, control + leakcheck_preload::layout::control::BLOCKS as u64 * 8)
            .map_err(|error| error.to_string())?;
        process.control = Some(control);
    }
    let mut call = registers;
    call.rip = malloc;
    call.rdi = CANARY_SIZE;
    // Below the red zone, aligned as the ABI wants it at a function's entry.
    call.rsp = ((registers.rsp - 256) & !15) - 8;
    call.orig_rax = u64::MAX;
    if !memory::write(process.pid, call.rsp, &entry.to_ne_bytes()) {
        return Err("its stack cannot be written".into());
    }
    setregs(process.pid, call).map_err(|errno| format!("cannot set its registers: {errno}"))
}

fn set_window(kernel: &mut Kernel, process: &Process, open: bool) {
    // Without a record nothing is seen in the window, and `BODIES` or the canary tells.
    if let Ok(mut record) = kernel.thread(process.pid) {
        record[thread::IN_WINDOW] = u64::from(open);
        let _ = kernel.set_thread(process.pid, &record);
    }
}

fn resume(pid: Pid, entry: u64, word: u64, registers: nix::libc::user_regs_struct) {
    // A process that is gone needs no registers.
    let _ = sys::write_word(pid, entry, word);
    let _ = setregs(pid, registers);
}

/// Takes the private libraries out of the environment on the initial stack, whose layout is that of
/// the System V ABI: argument count, arguments, 0, environment, 0. The loader has read it already,
/// and the program has not.
fn hide(pid: Pid, stack: u64, mappings: &[crate::snapshot::Mapping], preload: &str) {
    let Some(mapping) = mappings.iter().find(|mapping| mapping.range.contains(&stack)) else { return };
    let bytes = memory::read(pid, stack, (mapping.range.end - stack) as usize);
    let word = |index: usize| -> Option<u64> {
        let bytes = bytes.get(index * 8..index * 8 + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let ours = format!("LD_PRELOAD={preload}");
    let Some(count) = word(0) else { return };
    for index in count as usize + 2.. {
        let Some(pointer) = word(index).filter(|pointer| *pointer != 0) else { return };
        let Some(text) = pointer.checked_sub(stack).and_then(|start| bytes.get(start as usize..)) else {
            continue;
        };
        let Some(rest) = text.strip_prefix(ours.as_bytes()) else { continue };
        let rest = &rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(0)];
        let mut replacement = match rest.strip_prefix(b":") {
            Some(theirs) => [b"LD_PRELOAD=", theirs].concat(),
            // Ours alone is the last variable.
            None => {
                memory::write(pid, stack + index as u64 * 8, &[0; 8]);
                Vec::new()
            }
        };
        replacement.resize(ours.len() + rest.len(), 0);
        memory::write(pid, pointer, &replacement);
        return;
    }
}
