//! Reading and writing a process's memory.

use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt as _;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// Reads up to `length` bytes; fewer where the memory ends, none where there is none.
pub fn read(pid: Pid, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        let remote = RemoteIoVec { base: address as usize + done, len: length - done };
        match process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes[done..])], &[remote]) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    bytes.truncate(done);
    bytes
}

/// The same of memory that its owner has made inaccessible (mm/gup.c, `FOLL_FORCE`).
pub fn read_protected(pid: Pid, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    let count = memory.and_then(|memory| memory.read_at(&mut bytes, address)).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

/// Reads one word.
pub fn read_word(pid: Pid, address: u64) -> Option<u64> {
    read(pid, address, 8).try_into().ok().map(u64::from_ne_bytes)
}

/// Writes `bytes`; whether all of them could be written.
pub fn write(pid: Pid, address: u64, bytes: &[u8]) -> bool {
    let remote = RemoteIoVec { base: address as usize, len: bytes.len() };
    process_vm_writev(pid, &[IoSlice::new(bytes)], &[remote]) == Ok(bytes.len())
}
