//! What there is in the IPC namespace of the calling thread.

use std::io;

use leakcheck_common::ipc;

use super::Object;
use crate::model::IpcName;
use crate::sys::{self, Mount};

/// `SHM_DEST` of `sys/shm.h`, among the permissions: removed, and gone when the last process detaches it.
const REMOVED: u32 = 0o1000;

/// All of it; POSIX queues only if there may be any: to list them takes longer than all the rest.
///
/// # Errors
/// A list cannot be read.
pub fn objects(maybe_queues: bool) -> io::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (list, kind) in [("shm", ipc::SHARED_MEMORY), ("sem", ipc::SEMAPHORES), ("msg", ipc::MESSAGES)] {
        // The kernel shows each who opens it the namespace of that thread.
        objects.extend(system_v(kind, &sys::text(&format!("/proc/sysvipc/{list}"))?));
    }
    if !maybe_queues {
        return Ok(objects);
    }
    let queues = Mount::of_queues()?;
    for entry in std::fs::read_dir(queues.directory())? {
        let entry = entry?;
        let bytes = std::fs::read_to_string(entry.path()).ok().and_then(|text| queued(&text));
        let name = IpcName::Name(format!("/{}", entry.file_name().to_string_lossy()));
        objects.push(Object { kind: ipc::POSIX_QUEUE, name, bytes });
    }
    Ok(objects)
}

/// The objects of a list in `/proc/sysvipc`: a heading, and lines that begin with key, id, permissions (octal), and
/// bytes or, for semaphores, how many there are.
fn system_v(kind: u64, list: &str) -> Vec<Object> {
    let object = |line: &str| {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next();
        let (key, id, permissions, size) = (next()?, next()?, next()?, next()?);
        // Keys are shown as signed numbers.
        let name = IpcName::Id { id: id.parse().ok()?, key: key.parse::<i32>().ok()?.cast_unsigned() };
        let bytes = if kind == ipc::SEMAPHORES { None } else { size.parse().ok() };
        let removed = u32::from_str_radix(permissions, 8).ok()? & REMOVED != 0;
        (!removed).then_some(Object { kind, name, bytes })
    };
    list.lines().skip(1).filter_map(object).collect()
}

/// The bytes in a queue: `QSIZE:129 NOTIFY:2 SIGNO:0 NOTIFY_PID:8260` (mq_overview(7)).
fn queued(text: &str) -> Option<u64> {
    text.split_whitespace().find_map(|field| field.strip_prefix("QSIZE:"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_goes_with_its_last_user_is_not_left() {
        // proc_sysvipc(5); the second one was removed while it was attached.
        let list = "       key      shmid perms                  size  cpid  lpid nattch\n\
                    -559038737          0   600                  4096 10240     0      0\n\
                             0          1  1600                  4096 10240 10240      1\n";
        let name = IpcName::Id { id: 0, key: 0xdead_beef };
        let expected = [Object { kind: ipc::SHARED_MEMORY, name, bytes: Some(4096) }];
        assert_eq!(system_v(ipc::SHARED_MEMORY, list), expected);
    }

    #[test]
    fn semaphores_have_no_bytes() {
        let list = "       key      semid perms      nsems\n         7      32769   600          3\n";
        let name = IpcName::Id { id: 32769, key: 7 };
        assert_eq!(system_v(ipc::SEMAPHORES, list), [Object { kind: ipc::SEMAPHORES, name, bytes: None }]);
        assert_eq!(queued("QSIZE:129     NOTIFY:2    SIGNO:0    NOTIFY_PID:8260\n"), Some(129));
    }
}
