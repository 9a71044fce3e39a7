//! Threads that still run when their process ends: where they were started, and where they are.

use leakcheck_common::{MAX_FRAMES, thread};
use leakcheck_preload::unwind::{Frame, Row, kind};
use nix::unistd::Pid;

use super::stack::BY_FRAME_POINTER;
use crate::harvest::proc::thread_name;
use crate::harvest::{HeldThread, Threads};
use crate::trace::{FileRecord, Process, Started, Steering, read, read_word};

/// The numbers of the system calls by which a thread ends itself, alone or with its process.
const EXITS: [u64; 2] = [60, 231];
/// Those by which threads are started: `clone` and `clone3`. In the new thread they return 0.
const STARTS: [u64; 2] = [56, 435];
/// The system call's instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// What is read of a stack at once, in bytes.
const INNER: usize = 8 << 10;

/// A thread.
pub struct Found<'a> {
    held: &'a HeldThread,
    /// Its name.
    pub name: String,
    /// Where it was started.
    pub place: Option<FileRecord>,
}

/// Those that were started in the window and have not reached their exits by themselves, sorted by their ids.
pub fn of<'a>(
    steering: &Steering,
    account: Option<&Started>,
    process: &Process,
    threads: &'a Threads,
) -> Vec<Found<'a>> {
    let is_left = |held: &&HeldThread| {
        let was_started = |record: &[u64; thread::WORDS]| {
            // A test's own thread has entered its body.
            record[thread::IN_WINDOW] != 0 && record[thread::BODY_SP] == 0
        };
        held.id != process.pid
            && !EXITS.contains(&held.registers.orig_rax)
            && steering.thread(held.id).is_ok_and(|record| was_started(&record))
    };
    let mut left: Vec<&HeldThread> = threads.held.iter().filter(is_left).collect();
    left.sort_unstable_by_key(|held| held.id);
    let account = account.filter(|_| !left.is_empty());
    let tasks = account.map(|account| account.of(process.pid)).unwrap_or_default();
    let place = |id: Pid| account?.record(*tasks.iter().find(|task| task.id == id)?);
    let found = left.into_iter().map(|held| Found {
        held,
        name: thread_name(process.pid, held.id),
        place: place(held.id),
    });
    found.collect()
}

impl Found<'_> {
    /// Its id.
    pub fn id(&self) -> u32 {
        self.held.id.as_raw().cast_unsigned()
    }

    /// Where it is, as return addresses, innermost first; none where it has not begun. `row` says how the frame
    /// at an address is found.
    pub fn now(&self, row: &mut impl FnMut(u64) -> Option<Row>) -> Option<Vec<u64>> {
        let registers = &self.held.registers;
        if STARTS.contains(&registers.orig_rax) && registers.rax == 0 {
            return None;
        }
        let (start, id) = (registers.rsp, self.held.id);
        let inner = read(id, start, INNER);
        let word = |address: u64| {
            let near = address
                .checked_sub(start)
                .and_then(|at| inner.get(usize::try_from(at).ok()?..)?.first_chunk());
            near.map(|bytes| u64::from_ne_bytes(*bytes)).or_else(|| read_word(id, address))
        };
        // Of a thread that does not wait in a system call, it is the next instruction.
        let waits = read(id, registers.rip.wrapping_sub(2), 2) == SYSCALL;
        let mut frames = vec![if waits { registers.rip } else { registers.rip.wrapping_add(1) }];
        let mut frame = Frame { sp: start, fp: registers.rbp };
        while frames.len() < MAX_FRAMES {
            let row = row(frames[frames.len() - 1].wrapping_sub(1));
            let row = row.filter(|row| row.kind != kind::NONE).unwrap_or(BY_FRAME_POINTER);
            let Some((address, caller)) = row.caller(frame, word) else { break };
            frames.push(address);
            frame = caller;
        }
        Some(frames)
    }
}
