//! The `bpf` system call where aya has no way to it: `uprobe_multi` links, which are removed by one
//! RCU grace period for all of their probes (aya's probes take one of 75-100 ms each, one after the
//! other), and batch deletion.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;

const BPF_PROG_LOAD: libc::c_long = 5;
/// How often it is tried to load a program while signals come.
const LOADS: usize = 10;
const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_long = 21;
const BPF_MAP_DELETE_BATCH: libc::c_long = 27;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_ITER: u32 = 28;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;

/// The part of `union bpf_attr` (include/uapi/linux/bpf.h) for batch operations.
#[repr(C)]
#[derive(Default)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// The same for one element.
#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The same for loading a program.
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

/// Deletes `keys` from a hash map by one system call; keys that are not there are passed over. aya
/// deletes one key a call, which costs more than the rest of a test's clean-up.
pub fn delete_batch<K: Copy>(map: BorrowedFd<'_>, mut keys: &[K]) -> Result<(), Errno> {
    while !keys.is_empty() {
        let mut attributes = BatchAttributes {
            keys: keys.as_ptr() as u64,
            count: keys.len() as u32,
            map_fd: map.as_raw_fd() as u32,
            ..Default::default()
        };
        // SAFETY: the kernel reads `count` keys of the map's key size, which is K's at every call,
        // and writes `count` back; keys and attributes outlive the call.
        match unsafe { bpf(BPF_MAP_DELETE_BATCH, &mut attributes) } {
            Ok(_) => return Ok(()),
            // `count` says how many were deleted before the missing one.
            Err(Errno::ENOENT) => keys = &keys[attributes.count as usize + 1..],
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Removes an element of a hash map and returns its value, in one step; none if there is no such key.
pub fn take_element<K: aya::Pod, V: aya::Pod>(map: BorrowedFd<'_>, key: &K) -> Option<V> {
    let mut value = std::mem::MaybeUninit::<V>::uninit();
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: key and value have the map's sizes at every call, and outlive it.
    let taken = unsafe { bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &mut attributes) };
    // SAFETY: the kernel has written the value, and any bytes are one.
    taken.ok().map(|_| unsafe { value.assume_init() })
}
