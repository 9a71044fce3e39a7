//! Runs a test's body again and again in its own process, to see what each time adds.
//!
//! libtest calls a test by a function that takes a plain function and returns a plain result. The thread stops as it comes back
//! from there, by a hardware breakpoint at the return address: what is alive then is noted down, and the thread is sent to
//! the function's entry again, with the registers that it came with. So nothing of the program is changed, and harness and test
//! notice nothing: each iteration is a test body of its own, with a window that opens and closes.

use std::collections::HashMap;

use leakcheck_common::thread;
use nix::libc::user_regs_struct as Registers;
use nix::sys::ptrace::{getregs, setregs};
use nix::unistd::Pid;

use super::memory::{read, read_word, words, write};
use super::process::Process;
use super::steering::Steering;
use crate::model::{Iterations, Measure, PlannedTest, Window};
use crate::{harvest, sys};

/// No instruction is longer.
const INSTRUCTION: u64 = 15;
/// What is at one place of a `Result<(), String>` that is `Ok`, by what compilers have taken for it: a capacity or an address that
/// no string has. What is `Err` has a text, so neither is anywhere in it.
const OK: [u64; 2] = [0, 1 << 63];

/// A test whose body is to be run more than once.
pub struct Repeated {
    /// How often.
    pub wanted: Iterations,
    /// After each iteration that was seen to its end.
    pub alive: Vec<Alive>,
    /// Why there are no more.
    ended: Option<String>,
    body: Option<Body>,
}

/// What was there after an iteration.
pub struct Alive {
    /// What was allocated in the window, by the keys of call stacks.
    pub by_stack: HashMap<u64, Measure>,
    /// When the newest of that was allocated.
    pub newest: u64,
    /// Open descriptors; none where they cannot be listed.
    pub descriptors: Option<u64>,
}

/// The call of a body.
struct Body {
    thread: Pid,
    /// As at the entry.
    registers: Registers,
    /// Where it returns to.
    back: u64,
}

impl Repeated {
    /// None where the test's body is run once, as ever.
    pub fn of(test: &PlannedTest) -> Option<Self> {
        let ended =
            (test.window == Window::Process).then(|| "only a test of libtest can be run again".into());
        Some(Self { ended, ..Self::new(test.iterations()?) })
    }

    /// Nothing of it has been seen.
    pub fn new(wanted: Iterations) -> Self {
        Self { wanted, alive: Vec::new(), ended: None, body: None }
    }

    /// Why there are fewer iterations than were wanted.
    pub fn ended(&self) -> Option<String> {
        let is_missing = (self.alive.len() as u64) < self.wanted.total;
        let unseen = || match &self.body {
            None => "its body was not entered".to_owned(),
            Some(_) => format!("iteration {} did not return: it panicked, or ended", self.alive.len() + 1),
        };
        is_missing.then(|| self.ended.clone().unwrap_or_else(unseen))
    }
}

/// A thread is stopped at the entry of a test body, or behind its first instruction.
pub fn entered(steering: &mut Steering, process: &mut Process, thread: Pid) {
    let Some(repeated) = &mut process.repeated else { return };
    if repeated.body.is_some() || repeated.ended.is_some() {
        return;
    }
    match Body::of(steering, process.pid, thread) {
        Ok(body) => repeated.body = Some(body),
        Err(reason) => repeated.ended = Some(reason),
    }
}

/// A hardware breakpoint has stopped a thread; whether it was where a body has returned to.
pub fn returned(steering: &mut Steering, process: &mut Process, thread: Pid) -> bool {
    let Some(body) = process.repeated.as_ref().and_then(|repeated| repeated.body.as_ref()) else {
        return false;
    };
    let at = getregs(thread).ok().filter(|at| body.thread == thread && at.rip == body.back);
    let Some(at) = at else { return false };
    if at.rsp != body.registers.rsp + 8 {
        return true;
    }
    let alive = harvest::alive(steering, process, thread);
    let Some(repeated) = &mut process.repeated else { return true };
    let Some(body) = &repeated.body else { return true };
    match alive {
        Ok(alive) => repeated.alive.push(alive),
        Err(reason) => repeated.ended = Some(reason),
    }
    let number = repeated.alive.len() as u64;
    let goes_on = repeated.ended.is_none() && number < repeated.wanted.total;
    let result = match goes_on {
        true if !body.is_ok() => Err(format!("iteration {number} has failed")),
        true => body.again(steering),
        false => Ok(()),
    };
    let is_last = !goes_on || result.is_err();
    if is_last && steering.kernel().is_some() {
        // Where there are no breakpoints, the thread is gone.
        let _ = sys::set_breakpoints(thread, body.breakpoint(), [None; 4]);
    }
    if let Err(reason) = result {
        repeated.ended = Some(reason);
    }
    if !is_last {
        // Without eBPF, for the body once more.
        steering.arm(process, thread);
    }
    true
}

impl Body {
    /// Of a thread that has entered it.
    fn of(steering: &Steering, pid: Pid, thread: Pid) -> Result<Self, String> {
        let unreadable = |_| "its thread cannot be looked at".to_owned();
        let mut registers = getregs(thread).map_err(unreadable)?;
        let sp = steering.thread(thread)?[thread::BODY_SP];
        let back = read_word(thread, sp).ok_or("its stack cannot be read")?;
        let mappings = harvest::mappings(thread).map_err(|error| error.to_string())?;
        let is_near = |entry: &u64| registers.rip.wrapping_sub(*entry) <= INSTRUCTION;
        let entry = steering.entries(pid, &mappings).into_iter().find(is_near);
        registers.rip = entry.ok_or("it is not known where its body was entered")?;
        registers.rsp = sp;
        // The first argument is where the result goes. What is no plain function is a closure that its call uses up.
        let is_code = mappings.iter().any(|it| it.executable && it.range.contains(&registers.rsi));
        if !is_code {
            return Err("it is a closure that can be called only once".into());
        }
        let body = Self { thread, registers, back };
        if steering.kernel().is_some() {
            sys::set_breakpoints(thread, [None; 4], body.breakpoint())
                .map_err(|errno| format!("the system refuses a hardware breakpoint: {errno}"))?;
        }
        Ok(body)
    }

    fn breakpoint(&self) -> [Option<u64>; 4] {
        [Some(self.back), None, None, None]
    }

    /// Whether the test has not failed.
    fn is_ok(&self) -> bool {
        words(&read(self.thread, self.registers.rdi, 24)).iter().any(|word| OK.contains(word))
    }

    /// Sends its thread to the entry.
    fn again(&self, steering: &mut Steering) -> Result<(), String> {
        if !write(self.thread, self.registers.rsp, &self.back.to_ne_bytes()) {
            return Err("its stack cannot be written".into());
        }
        setregs(self.thread, self.registers)
            .map_err(|errno| format!("its registers cannot be set: {errno}"))?;
        steering.enter(self.thread, self.registers.rsp)
    }
}
