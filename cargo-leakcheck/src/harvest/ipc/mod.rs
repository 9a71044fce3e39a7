//! IPC objects that a process leaves behind. Those of System V and POSIX queues are what is in the namespace
//! that the test was given, which began empty. POSIX shared memory and semaphores are files that are everybody's: they
//! are known by the calls that have made them.

mod listed;
mod names;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use leakcheck_common::{ipc, process};

use super::files::stack;
use super::lost::{all_lost, lost};
use super::places::Places;
use crate::model::{IpcName, IpcObject};
use crate::snapshot::Loss;
use crate::sys;
use crate::trace::{IpcCall, Kernel, Process, ProcessRecord, Steering};

/// Kinds, what they are called, and the functions that make them.
const KINDS: [(u64, &str, &str); 6] = [
    (ipc::SHARED_MEMORY, "shared memory", "shmget"),
    (ipc::SEMAPHORES, "semaphore set", "semget"),
    (ipc::MESSAGES, "message queue", "msgget"),
    (ipc::POSIX_QUEUE, "POSIX queue", "mq_open"),
    (ipc::POSIX_MEMORY, "POSIX shared memory", "shm_open"),
    (ipc::POSIX_SEMAPHORE, "POSIX semaphore", "sem_open"),
];

/// An object that exists.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    kind: u64,
    name: IpcName,
    bytes: Option<u64>,
}

/// What a process has left behind.
pub struct Found {
    objects: Vec<Object>,
    calls: Vec<IpcCall>,
    /// There are some whose calls a second run may show.
    pub is_unexplained: bool,
}

/// Whether there is anything in an IPC namespace.
///
/// # Errors
/// It cannot be listed.
pub fn has_ipc(namespace: &OwnedFd) -> io::Result<bool> {
    let listed = sys::in_ipc_namespace(namespace.as_fd(), || listed::objects(true)).flatten();
    listed.map(|objects| !objects.is_empty())
}

impl Found {
    /// Lists it, and removes what outlives the namespace, which is not looked at where it is known to be empty. None where there is
    /// nothing, or nothing was to be looked at; what was not seen is added to `losses`.
    pub fn of(
        steering: &Steering,
        process: &Process,
        counters: &ProcessRecord,
        is_empty: bool,
        losses: &mut Vec<Loss>,
    ) -> Option<Self> {
        // A child's are in the test's namespace, and may be in use there.
        let held = process.held.as_ref().filter(|_| process.wanted.ipc)?;
        let mut objects = Vec::new();
        match held.ipc() {
            None => {}
            Some(Ok(_)) if is_empty => {}
            Some(Ok(namespace)) => {
                let maybe_queues = may_have_opened(steering, process, counters);
                let listed =
                    sys::in_ipc_namespace(namespace.as_fd(), || listed::objects(maybe_queues)).flatten();
                match listed {
                    Ok(listed) => objects = listed,
                    Err(error) => losses.push(Loss::Ipc { reason: error.to_string() }),
                }
            }
            Some(Err(error)) => losses.push(Loss::Ipc { reason: error.to_string() }),
        }
        let account = steering.kernel().and_then(|kernel| kernel.ipc_calls()?.as_ref().ok());
        losses.extend(lost(counters[process::LOST_IPC_CALLS], "call", |count| Loss::IpcCalls { count }));
        let calls = match account {
            Some(account) if counters[process::IPC_CALLS] > 0 => account.of(process.pid),
            _ => Vec::new(),
        };
        objects.extend(names::removed(process.pid, &calls));
        let kernel = steering.kernel();
        let mut is_unexplained = false;
        if let Some(Ok(created)) = kernel.and_then(Kernel::created)
            && let Some(begun_ns) = begun_ns(process, counters, losses)
        {
            let started = kernel.and_then(|kernel| kernel.started()?.as_ref().ok());
            let unknown = all_lost(counters[process::LOST_STARTED]) + all_lost(counters[process::LOST_ENDED]);
            let created = created.of(process.pid, begun_ns, started, unknown).unwrap_or_else(|reason| {
                losses.push(Loss::Ipc { reason });
                Vec::new()
            });
            let makes_seen = matches!(kernel.and_then(Kernel::files), Some(Ok(_)));
            for creation in created {
                let object = names::removed_one(&creation.name, begun_ns);
                is_unexplained |= object.is_some() && creation.is_own && makes_seen && !process.sees.files;
                objects.extend(object);
            }
        }
        objects.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        (!objects.is_empty()).then_some(Self { objects, calls, is_unexplained })
    }

    /// Says where the objects come from.
    pub fn describe(self, places: &mut Places<'_>) -> Vec<IpcObject<usize>> {
        let mut stack = |call: &IpcCall| {
            let frames = stack::unwind(&call.place, &mut |address| places.row(address));
            places.add(frames)
        };
        let describe = |object: Object| {
            let call = self.calls.iter().find(|call| call.kind == object.kind && made(call, &object.name));
            let call = call.filter(|call| !call.is_descendants);
            let (_, kind, function) = KINDS[object.kind as usize - 1];
            IpcObject {
                kind: kind.into(),
                name: object.name,
                bytes: object.bytes,
                call: call.map(|call| if call.is_open { "open" } else { function }.into()),
                stack: call.map(&mut stack),
            }
        };
        self.objects.into_iter().map(describe).collect()
    }
}

/// When the window of a process began. Where that is not known although it did begin, it is a loss.
fn begun_ns(process: &Process, counters: &ProcessRecord, losses: &mut Vec<Loss>) -> Option<u64> {
    if process.begun_ns.is_none() && counters[process::BODIES] > 0 {
        losses.push(Loss::Ipc { reason: "it is not known when the test's body was entered".into() });
    }
    process.begun_ns
}

/// Whether a process may have opened a file in its window, or have started somebody who has. Who makes a POSIX
/// queue opens it.
fn may_have_opened(steering: &Steering, process: &Process, counters: &ProcessRecord) -> bool {
    let kernel = steering.kernel();
    let is_seen = process.sees.files && matches!(kernel.and_then(Kernel::started), Some(Ok(_)));
    !is_seen || counters[process::FILES] > 0 || counters[process::STARTED] > 0
}

/// Whether a call has made the object of this name.
fn made(call: &IpcCall, name: &IpcName) -> bool {
    match name {
        IpcName::Id { id, .. } => call.which == u64::from(id.cast_unsigned()),
        IpcName::Name(name) => String::from_utf8_lossy(&call.name) == name[1..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_numbers() {
        assert!(KINDS.iter().zip(1..).all(|((kind, ..), number)| *kind == number));
    }
}
