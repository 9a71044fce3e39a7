//! System calls, made directly: the C library's would set `errno`, and could be somebody else's.

use core::arch::asm;
use core::mem::MaybeUninit;

const OPEN: usize = 2;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const CLOSE: usize = 3;
const SCHED_YIELD: usize = 24;
const MADVISE: usize = 28;
const GETPID: usize = 39;
const GETTID: usize = 186;
const PROCESS_VM_READV: usize = 310;

const O_CLOEXEC: usize = 0x80000;
const READ_WRITE: usize = 3;
const SHARED: usize = 1;
const READ: usize = 1;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`.
const PRIVATE: usize = 0x4022;
const WIPEONFORK: usize = 18;
const KEEPONFORK: usize = 19;

/// Makes a system call.
///
/// # Safety
/// As the system call asks for it.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel changes the registers that are named, and the memory that the caller answers for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// New memory, zeroed; its address.
pub fn map(bytes: usize) -> Option<usize> {
    // SAFETY: a new mapping harms nobody.
    let address = unsafe { call(MMAP, [0, bytes, READ_WRITE, PRIVATE, usize::MAX, 0]) };
    usize::try_from(address).ok()
}

/// The memory behind a descriptor, to read; its address.
pub fn map_shared(descriptor: i32, bytes: usize) -> Option<usize> {
    // SAFETY: a new mapping harms nobody.
    let address = unsafe { call(MMAP, [0, bytes, READ, SHARED, descriptor as usize, 0]) };
    usize::try_from(address).ok()
}

/// The start of a file, to read; its address. `path` ends with a zero byte.
pub fn map_file(path: *const u8, bytes: usize) -> Option<usize> {
    // SAFETY: the kernel checks the path.
    let file = unsafe { call(OPEN, [path as usize, O_CLOEXEC, 0, 0, 0, 0]) };
    let file = i32::try_from(file).ok().filter(|file| *file >= 0)?;
    let address = map_shared(file, bytes);
    close(file);
    address
}

/// Closes a descriptor.
pub fn close(descriptor: i32) {
    // SAFETY: no memory is involved.
    unsafe { call(CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Gives memory back that `map` has made.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { call(MUNMAP, [address, bytes, 0, 0, 0, 0]) };
}

/// Makes memory read as zeros in forked children, where a hook may still be running that a signal
/// handler has interrupted; whether the kernel can.
pub fn wipe_in_children(address: usize, bytes: usize) -> bool {
    // SAFETY: it is the ledger's own memory, whose word 0 means "off".
    unsafe { call(MADVISE, [address, bytes, WIPEONFORK, 0, 0, 0]) == 0 }
}

/// Ends that; whether the kernel can.
pub fn keep_in_children(address: usize, bytes: usize) -> bool {
    // SAFETY: it is the ledger's own memory, and no hook is running.
    unsafe { call(MADVISE, [address, bytes, KEEPONFORK, 0, 0, 0]) == 0 }
}

/// The calling thread's id, 0 where the process may not ask for it.
pub fn thread_id() -> u32 {
    // SAFETY: no memory is involved.
    u32::try_from(unsafe { call(GETTID, [0; 6]) }).unwrap_or(0)
}

/// Lets another thread run.
pub fn give_way() {
    // SAFETY: no memory is involved.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// Reads words of this process; none where they cannot be read.
pub fn read<const WORDS: usize>(address: usize) -> Option<[u64; WORDS]> {
    let mut words = MaybeUninit::<[u64; WORDS]>::uninit();
    let local = [(&raw mut words).addr(), size_of_val(&words)];
    let remote = [address, size_of_val(&words)];
    let (local, remote) = ((&raw const local).addr(), (&raw const remote).addr());
    // SAFETY: the kernel writes to `words` only, and checks what it reads.
    let count = unsafe { call(PROCESS_VM_READV, [call(GETPID, [0; 6]) as usize, local, 1, remote, 1, 0]) };
    // SAFETY: the kernel has written all of them.
    (count == size_of_val(&words) as isize).then(|| unsafe { words.assume_init() })
}

/// The time stamp counter.
pub fn time() -> u64 {
    // SAFETY: every x86_64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}
