//! The `bpf` system call for many elements of a table at a time, and for what has to be one step.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;

use super::bpf::bpf;

const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_long = 21;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_MAP_DELETE_BATCH: libc::c_long = 27;

/// The part of `union bpf_attr` (include/uapi/linux/bpf.h) for batch operations.
#[repr(C)]
#[derive(Default)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// The same for one element.
#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Deletes `keys` from a hash map by one system call; keys that are not there are passed over. aya
/// deletes one key a call, which costs more than the rest of a test's clean-up.
pub fn delete_batch<K: Copy>(map: BorrowedFd<'_>, mut keys: &[K]) -> Result<(), Errno> {
    while !keys.is_empty() {
        let mut attributes = BatchAttributes {
            keys: keys.as_ptr() as u64,
            count: keys.len() as u32,
            map_fd: map.as_raw_fd() as u32,
            ..Default::default()
        };
        // SAFETY: the kernel reads `count` keys of the map's key size, which is K's at every call,
        // and writes `count` back; keys and attributes outlive the call.
        match unsafe { bpf(BPF_MAP_DELETE_BATCH, &mut attributes) } {
            Ok(_) => return Ok(()),
            // `count` says how many were deleted before the missing one.
            Err(Errno::ENOENT) => keys = &keys[attributes.count as usize + 1..],
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The elements of a hash map that is changed meanwhile: each that is there all the time, once. `values` says how
/// many values an element has: of a map with values for each CPU, so many as there are CPUs.
///
/// # Errors
/// The kernel refuses.
pub fn elements<K: aya::Pod, V: aya::Pod>(
    map: BorrowedFd<'_>,
    values: usize,
) -> Result<Vec<(K, Vec<V>)>, Errno> {
    // Where the kernel goes on: the number of a bucket.
    let (mut from, mut next) = (None, 0u32);
    let mut room = 1 << 10;
    let mut found = Vec::new();
    loop {
        let mut keys = Vec::<K>::with_capacity(room);
        let mut all = Vec::<V>::with_capacity(room * values);
        let mut attributes = BatchAttributes {
            in_batch: from.as_ref().map_or(0, |from: &u32| std::ptr::from_ref(from) as u64),
            out_batch: (&raw mut next) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: all.as_mut_ptr() as u64,
            count: room as u32,
            map_fd: map.as_raw_fd() as u32,
            ..Default::default()
        };
        // SAFETY: keys and values have the map's sizes at every call, and there is room for `count` of them;
        // what is pointed to outlives the call.
        let done = match unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut attributes) } {
            Ok(_) => false,
            Err(Errno::ENOENT) => true,
            // A bucket has more elements than there is room.
            Err(Errno::ENOSPC) => {
                room *= 2;
                continue;
            }
            Err(errno) => return Err(errno),
        };
        let count = (attributes.count as usize).min(room);
        // SAFETY: the kernel has written so many, and any bytes are keys and values.
        unsafe {
            keys.set_len(count);
            all.set_len(count * values);
        }
        found.extend(keys.into_iter().zip(all.chunks_exact(values).map(<[V]>::to_vec)));
        if done {
            return Ok(found);
        }
        from = Some(next);
    }
}

/// Removes an element of a hash map and returns its value, in one step; none if there is no such key.
pub fn take_element<K: aya::Pod, V: aya::Pod>(map: BorrowedFd<'_>, key: &K) -> Option<V> {
    let mut value = std::mem::MaybeUninit::<V>::uninit();
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: key and value have the map's sizes at every call, and outlive it.
    let taken = unsafe { bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &mut attributes) };
    // SAFETY: the kernel has written the value, and any bytes are one.
    taken.ok().map(|_| unsafe { value.assume_init() })
}
