use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;

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

const BPF_MAP_DELETE_BATCH: libc::c_long = 27;

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
        // SAFETY: the attributes outlive the call; the kernel reads `count` keys of the map's key
        // size from `keys`, which is K's size at every call, and writes `count` back.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_MAP_DELETE_BATCH,
                &raw mut attributes,
                size_of::<BatchAttributes>(),
            )
        };
        match Errno::result(result) {
            Ok(_) => return Ok(()),
            // `count` says how many were deleted before the missing one.
            Err(Errno::ENOENT) => keys = &keys[attributes.count as usize + 1..],
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
