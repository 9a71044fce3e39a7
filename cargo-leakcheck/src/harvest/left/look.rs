//! What `/proc` says of a process that may just be ending.

use nix::sys::ptrace::getsiginfo;
use nix::unistd::Pid;

use crate::sys;

/// `PF_EXITING` of include/linux/sched.h.
const EXITING: u64 = 4;

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs or waits.
    Running,
    /// It has been killed or is exiting.
    Ending,
    /// It has ended, and its parent has not waited for it.
    Zombie,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// How far it is.
    pub state: State,
    /// It is traced by this process.
    pub is_ours: bool,
    /// Its parent.
    pub parent: Pid,
    /// Its name.
    pub name: String,
}

impl Look {
    /// At a process; none that is no more.
    pub fn at(id: Pid) -> Option<Self> {
        let mut look = Self::parse(&sys::text(&format!("/proc/{id}/stat")).ok()?)?;
        // One that is traced is kept at its exit before it has the flag.
        let is_kept = || getsiginfo(id).is_ok_and(|info| info.si_code >> 8 == libc::PTRACE_EVENT_EXIT);
        if look.state == State::Running && (is_killed(id) || is_kept()) {
            look.state = State::Ending;
        }
        look.is_ours = look.state == State::Zombie && is_traced_by(id, Pid::this());
        Some(look)
    }

    /// `/proc/PID/stat`: `ID (NAME) STATE PARENT …`, in proc(5) fields 1 to 4; 9 is flags, 20 the number of threads.
    fn parse(text: &str) -> Option<Self> {
        let (start, rest) = text.rsplit_once(") ")?;
        let (_, name) = start.split_once(" (")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        // Others may go on where the first thread has ended.
        let alone = field(20)? <= 1;
        let state = match fields[0].chars().next()? {
            'X' | 'x' => return None,
            'Z' if alone => State::Zombie,
            _ if alone && field(9)? & EXITING != 0 => State::Ending,
            _ => State::Running,
        };
        Some(Self { state, is_ours: false, parent: Pid::from_raw(field(4)? as i32), name: name.to_owned() })
    }
}

/// Whether a signal is on its way that nothing can stop.
fn is_killed(id: Pid) -> bool {
    has_signal(id, &["SigPnd:", "ShdPnd:"], libc::SIGKILL)
}

/// Whether a process has told the kernel that it will not wait for its children.
pub fn ignores_children(id: Pid) -> bool {
    has_signal(id, &["SigIgn:"], libc::SIGCHLD)
}

/// Whether one process traces another.
fn is_traced_by(id: Pid, tracer: Pid) -> bool {
    sys::status(id, "TracerPid").is_some_and(|by| by == tracer.to_string())
}

/// Whether a signal is in one of the masks in `/proc/PID/status`.
fn has_signal(id: Pid, masks: &[&str], signal: i32) -> bool {
    let status = sys::text(&format!("/proc/{id}/status")).unwrap_or_default();
    let mut values = status.lines().filter_map(|line| {
        let mask = masks.iter().find_map(|mask| line.strip_prefix(mask))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    values.any(|value| value >> (signal - 1) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(state: char, flags: u64, threads: u64) -> Option<State> {
        let text = format!("12 (a) b) {state} 7 12 12 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 0");
        let look = Look::parse(&text)?;
        assert_eq!((look.parent, look.name.as_str()), (Pid::from_raw(7), "a) b"));
        Some(look.state)
    }

    #[test]
    fn states_are_told_apart() {
        assert_eq!(parsed('S', 0x40_0000, 1), Some(State::Running));
        assert_eq!(parsed('R', 0x40_0004, 1), Some(State::Ending));
        assert_eq!(parsed('Z', 0x40_0004, 1), Some(State::Zombie));
        assert_eq!(parsed('X', 0x40_0004, 1), None);
        // Its first thread has ended, others have not.
        assert_eq!(parsed('Z', 0x40_0004, 2), Some(State::Running));
    }

    #[test]
    fn signals_are_bits_of_masks() {
        // Rust programs ignore SIGPIPE; the harness waits for nobody, but has not said so.
        assert!(has_signal(Pid::this(), &["SigIgn:"], libc::SIGPIPE));
        assert!(!ignores_children(Pid::this()) && !is_killed(Pid::this()));
    }

    #[test]
    fn this_process_runs() {
        let look = Look::at(Pid::this()).unwrap();
        assert_eq!((look.state, look.parent), (State::Running, Pid::parent()));
    }

    #[test]
    fn a_child_that_was_killed_is_a_zombie_until_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let id = Pid::from_raw(child.id() as i32);
        assert_eq!(Look::at(id).unwrap().state, State::Running);
        child.kill().unwrap();
        while Look::at(id).unwrap().state != State::Zombie {
            assert_eq!(Look::at(id).map(|look| look.state).filter(|state| *state == State::Running), None);
        }
        child.wait().unwrap();
        assert_eq!(Look::at(id), None);
    }
}
