//! What a file has beyond owner and mode.

use std::ffi::CStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::{FsFlags, statvfs};

use super::capabilities::Capability;

/// Gives a file capabilities, which whoever executes it may have (`security.capability`, as in
/// include/uapi/linux/capability.h: the second version, in no effect by themselves).
///
/// # Errors
/// The file system knows no such thing, or the system refuses.
pub fn give_capabilities(path: &Path, list: &[Capability]) -> io::Result<()> {
    const REVISION: u32 = 0x0200_0000;
    let bits = list.iter().map(|one| 1_u64 << *one as u8).sum::<u64>();
    let words = [REVISION, bits as u32, 0, (bits >> 32) as u32, 0];
    set(path, c"security.capability", &words.map(u32::to_le_bytes).concat())
}

/// Lets one user, besides root, enter a directory and read it, and nobody else (`system.posix_acl_access`, as in
/// include/uapi/linux/posix_acl_xattr.h).
///
/// # Errors
/// The file system knows no such thing, or the system refuses.
pub fn open_to(path: &Path, user: u32) -> io::Result<()> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    // Kind (owner, user, group, mask, others), permissions, whose.
    let entries =
        [(1_u16, 7_u16, NOBODY), (2, 5, user), (4, 0, NOBODY), (0x10, 5, NOBODY), (0x20, 0, NOBODY)];
    let mut value = VERSION.to_le_bytes().to_vec();
    for (kind, permissions, whose) in entries {
        value.extend(kind.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(whose.to_le_bytes());
    }
    set(path, c"system.posix_acl_access", &value)
}

/// Whether capabilities of files have no effect where a path is.
///
/// # Errors
/// There is no such path.
pub fn is_nosuid(path: &Path) -> io::Result<bool> {
    Ok(statvfs(path)?.flags().contains(FsFlags::ST_NOSUID))
}

fn set(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both names end with a zero byte, the value has the length that is given, and all live during the call.
    let result =
        unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    Ok(Errno::result(result).map(drop)?)
}
