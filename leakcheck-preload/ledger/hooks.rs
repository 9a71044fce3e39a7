//! The allocator's functions as the process sees them. Each calls the next allocator's, and writes
//! down what came of it: calls that fail record nothing.

use core::arch::asm;
use core::ffi::c_int;

use crate::frames;
use crate::layout::block;
use crate::ledger::{Old, allocated, bad_free, find, gone, is_recording, note_free, notes_frees, settle};
use crate::next;
use crate::table::Block;

/// An error of `errno.h`.
const ENOMEM: c_int = 12;

unsafe extern "C" {
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
        // Before the call: at the first one the next allocator is looked for.
        let recording = is_recording();
        let address = $address;
        if recording && address != 0 {
            allocated(address, $size, Old::default(), frame!());
        }
        address
    }};
}

// SAFETY of all functions here: they pass their arguments on to the next allocator's function of the
// same contract, whose caller answers for them.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::malloc(size) }, size)
}

/// `malloc` as the tracer calls it once, before anything of the program runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn leakcheck_enter(size: usize) -> usize {
    frames::open();
    settle();
    // SAFETY: see above.
    unsafe { malloc(size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::calloc(count, size) }, count.wrapping_mul(size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(alignment: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::memalign(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::aligned_alloc(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::valloc(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: usize) -> usize {
    // SAFETY: see above.
    record!(unsafe { next::pvalloc(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut usize, alignment: usize, size: usize) -> c_int {
    let recording = is_recording();
    // SAFETY: see above.
    let error = unsafe { next::posix_memalign(out, alignment, size) };
    if recording && error == 0 {
        // SAFETY: the call has succeeded.
        allocated(unsafe { *out }, size, Old::default(), frame!());
    }
    error
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
                if notes_frees() {
                    note_free(record, frame!());
                }
                let flags = record.flags();
                record.set_flags(flags & !block::LIVE);
                if flags & block::WINDOW != 0 {
                    gone(record.size(), move || record.stacks() as u32);
                }
            }
            record => bad_free(address, record, frame!()),
        }
    }
    // SAFETY: see above.
    unsafe { next::free(address) };
}

/// `realloc`, with the frame of the hook.
#[inline(always)]
unsafe fn resize(old: usize, size: usize, frame: usize) -> usize {
    if !is_recording() {
        // SAFETY: see above.
        return unsafe { next::realloc(old, size) };
    }
    let moving = if old == 0 { None } else { begin(old, frame) };
    // SAFETY: see above.
    let new = unsafe { next::realloc(old, size) };
    let mut gone_with_it = Old::default();
    if let Some(Moving { record, before, during, counted }) = moving {
        gone_with_it = counted;
        if new == 0 && size != 0 {
            // It has failed, and the old block is what it was.
            record.set_flags(before);
        } else if new != old {
            // Another thread may have got the address by now.
            record.replace_flags(during, before & !block::LIVE);
        }
    }
    if new != 0 {
        allocated(new, size, gone_with_it, frame);
    } else if size == 0 && gone_with_it.bytes != 0 {
        gone(gone_with_it.bytes, move || gone_with_it.stack);
    }
    new
}

/// The old block of a `realloc`.
struct Moving {
    record: Block,
    /// Its flags before, and meanwhile.
    before: u64,
    during: u64,
    /// What is gone with it, if it counts.
    counted: Old,
}

/// Marks the old block of a `realloc`, so that it can be told from a new one at its address.
fn begin(old: usize, frame: usize) -> Option<Moving> {
    let found = find(old);
    match found.map(|record| (record, record.flags())) {
        Some((record, before)) if before & block::LIVE != 0 => {
            if notes_frees() {
                note_free(record, frame);
            }
            let during = before | block::MOVING;
            record.set_flags(during);
            let counts = before & block::WINDOW != 0;
            let counted = Old { bytes: record.size(), stack: record.stacks() as u32 };
            let counted = if counts { counted } else { Old::default() };
            Some(Moving { record, before, during, counted })
        }
        _ => {
            bad_free(old, found, frame);
            None
        }
    }
}
