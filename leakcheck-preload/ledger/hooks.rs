//! The allocator's functions as the process sees them. Each calls the C library's own, and writes
//! down what came of it: calls that fail record nothing.

use core::arch::asm;
use core::ffi::c_int;

use crate::frames;
use crate::layout::block;
use crate::ledger::{allocated, bad_free, find, is_recording};
use crate::table::Block;

/// Errors of `errno.h`.
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> usize;
    fn __libc_calloc(count: usize, size: usize) -> usize;
    fn __libc_realloc(old: usize, size: usize) -> usize;
    fn __libc_free(address: usize);
    fn __libc_memalign(alignment: usize, size: usize) -> usize;
    fn __libc_valloc(size: usize) -> usize;
    fn __libc_pvalloc(size: usize) -> usize;
    fn __errno_location() -> *mut c_int;
}

/// The frame of the function that this is expanded in. Functions keep frame pointers in this library.
macro_rules! frame {
    () => {{
        let frame: usize;
        // SAFETY: a register is read.
        unsafe { asm!("mov {0}, rbp", out(reg) frame, options(pure, nomem, nostack)) };
        frame
    }};
}

/// Records the result of a call, and returns it.
macro_rules! record {
    ($address:expr, $size:expr) => {{
        let address = $address;
        if address != 0 && is_recording() {
            allocated(address, $size, frame!());
        }
        address
    }};
}

// SAFETY of all functions here: they pass their arguments on to the C library's function of the
// same contract, whose caller answers for them.

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_malloc(size) }, size)
}

/// `malloc` as the tracer calls it once, before anything of the program runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_enter(size: usize) -> usize {
    frames::open();
    // SAFETY: see above.
    unsafe { malloc(size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_calloc(count, size) }, count.wrapping_mul(size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(alignment: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_memalign(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_memalign(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_valloc(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { __libc_pvalloc(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut usize, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return EINVAL;
    }
    // SAFETY: see above.
    let address = record!(unsafe { __libc_memalign(alignment, size) }, size);
    if address == 0 {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { *out = address };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: usize, size: usize) -> usize {
    let frame = frame!();
    // SAFETY: see above.
    unsafe { resize(old, size, frame) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(old: usize, count: usize, size: usize) -> usize {
    let frame = frame!();
    match count.checked_mul(size) {
        // SAFETY: see above.
        Some(size) => unsafe { resize(old, size, frame) },
        None => {
            // SAFETY: the location is the thread's own.
            unsafe { *__errno_location() = ENOMEM };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(address: usize) {
    if address != 0 && is_recording() {
        match find(address) {
            // Before the call: after it the address may belong to another thread.
            Some(record) if record.flags() & block::LIVE != 0 => {
                record.set_flags(record.flags() & !block::LIVE)
            }
            record => bad_free(address, record.is_some(), frame!()),
        }
    }
    // SAFETY: see above.
    unsafe { __libc_free(address) };
}

/// `realloc`, with the frame of the hook.
#[inline(always)]
unsafe fn resize(old: usize, size: usize, frame: usize) -> usize {
    if !is_recording() {
        // SAFETY: see above.
        return unsafe { __libc_realloc(old, size) };
    }
    let moving = if old == 0 { None } else { begin(old, frame) };
    // SAFETY: see above.
    let new = unsafe { __libc_realloc(old, size) };
    if let Some((record, before, during)) = moving {
        if new == 0 && size != 0 {
            // It has failed, and the old block is what it was.
            record.set_flags(before);
        } else if new != old {
            // Another thread may have got the address by now.
            record.replace_flags(during, before & !block::LIVE);
        }
    }
    if new != 0 {
        allocated(new, size, frame);
    }
    new
}

/// Marks the old block of a `realloc`, so that it can be told from a new one at its address: the
/// record, its flags before, and its flags meanwhile.
fn begin(old: usize, frame: usize) -> Option<(Block, u64, u64)> {
    let found = find(old);
    match found.map(|record| (record, record.flags())) {
        Some((record, before)) if before & block::LIVE != 0 => {
            let during = before | block::MOVING;
            record.set_flags(during);
            Some((record, before, during))
        }
        _ => {
            bad_free(old, found.is_some(), frame);
            None
        }
    }
}
