//! The next allocator in line: the C library's, or that of a library which the user preloads or
//! links, and which the loader would find first without the ledger.

use core::arch::{asm, global_asm};
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> usize;
    fn __libc_calloc(count: usize, size: usize) -> usize;
    fn __libc_realloc(old: usize, size: usize) -> usize;
    fn __libc_free(address: usize);
    fn __libc_memalign(alignment: usize, size: usize) -> usize;
    fn __libc_valloc(size: usize) -> usize;
    fn __libc_pvalloc(size: usize) -> usize;
}

// Before glibc 2.34 it is in a library that not every program loads.
global_asm!(".weak dlsym");

/// `RTLD_NEXT` of `dlfcn.h`.
const NEXT: usize = usize::MAX;

/// The functions of the next allocator.
macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? = $own:expr, $symbol:expr;)*) => {
        $(
            /// The function of that name.
            ///
            /// # Safety
            /// That of the function.
            #[inline(always)]
            pub unsafe fn $name($($argument: $kind),*) $(-> $result)? {
                let function = table::$name.load(Ordering::Relaxed);
                // SAFETY: the table holds functions of this type; the rest is the caller's.
                unsafe {
                    let function: unsafe extern "C" fn($($kind),*) $(-> $result)? = core::mem::transmute(function);
                    function($($argument),*)
                }
            }
        )*

        #[allow(non_upper_case_globals, reason = "named as the functions are")]
        mod table {
            use super::*;
            $(
                pub static $name: AtomicPtr<()> = AtomicPtr::new(
                    $own as unsafe extern "C" fn($($kind),*) $(-> $result)? as *mut ()
                );
            )*
        }

        /// Looks for another allocator than the C library's. At the first call of the ledger, which is
        /// the loader's, when it has done everything but call constructors.
        pub fn find() {
            if lookup(c"malloc").is_none_or(|found| found == __libc_malloc as *mut ()) {
                return;
            }
            $(
                if let Some(found) = lookup($symbol) {
                    table::$name.store(found, Ordering::Relaxed);
                }
            )*
        }
    };
}

functions! {
    malloc(size: usize) -> usize = __libc_malloc, c"malloc";
    calloc(count: usize, size: usize) -> usize = __libc_calloc, c"calloc";
    realloc(old: usize, size: usize) -> usize = __libc_realloc, c"realloc";
    free(address: usize) = __libc_free, c"free";
    memalign(alignment: usize, size: usize) -> usize = __libc_memalign, c"memalign";
    aligned_alloc(alignment: usize, size: usize) -> usize = __libc_memalign, c"aligned_alloc";
    valloc(size: usize) -> usize = __libc_valloc, c"valloc";
    pvalloc(size: usize) -> usize = __libc_pvalloc, c"pvalloc";
    posix_memalign(out: *mut usize, alignment: usize, size: usize) -> c_int = by_memalign, c"posix_memalign";
}

/// `posix_memalign`, which the C library has by no second name.
unsafe extern "C" fn by_memalign(out: *mut usize, alignment: usize, size: usize) -> c_int {
    /// Errors of `errno.h`.
    const ENOMEM: c_int = 12;
    const EINVAL: c_int = 22;
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return EINVAL;
    }
    // SAFETY: the caller's.
    let address = unsafe { __libc_memalign(alignment, size) };
    if address == 0 {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { *out = address };
    0
}

/// The next definition of a function behind the ledger's.
fn lookup(name: &CStr) -> Option<*mut ()> {
    let dlsym: *const ();
    // SAFETY: the loader has filled the slot, with 0 where nobody has the function.
    unsafe {
        asm!("mov {0}, qword ptr [rip + dlsym@GOTPCREL]", out(reg) dlsym, options(pure, readonly, nostack));
    }
    if dlsym.is_null() {
        return None;
    }
    // SAFETY: it is the function of `dlfcn.h`.
    let found = unsafe {
        let dlsym: unsafe extern "C" fn(usize, *const core::ffi::c_char) -> *mut () =
            core::mem::transmute(dlsym);
        dlsym(NEXT, name.as_ptr())
    };
    (!found.is_null()).then_some(found)
}
