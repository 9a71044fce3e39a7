//! IPC objects: who has made them.
//!
//! Which of them a test leaves behind is told by its namespace and by `/dev/shm`, at its end. Here is written
//! down what those do not know: from where they were made. A record begins with the call, and becomes the
//! object's when the call returns; the object's removal removes it. So a loop that makes and removes objects
//! does not fill the table.

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::generated::{bpf_ktime_get_ns, bpf_probe_read_user_str};
use aya_ebpf::helpers::{bpf_get_attach_cookie, bpf_probe_read_user};
use aya_ebpf::programs::ProbeContext;
use leakcheck_common::{file, ipc, process, site};

use crate::file::describe;
use crate::maps::{self, Current, EMPTY_IPC};

/// `IPC_CREAT` and `IPC_EXCL` of `sys/ipc.h`.
const IPC_CREAT: u64 = 0o1000;
const IPC_EXCL: u64 = 0o2000;
/// `O_CREAT` and `O_EXCL` of `fcntl.h`.
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
/// `IPC_RMID`, which removes an object.
const IPC_RMID: u32 = 0;
/// Slashes in front of a name that are looked past.
const SLASHES: usize = 4;

/// A function is entered, or returns.
#[inline(always)]
pub fn called(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    current.thread()?;
    // SAFETY: the context is the one this program was called with.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let kind = cookie & 0xff;
    let calling = [u64::from(current.process) | (kind | ipc::CALLING) << 32, current.thread.into()];
    match cookie - kind {
        site::IPC_MAKE => enter(ctx, current, kind, &calling),
        site::IPC_MADE => {
            let made = leave(ctx, current, kind, &calling);
            maps::ipc().remove(&calling);
            made
        }
        site::IPC_REMOVE => remove(ctx, current, kind, &calling),
        _ => None,
    }
}

/// The first arguments of the function that is entered.
#[inline(always)]
fn arguments(ctx: &ProbeContext) -> [u64; 3] {
    // SAFETY: the registers are the context that the kernel passed to this program. The verifier wants each
    // read at its own fixed offset; an ordinary read may become one at an offset that depends.
    unsafe {
        let regs = ctx.regs;
        [&raw const (*regs).rdi, &raw const (*regs).rsi, &raw const (*regs).rdx]
            .map(|word| word.read_volatile())
    }
}

/// A call that makes an object begins.
#[inline(always)]
fn enter(ctx: &ProbeContext, current: Current, kind: u64, calling: &[u64; 2]) -> Option<()> {
    let named = kind >= ipc::POSIX_QUEUE;
    let [first, second, third] = arguments(ctx);
    let flags = if kind == ipc::MESSAGES || named { second } else { third };
    let (creates, exclusive) = if named {
        (flags & O_CREAT != 0, flags & O_EXCL != 0)
    } else {
        // The key `IPC_PRIVATE` always makes a new one.
        (first as u32 == 0 || flags & IPC_CREAT != 0, flags & IPC_EXCL != 0)
    };
    if !creates {
        return None;
    }
    current.count(process::IPC_CALLS, 1);
    let record = start(current, calling)?;
    // SAFETY: a helper without arguments.
    record[ipc::TIME] = unsafe { bpf_ktime_get_ns() };
    record[ipc::EXCLUSIVE] = exclusive.into();
    if named {
        read_name(first, record);
    }
    // SAFETY: the record ends with so many words, which nobody else refers to.
    let place = unsafe { &mut *record.as_mut_ptr().add(ipc::PLACE).cast::<[u64; file::WORDS]>() };
    describe(current, place);
    // An instruction that has not run yet: what is looked up is in front of it.
    place[file::IP] += 1;
    Some(())
}

/// An empty record for the running thread's call.
#[inline(always)]
fn start(current: Current, calling: &[u64; 2]) -> Option<&'static mut [u64; ipc::WORDS]> {
    if let Err(refusal) = maps::ipc().put(calling, EMPTY_IPC.get(0)?, BPF_ANY) {
        refusal.count(current, process::LOST_IPC_CALLS);
        return None;
    }
    // SAFETY: the key is the running thread's: nobody else changes the record.
    Some(unsafe { &mut *maps::ipc().get(calling)? })
}

/// Writes a name into a record, without the slashes in front of it.
#[inline(always)]
fn read_name(mut address: u64, record: &mut [u64; ipc::WORDS]) -> Option<()> {
    for _ in 0..SLASHES {
        // SAFETY: the helper checks the address.
        if unsafe { bpf_probe_read_user(address as *const u8) }.ok()? != b'/' {
            break;
        }
        address += 1;
    }
    let room = record[ipc::NAME..].as_mut_ptr().cast::<c_void>();
    // SAFETY: there is room for so many words; the helper checks the address.
    unsafe { bpf_probe_read_user_str(room, (ipc::NAME_WORDS * 8) as u32, address as *const c_void) };
    Some(())
}

/// By what a record's object is looked up: the hash of its name.
#[inline(always)]
fn hash(record: &[u64; ipc::WORDS]) -> u64 {
    // SAFETY: the words of the name are a part of the record.
    ipc::hash(unsafe { &*record.as_ptr().add(ipc::NAME).cast::<[u64; ipc::NAME_WORDS]>() })
}

/// The call ends: from now on the record is that of its object, if it was successful.
#[inline(always)]
fn leave(ctx: &ProbeContext, current: Current, kind: u64, calling: &[u64; 2]) -> Option<()> {
    // SAFETY: the key is the running thread's: nobody else changes the record.
    let record = unsafe { &*maps::ipc().get(calling)? };
    // SAFETY: the registers are the context that the kernel passed to this program.
    let result = unsafe { (*ctx.regs).rax };
    let failed = if kind == ipc::POSIX_SEMAPHORE { result == 0 } else { (result as i32) < 0 };
    if failed {
        return None;
    }
    let which = if kind >= ipc::POSIX_QUEUE { hash(record) } else { result as u32 as u64 };
    let key = [u64::from(current.process) | kind << 32, which];
    // What the call itself was seen to open is described better by it.
    if let Some(opened) = maps::ipc().get(&key)
        // SAFETY: the map keeps the value for as long as the program runs.
        && unsafe { (*opened)[ipc::EXCLUSIVE] >= ipc::BY_OPEN && (*opened)[ipc::TIME] >= record[ipc::TIME] }
    {
        maps::ipc().remove(&key);
    }
    // An object that was there before keeps its record.
    let flags = if record[ipc::EXCLUSIVE] == 1 { BPF_ANY } else { BPF_NOEXIST };
    if let Err(refusal) = maps::ipc().put(&key, record, flags) {
        refusal.count(current, process::LOST_IPC_CALLS);
    }
    Some(())
}

/// An object is being removed.
#[inline(always)]
fn remove(ctx: &ProbeContext, current: Current, kind: u64, calling: &[u64; 2]) -> Option<()> {
    let [first, second, third] = arguments(ctx);
    let which = if kind >= ipc::POSIX_QUEUE {
        let record = start(current, calling)?;
        read_name(first, record);
        let hash = hash(record);
        maps::ipc().remove(calling);
        hash
    } else {
        // `semctl` has the command behind the number of the semaphore.
        let command = if kind == ipc::SEMAPHORES { third } else { second };
        if command as u32 != IPC_RMID {
            return None;
        }
        u64::from(first as u32)
    };
    maps::ipc().remove(&[u64::from(current.process) | kind << 32, which]);
    Some(())
}
