//! `dlsym`: a program that asks the C library itself for its allocator, by a handle, passes the
//! ledger by.

use aya_ebpf::helpers::generated::bpf_probe_read_user_str;
use aya_ebpf::programs::ProbeContext;
use leakcheck_common::{process, thread};

use crate::maps::Current;

/// The functions' names, filled up with zeros.
const NAMES: [[u64; 2]; 10] = [
    name(b"malloc"),
    name(b"calloc"),
    name(b"realloc"),
    name(b"reallocarray"),
    name(b"free"),
    name(b"memalign"),
    name(b"aligned_alloc"),
    name(b"posix_memalign"),
    name(b"valloc"),
    name(b"pvalloc"),
];

const fn name(text: &[u8]) -> [u64; 2] {
    let mut words = [0; 2];
    let mut place = 0;
    while place < text.len() {
        words[place / 8] |= (text[place] as u64) << (place % 8 * 8);
        place += 1;
    }
    words
}

/// Counts a handle that is asked for a function of the allocator. The program's own finds the ledger's,
/// like `RTLD_DEFAULT`; `RTLD_NEXT` is for libraries that take the allocator over. No return probe:
/// `dlsym` looks at its return address.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) -> Option<()> {
    let current = Current::get()?;
    let record = current.thread()?;
    let (handle, name): (u64, u64) = (ctx.arg(0)?, ctx.arg(1)?);
    if [0, u64::MAX, record[thread::PROGRAM]].contains(&handle) || !current.has_ledger()? {
        return None;
    }
    let mut text = [0_u64; 2];
    // SAFETY: the helper writes to the sixteen bytes, up to the end of the text, and checks the address.
    let length = unsafe {
        bpf_probe_read_user_str((&raw mut text).cast(), size_of_val(&text) as u32, name as *const _)
    };
    if length > 0 && NAMES.iter().any(|name| *name == text) {
        current.count(process::LOOKED_UP, 1);
    }
    Some(())
}
