//! The `bpf` system call for tracepoints, and for lists that the kernel keeps (`bpf_iter`).

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::bpf::bpf;

const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_ITER_CREATE: libc::c_long = 33;
const BPF_TRACE_ITER: u32 = 28;

/// The part of `union bpf_attr` (include/uapi/linux/bpf.h) for a tracepoint.
#[repr(C)]
#[derive(Default)]
struct TracepointAttributes {
    name: u64,
    program: u32,
    padding: u32,
}

/// The same for what a list is to show.
#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    choice: u64,
    choice_length: u32,
    padding: u32,
}

/// `union bpf_iter_link_info` for lists of tasks.
#[repr(C)]
struct TaskChoice {
    thread: u32,
    process: u32,
    process_fd: u32,
}

/// The same for reading one.
#[repr(C)]
#[derive(Default)]
struct ListAttributes {
    link: u32,
    flags: u32,
}

/// Lets a program run at a tracepoint, until what is returned is closed.
///
/// # Errors
/// There is no such tracepoint, or it has fewer arguments than the program reads.
pub fn attach_tracepoint(program: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
    let mut attributes = TracepointAttributes {
        name: name.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        ..Default::default()
    };
    // SAFETY: the name outlives the call.
    let fd = unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attributes) }?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a program writes of each entry of its list that belongs to a process.
///
/// # Errors
/// The kernel refuses, for one because there is no such process.
pub fn list_of_process(program: BorrowedFd<'_>, process: Pid) -> std::io::Result<Vec<u8>> {
    let choice = TaskChoice { thread: 0, process: process.as_raw() as u32, process_fd: 0 };
    let mut attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        attach_type: BPF_TRACE_ITER,
        choice: (&raw const choice) as u64,
        choice_length: size_of::<TaskChoice>() as u32,
        ..Default::default()
    };
    // SAFETY: the choice outlives the call.
    let link = unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    let mut attributes = ListAttributes { link: link.as_raw_fd() as u32, flags: 0 };
    // SAFETY: the attributes point to nothing.
    let list = unsafe { bpf(BPF_ITER_CREATE, &mut attributes) }?;
    // SAFETY: as above.
    let list = File::from(unsafe { OwnedFd::from_raw_fd(list) });
    // With room, and as something that has no size, it is read in few calls.
    let mut bytes = Vec::with_capacity(4096);
    list.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
