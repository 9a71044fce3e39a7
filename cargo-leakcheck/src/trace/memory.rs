//! Reading and writing a process's memory.

use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt as _;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// What is read first, in bytes; then twice that, and so on: a length that the process has written
/// somewhere asks for no more memory than there is.
const FIRST: usize = 64 << 10;

/// Fills `bytes` with what is at an address; how many there are.
pub fn read_into(pid: Pid, address: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let Some(from) = address.checked_add(done as u64) else { break };
        match read_some(pid, from, &mut bytes[done..]) {
            0 => break,
            count => done += count,
        }
    }
    done
}

/// Reads up to `length` bytes; fewer where the memory ends, none where there is none.
pub fn read(pid: Pid, address: u64, length: usize) -> Vec<u8> {
    pieces(address, length, |address, bytes| read_some(pid, address, bytes))
}

fn read_some(pid: Pid, address: u64, bytes: &mut [u8]) -> usize {
    let remote = RemoteIoVec { base: address as usize, len: bytes.len() };
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &[remote]).unwrap_or(0)
}

/// The same of memory that its owner has made inaccessible (mm/gup.c, `FOLL_FORCE`).
pub fn read_protected(pid: Pid, address: u64, length: usize) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    pieces(address, length, |address, bytes| memory.read_at(bytes, address).unwrap_or(0))
}

fn pieces(address: u64, length: usize, mut read: impl FnMut(u64, &mut [u8]) -> usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < length {
        if done == bytes.len() {
            bytes.resize(length.min(done.max(FIRST / 2) * 2), 0);
        }
        let Some(from) = address.checked_add(done as u64) else { break };
        match read(from, &mut bytes[done..]) {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    bytes
}

/// The words in bytes of this machine; what is less than one at the end is left out.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
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

/// Writes to several places at once; whether all of it could be written.
pub fn write_all(pid: Pid, writes: &[(u64, &[u8])]) -> bool {
    let local: Vec<_> = writes.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
    let remote: Vec<_> =
        writes.iter().map(|(place, bytes)| RemoteIoVec { base: *place as usize, len: bytes.len() }).collect();
    let all = writes.iter().map(|(_, bytes)| bytes.len()).sum();
    process_vm_writev(pid, &local, &remote) == Ok(all)
}
