//! Files in `/dev/shm` that are created by `open` itself, and by processes that a test has started: none of the
//! C library's functions that are probed has been called there.

use core::ffi::c_void;

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_user_str};
use leakcheck_common::{file as file_words, ipc, process, started};

use crate::file;
use crate::maps::{self, Current, EMPTY_IPC};

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl).
const OPEN: u64 = 2;
const CREAT: u64 = 85;
const OPENAT: u64 = 257;
/// `O_CREAT` of `fcntl.h`.
const O_CREAT: u64 = 0o100;
/// `/dev/shm`, as a word in memory.
const DIRECTORY: u64 = u64::from_le_bytes(*b"/dev/shm");
const DIRECTORY_BYTES: u64 = 9;

/// The running thread makes a file; if it is in its window, `maker` says who that is, otherwise its ids are 0.
#[inline(always)]
pub fn opens(maker: Current) -> Option<()> {
    let registers = file::registers();
    let (path, flags) = match registers.orig_rax {
        OPENAT => (registers.rsi, registers.rdx),
        OPEN => (registers.rdi, registers.rsi),
        CREAT => (registers.rdi, O_CREAT),
        _ => return None,
    };
    if flags & O_CREAT == 0 {
        return None;
    }
    // SAFETY: a helper without arguments.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let mut owner = maker;
    if maker.process == 0 {
        let ancestor = maps::started().get(&((ids >> 32) as u32))?;
        // SAFETY: the map keeps the value for as long as the program runs.
        let process = unsafe { (*ancestor)[started::OWNER] } as u32;
        owner = Current { process, thread: process };
    }
    // SAFETY: the helper checks the address.
    if unsafe { bpf_probe_read_user(path as *const u64) }.ok()? != DIRECTORY
        // SAFETY: as above.
        || unsafe { bpf_probe_read_user((path + 8) as *const u8) }.ok()? != b'/'
    {
        return None;
    }
    // The key of a call that has no kind: one of the C library's functions may be in flight.
    let own = [u64::from(owner.process) | ipc::CALLING << 32, ids & 0xffff_ffff];
    maps::ipc().put(&own, EMPTY_IPC.get(0)?, BPF_ANY).ok()?;
    // SAFETY: the map keeps the value for as long as the program runs.
    let record = unsafe { &mut *maps::ipc().get(&own)? };
    let room = record[ipc::NAME..].as_mut_ptr().cast::<c_void>();
    // SAFETY: there is room for so many words; the helper checks the address.
    unsafe {
        bpf_probe_read_user_str(room, (ipc::NAME_WORDS * 8) as u32, (path + DIRECTORY_BYTES) as *const c_void)
    };
    // SAFETY: a helper without arguments.
    record[ipc::TIME] = unsafe { bpf_ktime_get_ns() };
    record[ipc::EXCLUSIVE] = if maker.process > 0 { ipc::BY_OPEN } else { ipc::BY_DESCENDANT };
    if maker.process > 0 {
        // SAFETY: the record ends with so many words, which nobody else refers to.
        let place = unsafe { &mut *record.as_mut_ptr().add(ipc::PLACE).cast::<[u64; file_words::WORDS]>() };
        file::describe(owner, place);
    }
    // SAFETY: the words of the name are a part of the record.
    let name = unsafe { &*record.as_ptr().add(ipc::NAME).cast::<[u64; ipc::NAME_WORDS]>() };
    let key = [u64::from(owner.process) | ipc::POSIX_MEMORY << 32, ipc::hash(name)];
    owner.count(process::IPC_CALLS, 1);
    // What finds no room here is not counted: most files of this kind are gone before the test ends.
    let _ = maps::ipc().put(&key, record, BPF_NOEXIST);
    maps::ipc().remove(&own);
    Some(())
}
