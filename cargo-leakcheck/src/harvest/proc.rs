//! What `/proc` says of a process.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use nix::unistd::Pid;

use crate::snapshot::Mapping;
use crate::sys::{status, text};

/// What is mapped in the address space of a thread.
///
/// # Errors
/// It is gone.
pub fn mappings(thread: Pid) -> io::Result<Vec<Mapping>> {
    Ok(text(&format!("/proc/{thread}/maps"))?.lines().filter_map(mapping).collect())
}

/// One line of `/proc/PID/maps`: `start-end rwxp offset device inode path`.
pub fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?;
    let offset = fields.next()?;
    let path = fields.nth(2).unwrap_or_default().trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(start)?..number(end)?,
        offset: number(offset)?,
        readable: access.starts_with('r'),
        writable: access[1..].starts_with('w'),
        executable: access[2..].starts_with('x'),
        path: path.to_owned(),
    })
}

/// The process that a thread belongs to.
pub fn process_of(thread: Pid) -> Option<Pid> {
    Some(Pid::from_raw(status(thread, "Tgid")?.parse().ok()?))
}

/// The process whose child a thread's process is.
pub fn parent_of(thread: Pid) -> Option<Pid> {
    Some(Pid::from_raw(status(thread, "PPid")?.parse().ok()?))
}

/// Whether a process has no other threads than these, which exist.
pub fn has_no_others(process: Pid, known: usize) -> bool {
    // Links to `.` and `..`, and one for each (fs/proc/base.c, `proc_task_getattr`).
    std::fs::metadata(format!("/proc/{process}/task")).is_ok_and(|task| task.nlink() == known as u64 + 2)
}

/// The threads of a process.
pub fn threads_of(process: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.map(Pid::from_raw).collect()
}

/// Whether a thread has ended and waits for its process to do so.
pub fn is_zombie(process: Pid, thread: Pid) -> bool {
    let state = text(&format!("/proc/{process}/task/{thread}/stat"));
    state.is_ok_and(|text| text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])))
}

/// Whether a thread waits in `execve` or `execveat`, for the other threads to end.
pub fn is_executing(process: Pid, thread: Pid) -> bool {
    let call = text(&format!("/proc/{process}/task/{thread}/syscall"));
    call.is_ok_and(|call| call.starts_with("59 ") || call.starts_with("322 "))
}

/// The name of a thread.
pub fn thread_name(process: Pid, thread: Pid) -> String {
    let name = text(&format!("/proc/{process}/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn a_path_may_have_spaces() {
        let line = "7f00-7f10 r-xp 0000a000 fe:00 393 /a b/c (deleted)";
        let found = mapping(line).unwrap();
        assert_eq!((found.range.clone(), found.offset), (0x7f00..0x7f10, 0xa000));
        assert!(found.readable && !found.writable && found.executable);
        assert_eq!(found.path, "/a b/c (deleted)");
        assert_eq!(mapping("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap().path, "");
    }
}
