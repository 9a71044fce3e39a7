//! The `bpf` system call where aya has no way to it: `uprobe_multi` links, which are removed by one
//! RCU grace period for all of their probes (aya's probes take one of 75-100 ms each, one after the
//! other), and calls of programs.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;

use super::mount::Mount;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_PIN: libc::c_long = 6;
/// How often it is tried to load a program while signals come.
const LOADS: usize = 10;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_ITER: u32 = 28;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;

/// The part of `union bpf_attr` (include/uapi/linux/bpf.h) for loading a program.
#[repr(C)]
#[derive(Default)]
struct ProgramAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
    types_fd: u32,
    function_record_size: u32,
    functions: u64,
    function_count: u32,
    line_record_size: u32,
    lines: u64,
    line_count: u32,
    attach_type_id: u32,
}

/// The same for calling one.
#[repr(C)]
#[derive(Default)]
struct RunAttributes {
    program: u32,
    result: u32,
    data_in_size: u32,
    data_out_size: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size: u32,
    context_out_size: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// What a program is for.
#[derive(Clone, Copy, Debug)]
pub enum ProgramKind {
    /// `uprobe_multi` links.
    Uprobe,
    /// A tracepoint of the kernel.
    Tracepoint,
    /// A list that the kernel keeps; the number is that of the list's function in the kernel's BTF.
    List(u32),
}

/// The same for attaching one to many places of a file.
#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    reference_counters: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    pid: u32,
    padding: u32,
}

/// The same for giving an object a name in a directory.
#[repr(C)]
#[derive(Default)]
struct PinAttributes {
    path: u64,
    object: u32,
    flags: u32,
    directory: i32,
}

/// Calls `bpf`.
///
/// # Safety
/// `attributes` must be the kernel's layout for `command`, and what it points to must be valid for
/// it during the call.
pub(super) unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> Result<i32, Errno> {
    // SAFETY: as the caller promises; the size is that of the attributes.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    Errno::result(result).map(|value| value as i32)
}

/// Loads a program. `instructions` are 8 bytes each.
///
/// # Errors
/// The kernel's refusal, with the end of the verifier's log where it has one.
pub fn load_program(
    kind: ProgramKind,
    name: &str,
    instructions: &[[u8; 8]],
) -> Result<OwnedFd, (Errno, String)> {
    let (kind, expected_attach_type, attach_type_id) = match kind {
        ProgramKind::Uprobe => (BPF_PROG_TYPE_KPROBE, BPF_TRACE_UPROBE_MULTI, 0),
        ProgramKind::Tracepoint => (BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0),
        ProgramKind::List(function) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, function),
    };
    let mut attributes = ProgramAttributes {
        kind,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type,
        attach_type_id,
        ..Default::default()
    };
    let length = name.len().min(attributes.name.len() - 1);
    attributes.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    // A signal, to whichever thread, ends the verifier's work (as libbpf knows).
    let mut loaded = Err(Errno::EAGAIN);
    for _ in 0..LOADS {
        if loaded != Err(Errno::EAGAIN) {
            break;
        }
        // SAFETY: the instructions, the license and the attributes outlive the call.
        loaded = unsafe { bpf(BPF_PROG_LOAD, &mut attributes) };
    }
    let mut log = Vec::new();
    if loaded.is_err() {
        log.resize(1 << 20, 0u8);
        (attributes.log, attributes.log_size, attributes.log_level) =
            (log.as_mut_ptr() as u64, log.len() as u32, 1);
        // SAFETY: as above; the log has the size that is passed.
        loaded = unsafe { bpf(BPF_PROG_LOAD, &mut attributes) };
    }
    match loaded {
        // SAFETY: the kernel has just returned this descriptor to us alone.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(errno) => {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]).into_owned();
            let last = text.lines().rev().nth(1).unwrap_or_default();
            Err((errno, last.to_owned()))
        }
    }
}

/// Attaches a program to offsets of a file, each with a cookie: at the instructions, or where the
/// functions that start there return.
pub fn link_uprobes(
    program: BorrowedFd<'_>,
    file: &CString,
    offsets: &[u64],
    cookies: &[u64],
    at_return: bool,
) -> Result<OwnedFd, Errno> {
    assert_eq!(offsets.len(), cookies.len(), "each offset has its cookie");
    let mut attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        path: file.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        count: offsets.len() as u32,
        multi_flags: if at_return { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
        ..Default::default()
    };
    // SAFETY: the path and both arrays, `count` long, outlive the call.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Removes links without waiting for it: who closes the last descriptor of a link with uprobes waits for an RCU grace period
/// (`uprobe_unregister_sync`), but where a file of theirs was the last that kept them, the kernel puts it off
/// (kernel/bpf/inode.c, `bpf_any_put`). Their programs are called until then. Links that cannot be given a file are returned.
pub fn remove_links(links: Vec<OwnedFd>) -> Vec<OwnedFd> {
    const BPF_F_PATH_FD: u32 = 1 << 14;
    // Goes with its files at the end, when all descriptors are closed.
    let Ok(mount) = Mount::of_bpf() else { return links };
    let is_kept = |(number, link): &(usize, OwnedFd)| {
        let Ok(name) = CString::new(number.to_string()) else { return true };
        let mut attributes = PinAttributes {
            path: name.as_ptr() as u64,
            object: link.as_raw_fd() as u32,
            flags: BPF_F_PATH_FD,
            directory: mount.as_fd().as_raw_fd(),
        };
        // SAFETY: the name and the attributes outlive the call.
        unsafe { bpf(BPF_OBJ_PIN, &mut attributes) }.is_err()
    };
    links.into_iter().enumerate().filter(is_kept).map(|(_, link)| link).collect()
}

/// Calls a program for a tracepoint with these arguments; what it returns.
///
/// # Errors
/// The kernel refuses.
pub fn call_program(program: BorrowedFd<'_>, arguments: &[u64]) -> Result<i32, Errno> {
    let mut attributes = RunAttributes {
        program: program.as_raw_fd() as u32,
        context: arguments.as_ptr() as u64,
        context_size: size_of_val(arguments) as u32,
        ..Default::default()
    };
    // SAFETY: the arguments outlive the call.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.result.cast_signed())
}

/// Waits until all that the kernel has put off until every CPU has passed through it (RCU) may be done, a number of
/// times: what is put off may put off more.
pub fn let_rcu_pass(times: usize) {
    for _ in 0..times {
        // SAFETY: the call takes numbers. It only waits: a kernel that has none has done nothing.
        unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    }
}
