//! How a template is prepared, and how what is forked from it begins.

use std::ffi::CString;
use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use leakcheck_common::CANARY_SIZE;
use leakcheck_preload::layout::{FORK_BYTES, call, control};
use nix::libc::{self, user_regs_struct as Registers};
use nix::sys::ptrace::setregs;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::Pid;

use super::calls::{Calls, MAP_WORDS, begin, take};
use super::stack::{Changed, Initial};
use super::{Template, obstacles};
use crate::sys;
use crate::trace::entry::{self, Loaded};
use crate::trace::ledger::{Forks, Says};
use crate::trace::memory::{read, words, write_all};
use crate::trace::process::{Breakpoint, Phase, Process, Thread};
use crate::trace::steering::Steering;
use crate::trace::variables::Variables;

/// Arguments and environment take no more (fs/exec.c, `bprm_stack_limits`).
const LARGEST_STACK: usize = 8 << 20;
const MAP_BRK: usize = 5;
/// No vector of its own, and no file.
const MAP_UNCHANGED: u64 = (u32::MAX as u64) << 32;
/// Where a template's alarms are among what its calls write, of four words each, and behind them what else it may have asked for.
const ALARMS: usize = 2;
const ASKED: usize = ALARMS + 3 * 4;
/// What that is, and why nothing is forked then: a fork does not have it.
const ASKS: [(libc::c_int, &str); 2] = [
    (libc::PR_GET_PDEATHSIG, "it wants a signal when its parent ends"),
    (libc::PR_GET_CHILD_SUBREAPER, "it takes orphans as its children"),
];
/// A template that prepares itself.
pub struct Preparing {
    entry: Breakpoint,
    registers: Registers,
    loaded: Loaded,
    control: u64,
    forks: Forks,
    calls: Calls,
}

/// A template that is ready to fork.
pub struct Source {
    registers: Registers,
    loaded: Loaded,
    control: u64,
    forks: Forks,
    initial: Initial,
    /// Where the C library has the id of its first thread.
    thread_id: u64,
    /// Where descriptors for a child are sent to.
    socket: OwnedFd,
    /// What it does before it forks.
    take: Calls,
    /// What is done before a program begins.
    begin: Calls,
}

impl Preparing {
    /// Has a process that is kept at its entry point, where it has come with these registers, prepare itself.
    ///
    /// # Errors
    /// Why nothing is to be forked from it.
    pub fn begin(
        steering: &mut Steering,
        process: &Process,
        (entry, modules): (Breakpoint, Option<u64>),
        registers: Registers,
    ) -> Result<Self, String> {
        let pid = process.pid;
        let ledger = process.ledger.as_deref().ok_or("it has no ledger")?;
        let loaded = Loaded::of(process, modules)?;
        let says = Says::default();
        let (control, _) = ledger.introduce(pid, &loaded.mappings, &says)?;
        if steering.has_looked_up(pid) {
            return Err("it has looked the allocator up".into());
        }
        // Room for what the calls write: numbers of sockets, where the id of the thread is, and the above.
        let room = ASKED + ASKS.len();
        let mut list = vec![
            (libc::SYS_sched_getscheduler, [0; 6]),
            (libc::SYS_socketpair, [1, 5 | libc::SOCK_CLOEXEC as u64, 0, 0, 0, 0]),
            (libc::SYS_brk, [0; 6]),
            (libc::SYS_prctl, [libc::PR_GET_TID_ADDRESS as u64, 0, 0, 0, 0, 0]),
        ];
        let alarms = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];
        list.extend(alarms.map(|alarm| (libc::SYS_getitimer, [alarm as u64, 0, 0, 0, 0, 0])));
        list.extend(ASKS.map(|(option, _)| (libc::SYS_prctl, [option as u64, 0, 0, 0, 0, 0])));
        let start = Calls::new(&registers, &list, room).start;
        let at = |word: usize| start + word as u64 * 8;
        list[1].1[3] = at(0);
        let written = [1].into_iter().chain((ALARMS..ASKED).step_by(4)).chain(ASKED..room);
        list[3..].iter_mut().zip(written).for_each(|((_, arguments), word)| arguments[1] = at(word));
        let calls = Calls::new(&registers, &list, room);
        if !write_all(pid, &[(calls.start, &calls.bytes())]) {
            return Err("its stack cannot be written".into());
        }
        let forks = ledger.forks(control);
        let arguments = [calls.address(), calls.count(), 0];
        entry::call(pid, registers, calls.start, entry.address, (forks.template, arguments))?;
        Ok(Self { entry, registers, loaded, control, forks, calls })
    }

    /// It has come back, with this result: it is ready.
    ///
    /// # Errors
    /// Why nothing is to be forked from it.
    pub fn finish(self, template: &Template, result: u64) -> Result<Source, String> {
        let process = &template.process;
        let pid = process.pid;
        let Self { entry, registers, loaded, control, forks, calls } = self;
        let room = calls.room();
        let written = words(&read(pid, calls.start, calls.words.len() * 8));
        if result != calls.count() || written.len() != calls.words.len() {
            return Err("the kernel refuses a system call".into());
        }
        if written[ALARMS..ASKED].iter().any(|word| *word != 0) {
            return Err("it has set an alarm".into());
        }
        if let Some((_, (_, reason))) = written[ASKED..room].iter().zip(ASKS).find(|(word, _)| **word != 0) {
            return Err(reason.into());
        }
        let returned = |number: usize| written[room + number * call::WORDS + call::RESULT];
        if returned(0) & libc::SCHED_RESET_ON_FORK as u64 != 0 {
            return Err("its children do not get its priority".into());
        }
        let state = words(&read(pid, control, (control::WINDOW + 1) * 8));
        if state != [leakcheck_preload::layout::VERSION, 1] {
            return Err("its ledger does not work".into());
        }
        let (own, theirs) = (written[0] as u32, (written[0] >> 32) as u32);
        let sockets = [own, theirs].map(u32::cast_signed);
        let table = process.ledger.as_deref().map_or("", |ledger| ledger.table_path().as_str());
        if let Some(reason) = obstacles::find(&template.held, &template.inherited, sockets, table) {
            return Err(reason);
        }
        let owner = sys::Owner::of(pid).map_err(|errno| format!("it cannot be referred to: {errno}"))?;
        let socket = owner.borrow(theirs).map_err(|errno| format!("its socket is closed to us: {errno}"))?;
        let thread_id = written[1];
        let id = read(pid, thread_id, 4);
        if id != pid.as_raw().to_ne_bytes() {
            return Err("its C library does not keep the id of its thread where others do".into());
        }
        let robust_list = sys::robust_list(pid).map_err(|errno| format!("get_robust_list: {errno}"))?;
        let stack = read(pid, registers.rsp, LARGEST_STACK);
        let initial = Initial::parse(registers.rsp, &stack).ok_or("its arguments cannot be read")?;
        let mut map = map(pid).ok_or("it is not known where its arguments are")?;
        map[MAP_BRK] = returned(2);
        let numbers = [own, theirs].map(u64::from);
        let take = take(&registers, own.into());
        let begin = begin(&registers, &map, numbers, robust_list, initial.random);
        entry::lift(pid, entry);
        Ok(Source { registers, loaded, control, forks, initial, thread_id, socket, take, begin })
    }
}

impl Source {
    /// What has to be changed for a process with other arguments and variables; none where they do not fit in.
    pub fn change(&self, arguments: &[CString], variables: &Variables) -> Option<Changed> {
        self.initial.change(arguments, variables)
    }

    /// Sends what is to be the standard streams of the next child, and has the template fork when it goes on.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn fork(&self, pid: Pid, stdio: &[Arc<OwnedFd>; 3], private_ipc: bool) -> Result<(), String> {
        let numbers = [0, 1, 2].map(|number: usize| stdio[number].as_raw_fd());
        let (byte, rights) = ([IoSlice::new(&[0])], [ControlMessage::ScmRights(&numbers)]);
        sendmsg::<()>(self.socket.as_raw_fd(), &byte, &rights, MsgFlags::MSG_DONTWAIT, None)
            .map_err(|errno| format!("its descriptors cannot be sent: {errno}"))?;
        let flags =
            libc::CLONE_PARENT | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let flags = flags | if private_ipc { libc::CLONE_NEWIPC } else { 0 };
        if !write_all(pid, &[(self.take.start, &self.take.bytes())]) {
            return Err("its stack cannot be written".into());
        }
        let mut registers = self.registers;
        (registers.rip, registers.rsp, registers.orig_rax) = (self.forks.clone, self.take.start, u64::MAX);
        (registers.rdi, registers.rsi) = (self.take.address(), self.take.count());
        (registers.r12, registers.r13) = (flags as u64, self.thread_id);
        setregs(pid, registers).map_err(|errno| format!("cannot set its registers: {errno}"))
    }

    /// Sends a child that has just been forked, and is stopped, on its way into the program.
    ///
    /// # Errors
    /// Why it cannot be begun.
    pub fn begin(
        &self,
        steering: &mut Steering,
        process: &mut Process,
        changed: Changed,
    ) -> Result<(), String> {
        let pid = process.pid;
        self.loaded.follow(steering, process, self.control)?;
        process.control = Some(self.control);
        let mut writes = changed.writes;
        writes.push((self.begin.start, self.begin.bytes()));
        writes.push(self.begin.arguments_end(changed.end));
        let says = Says::of(process);
        let told = [
            (control::NOTES, says.notes_frees),
            (control::EXACT, says.exact_peak),
            (control::BY_STACK, says.peak_stacks),
        ];
        let told = told.into_iter().filter(|(_, value)| *value);
        let told = told.map(|(word, _)| self.control + word as u64 * 8);
        writes.extend(told.chain(process.log).map(|place| (place, 1_u64.to_ne_bytes().to_vec())));
        let writes: Vec<_> = writes.iter().map(|(place, bytes)| (*place, &bytes[..])).collect();
        if !write_all(pid, &writes) {
            return Err("its memory cannot be written".into());
        }
        let mut registers = self.registers;
        (registers.rip, registers.rsp, registers.orig_rax) = (self.forks.forked, self.begin.start, u64::MAX);
        (registers.rdi, registers.rsi) = (self.begin.address(), self.begin.count());
        registers.rdx = CANARY_SIZE;
        setregs(pid, registers).map_err(|errno| format!("cannot set its registers: {errno}"))?;
        process.phase = Phase::Running;
        steering.arm(process, pid);
        Ok(())
    }

    /// Whether a process with these registers is where a template forks.
    pub fn is_forking(&self, registers: &Registers) -> bool {
        registers.rip.wrapping_sub(self.forks.clone) < FORK_BYTES
    }

    /// The first thread of a child: its ledger has blocks that are older than it.
    pub fn thread(&self, template: &Process) -> Thread {
        let before = template.threads.get(&template.pid);
        let (created_ns, created_stamp) =
            before.map_or((0, 0), |thread| (thread.created_ns, thread.created_stamp));
        Thread { created_ns, created_stamp, ..Thread::new() }
    }
}

/// What `/proc/PID/stat` says of where things are, as `prctl` wants it; the end of the heap is not among it.
fn map(pid: Pid) -> Option<[u64; MAP_WORDS]> {
    /// The fields' numbers (proc(5)), in the order of the structure.
    const FIELDS: [usize; 11] = [26, 27, 45, 46, 47, 47, 28, 48, 49, 50, 51];
    let text = sys::text(&format!("/proc/{pid}/stat")).ok()?;
    // The third field follows the name, which may have anything in it.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let mut map = [0; MAP_WORDS];
    for (word, field) in map.iter_mut().zip(FIELDS) {
        *word = fields.get(field - 3)?.trim().parse().ok()?;
    }
    map[MAP_WORDS - 1] = MAP_UNCHANGED;
    Some(map)
}
