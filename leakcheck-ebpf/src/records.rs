//! Tables of large records, which find room also where the kernel has no memory at hand.
//!
//! A table whose room is there from the start would take hundreds of megabytes. So the kernel gets memory for each
//! record: of large ones it keeps one or two in reserve for each processor, and gets more in an interrupt of its own
//! (kernel/bpf/memalloc.c), without waiting, so that there may be none for a while. Then a record goes to a small spare
//! table, whose room is there from the start.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::maps::HashMap;
use leakcheck_common::process;

use crate::maps::{Current, SPARE_ONLY};

/// How often a table is asked for room before the spare one is.
const TRIES: usize = 8;
/// `EEXIST` and `E2BIG`: there is one already; the table has as many as it may.
const EEXIST: i32 = -17;
const E2BIG: i32 = -7;

/// Why a record was not put into its table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is one already.
    Exists,
    /// The table has as many as it may.
    Full,
    /// The kernel has no memory at hand.
    NoMemory,
}

impl Refusal {
    fn of(error: i32) -> Self {
        match error {
            EEXIST => Self::Exists,
            E2BIG => Self::Full,
            _ => Self::NoMemory,
        }
    }

    /// Counts what is lost by it; what is there already is not.
    #[inline(always)]
    pub fn count(self, account: Current, lost: usize) {
        match self {
            Self::Exists => {}
            Self::Full => account.count(lost, 1),
            Self::NoMemory => account.count(lost, process::NO_MEMORY),
        }
    }
}

/// Puts a record into a table that has no spare one: small ones, of which the kernel has many in reserve.
#[inline(always)]
pub fn put<K, V>(table: &HashMap<K, V>, key: &K, value: &V, flags: u32) -> Result<(), Refusal> {
    let mut refusal = Refusal::NoMemory;
    for _ in 0..TRIES {
        match table.insert(key, value, flags.into()) {
            Ok(()) => return Ok(()),
            Err(error) => refusal = Refusal::of(error),
        }
        if refusal != Refusal::NoMemory {
            break;
        }
    }
    Err(refusal)
}

/// A table with its spare one. Where a key is in both, what is in the first counts.
pub struct Records<K: 'static, V: 'static> {
    pub table: &'static HashMap<K, V>,
    pub spare: &'static HashMap<K, V>,
}

impl<K, V> Records<K, V> {
    /// The record of a key.
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<*mut V> {
        self.table.get_ptr_mut(key).or_else(|| self.spare.get_ptr_mut(key))
    }

    /// Removes the record of a key, if there is one.
    #[inline(always)]
    pub fn remove(&self, key: &K) {
        let _ = self.table.remove(key);
        let _ = self.spare.remove(key);
    }

    /// Puts a record into the table: with `BPF_ANY` in the place of another one with its key, which nobody else puts there
    /// meanwhile, with `BPF_NOEXIST` where there is none.
    #[inline(always)]
    pub fn put(&self, key: &K, value: &V, flags: u32) -> Result<(), Refusal> {
        if flags == BPF_NOEXIST && self.get(key).is_some() {
            return Err(Refusal::Exists);
        }
        let is_used = SPARE_ONLY.get(0).is_some_and(|only| *only == 0);
        let put = if is_used { put(self.table, key, value, flags) } else { Err(Refusal::NoMemory) };
        let other = match put {
            Ok(()) => self.spare,
            Err(Refusal::NoMemory) => {
                let spare = self.spare.insert(key, value, flags.into());
                spare.map_err(|error| if error == EEXIST { Refusal::Exists } else { Refusal::NoMemory })?;
                self.table
            }
            Err(refusal) => return Err(refusal),
        };
        // What is older goes last: the tracer, which may be putting one back, does the same. If others have put one there
        // meanwhile, both are as good.
        if flags != BPF_NOEXIST {
            let _ = other.remove(key);
        }
        Ok(())
    }
}
