//! POSIX shared memory and semaphores: files in `/dev/shm`, where glibc keeps them.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leakcheck_common::ipc;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::Object;
use crate::model::IpcName;
use crate::trace::{IpcCall, SHARED_FILES};

/// How the names of files begin that are semaphores.
const SEMAPHORE: &str = "sem.";

/// So much the time that a file was born at may be behind (a tick of the kernel's clock at 100 Hz).
const TICK: Duration = Duration::from_millis(10);

/// Removes those that the calls of a process have made; what they were.
pub fn removed(process: Pid, calls: &[IpcCall]) -> Vec<Object> {
    let mut objects = Vec::new();
    for call in calls {
        let Some((path, metadata)) = file(process, call) else { continue };
        // A call finds also what another process has made before.
        if !is_younger(&metadata, call.time_ns) {
            continue;
        }
        // If that fails, it is left all the same.
        let _ = std::fs::remove_file(path);
        let name = IpcName::Name(format!("/{}", String::from_utf8_lossy(&call.name)));
        objects.push(Object { kind: call.kind, name, bytes: Some(metadata.len()) });
    }
    objects
}

/// Removes one by its file's name, if the file was made since a time of `CLOCK_MONOTONIC`; what it was.
pub fn removed_one(name: &[u8], since_ns: u64) -> Option<Object> {
    let path = Path::new(SHARED_FILES).join(OsStr::from_bytes(name));
    let metadata = std::fs::symlink_metadata(&path).ok()?;
    // One that was moved there may be older.
    if !metadata.is_file() || !is_younger(&metadata, since_ns) {
        return None;
    }
    // If that fails, it is left all the same.
    let _ = std::fs::remove_file(path);
    let (kind, name) = match name.strip_prefix(SEMAPHORE.as_bytes()) {
        Some(name) => (ipc::POSIX_SEMAPHORE, name),
        None => (ipc::POSIX_MEMORY, name),
    };
    let name = IpcName::Name(format!("/{}", String::from_utf8_lossy(name)));
    Some(Object { kind, name, bytes: Some(metadata.len()) })
}

/// The file of the object that a call has made or found.
fn file(process: Pid, call: &IpcCall) -> Option<(PathBuf, Metadata)> {
    let prefix = match call.kind {
        ipc::POSIX_MEMORY => "",
        ipc::POSIX_SEMAPHORE => SEMAPHORE,
        _ => return None,
    };
    // In the process's own root directory.
    let mut path = PathBuf::from(format!("/proc/{process}/root/dev/shm"));
    path.push(OsStr::from_bytes(&[prefix.as_bytes(), &call.name].concat()));
    let metadata = std::fs::symlink_metadata(&path).ok()?;
    metadata.is_file().then_some((path, metadata))
}

/// Whether a file has been made since a time of `CLOCK_MONOTONIC`.
fn is_younger(metadata: &Metadata, time_ns: u64) -> bool {
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from) else { return false };
    let ago = now.saturating_sub(Duration::from_nanos(time_ns));
    let since = SystemTime::now().checked_sub(ago + TICK);
    // A file system that does not tell is not the one that glibc uses.
    metadata.created().ok().zip(since).is_some_and(|(born, since)| born >= since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_older() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let now = || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        assert!(is_younger(&metadata, (now() - Duration::from_secs(1)).as_nanos() as u64));
        std::thread::sleep(3 * TICK);
        assert!(!is_younger(&metadata, now().as_nanos() as u64));
    }
}
