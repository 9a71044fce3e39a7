//! System calls that templates make, and processes that are forked from them.

use leakcheck_preload::layout::call;
use nix::libc::{self, user_regs_struct as Registers};

use super::stack::Write;

/// Words of `struct prctl_mm_map` (include/uapi/linux/prctl.h).
pub const MAP_WORDS: usize = 13;
const MAP_ARGUMENTS_END: usize = 8;
/// Room for a control message with three descriptors (`CMSG_SPACE`).
const MESSAGE: u64 = 32;
/// The words that a process takes from its stack as its program begins, and one more to have it aligned.
const TAKEN: usize = 4;

/// System calls that are made in a process, and memory for them: one behind the other on its stack.
pub struct Calls {
    /// Where that is; aligned as the stack is at a call.
    pub start: u64,
    /// What there is, the calls last.
    pub words: Vec<u64>,
    count: usize,
}

impl Calls {
    /// Behind `room` words of other memory.
    pub fn new(registers: &Registers, calls: &[(i64, [u64; 6])], room: usize) -> Self {
        let count = calls.len();
        let size = (room + count * call::WORDS) as u64 * 8;
        // Below the red zone.
        let start = (registers.rsp - 256 - size) & !15;
        let mut words = vec![0; room + count * call::WORDS];
        for ((number, arguments), words) in calls.iter().zip(words[room..].chunks_exact_mut(call::WORDS)) {
            words[call::NUMBER] = *number as u64;
            words[call::ARGUMENTS..][..6].copy_from_slice(arguments);
        }
        Self { start, words, count }
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Words before the calls.
    pub fn room(&self) -> usize {
        self.words.len() - self.count * call::WORDS
    }

    /// Where the calls are.
    pub fn address(&self) -> u64 {
        self.start + self.room() as u64 * 8
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// Of those of [`begin`]: what is to be written where, for arguments that end there.
    pub fn arguments_end(&self, end: u64) -> Write {
        (self.start + (TAKEN + MAP_ARGUMENTS_END) as u64 * 8, end.to_ne_bytes().to_vec())
    }
}

/// What a template does before it forks: it takes the standard streams of its child from a socket.
pub fn take(registers: &Registers, socket: u64) -> Calls {
    // The message (struct msghdr), what it is made of, its byte and its descriptors.
    const VECTOR: usize = 7;
    const BYTE: usize = VECTOR + 2;
    const CONTROL: usize = BYTE + 1;
    const ROOM: usize = CONTROL + MESSAGE as usize / 8;
    let list = |start: u64| {
        [
            (libc::SYS_close_range, [0, 2, 0, 0, 0, 0]),
            // They get the numbers that are free now.
            (libc::SYS_recvmsg, [socket, start, 0, 0, 0, 0]),
        ]
    };
    let start = Calls::new(registers, &list(0), ROOM).start;
    let mut calls = Calls::new(registers, &list(start), ROOM);
    let at = |word: usize| start + word as u64 * 8;
    calls.words[2..6].copy_from_slice(&[at(VECTOR), 1, at(CONTROL), MESSAGE]);
    calls.words[VECTOR..][..2].copy_from_slice(&[at(BYTE), 1]);
    calls
}

/// What a process does before its program begins with these registers: it has no more than the program would have been started
/// with, and random bytes of its own. `map` is that of the template, and `sockets` are its own descriptors.
pub fn begin(
    registers: &Registers,
    map: &[u64; MAP_WORDS],
    sockets: [u64; 2],
    robust_list: [u64; 2],
    random: u64,
) -> Calls {
    let [own, theirs] = sockets;
    let list = |start: u64| {
        let map = start + TAKEN as u64 * 8;
        let mm = [libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64, map, MAP_WORDS as u64 * 8, 0, 0];
        [
            (libc::SYS_close, [own, 0, 0, 0, 0, 0]),
            (libc::SYS_close, [theirs, 0, 0, 0, 0, 0]),
            (libc::SYS_set_robust_list, [robust_list[0], robust_list[1], 0, 0, 0, 0]),
            (libc::SYS_prctl, mm),
            (libc::SYS_getrandom, [random, 16, 0, 0, 0, 0]),
        ]
    };
    let room = TAKEN + MAP_WORDS;
    let start = Calls::new(registers, &list(0), room).start;
    let mut calls = Calls::new(registers, &list(start), room);
    calls.words[..3].copy_from_slice(&[registers.rdx, registers.rip, registers.rsp]);
    calls.words[TAKEN..][..MAP_WORDS].copy_from_slice(map);
    calls
}
