//! Being another user, and keeping some capabilities.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, Gid, Uid, access, setresgid, setresuid};

use super::capabilities::{
    Capabilities, Capability, capabilities, permitted, put_to_sleep, set_capabilities,
};

/// The effective user's number.
pub fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Makes this process, which is root's and has one thread, that of a user. What remains of its privileges are
/// those of `keep` that it had, for itself and for the program that it executes. Supplementary groups stay as
/// they are.
///
/// # Errors
/// The system refuses; then the process must not go on.
pub fn become_user(user: u32, group: u32, keep: &[Capability]) -> io::Result<()> {
    let keep: Capabilities = capabilities().of(keep);
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    setresgid(group, group, group)?;
    // SAFETY: the call takes numbers only. It is undone by `execve`.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })?;
    setresuid(user, user, user)?;
    set_capabilities(keep, true)?;
    Ok(())
}

/// Whose this process is, whatever its file says.
pub fn real_user() -> u32 {
    nix::unistd::getuid().as_raw()
}

/// Whether this user may change what is in a file: he has it, or may write to it.
///
/// # Errors
/// The system refuses to tell.
pub fn may_change(file: &File) -> io::Result<bool> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let is_own = [0, file.metadata()?.uid()].contains(&user());
    Ok(is_own || access(path.as_str(), AccessFlags::W_OK).is_ok())
}

/// Whether the loader distrusts who has started this process: its file gives it privileges.
pub fn is_secure() -> bool {
    // SAFETY: the call takes a number only.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Hands the capabilities of a list that this process may have on to the program that it executes.
///
/// # Errors
/// The system refuses.
pub fn hand_on_capabilities(list: &[Capability]) -> io::Result<()> {
    Ok(set_capabilities(permitted().of(list), true)?)
}

/// Puts variables in the place of all that this process has.
pub fn replace_environment(variables: &[(OsString, OsString)]) {
    let old: Vec<_> = std::env::vars_os().collect();
    // SAFETY: it is called at the beginning of `main`, where no other thread reads the environment.
    unsafe {
        old.iter().for_each(|(name, _)| std::env::remove_var(name));
        variables.iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
}

/// Keeps the capabilities that this thread has from being handed on to what it starts, and has them in effect only where
/// they are needed ([`super::awake`]): by some of them it would read what the user may not, and the user's programs, which
/// may ask for them too, name files that are read.
///
/// # Errors
/// The system refuses.
pub fn keep_capabilities_to_itself() -> io::Result<()> {
    set_capabilities(capabilities(), false)?;
    Ok(put_to_sleep()?)
}

/// The process's file mode mask.
pub fn file_mode_mask() -> u32 {
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    nix::sys::stat::umask(mask);
    mask.bits()
}

/// Sets it.
pub fn set_file_mode_mask(mask: u32) {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
}

/// The flag of `open` that refuses a symbolic link.
pub const NO_FOLLOW: i32 = libc::O_NOFOLLOW;
