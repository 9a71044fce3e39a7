//! A plain user's run with privileges for the tracer alone. `sudo -n` starts this program as root; it becomes
//! the user again at once, but for a few capabilities, and executes itself with the user's own arguments and
//! environment. So building, listing, the tests and the reports belong to the user, whose capabilities are
//! those of any program; and what runs as root is `helper`, some lines that read nothing but what sudo says.

mod state;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use self::state::State;
use crate::options::{Environment, Raised};
use crate::sys::{self, Capability};

/// First argument of the program that sudo starts; what follows is `CHECK`, or the file with the state.
const HELPER: &str = "__raise";
/// Asks whether the helper could do its work.
const CHECK: &str = "check";
/// First argument of the program that the helper executes.
const RAISED: &str = "__raised";

/// What this process was started with.
pub struct Launch {
    /// This program.
    pub executable: PathBuf,
    /// All of its arguments, its name first.
    pub arguments: Vec<OsString>,
    /// Its environment.
    pub environment: Environment,
}

/// Whether privileges are missing that root could give.
pub fn is_wanted() -> bool {
    let needed = [Capability::Bpf, Capability::Perfmon, Capability::SysPtrace];
    let there = sys::capabilities();
    sys::user() != 0 && !needed.into_iter().all(|capability| there.has(capability))
}

/// Replaces this process by one with privileges, if sudo allows that without a password. Why it did not, where
/// it returns.
pub fn by_sudo(launch: &Launch) -> Raised {
    // The user's groups stay: root has no list of its own to give.
    let sudo = |what: &OsStr| {
        let mut command = Command::new("sudo");
        command.args(["-n", "-P", "--"]).arg(&launch.executable).arg(HELPER).arg(what);
        command
    };
    match sudo(CHECK.as_ref()).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Raised::Refused(refusal(&output.stderr)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Raised::No,
        Err(error) => return Raised::Refused(format!("sudo cannot be started: {error}")),
    }
    let state = State::of_this_process(launch);
    match state.write() {
        Ok(file) => {
            let error = sudo(file.path().as_os_str()).exec();
            Raised::Refused(format!("sudo cannot be started: {error}"))
        }
        Err(error) => {
            Raised::Refused(format!("sudo is not asked: no temporary file can be written: {error}"))
        }
    }
}

/// What sudo said, in a line.
fn refusal(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("sudo gives no reason");
    line.chars().filter(|letter| !letter.is_control()).collect()
}

/// If this process is the helper, does its work: it does not return if it has succeeded, but for a check. Runs
/// as root until `become_user`: up to there it looks at nothing but its arguments and two variables of sudo's.
pub fn helper(arguments: &[OsString]) -> Option<Result<(), String>> {
    let [_, first, what] = arguments else { return None };
    if first != HELPER {
        return None;
    }
    Some(if what == CHECK { check() } else { become_the_user(what).map(|never| match never {}) })
}

fn check() -> Result<(), String> {
    let there = sys::capabilities();
    let missing = Capability::ALL[..3].iter().find(|capability| !there.has(**capability));
    missing.map_or(Ok(()), |missing| Err(format!("sudo cannot give {} here", missing.name())))
}

fn become_the_user(file: &OsStr) -> Result<Infallible, String> {
    let number = |variable: &str| -> Result<u32, String> {
        let value = std::env::var(variable).ok().and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("{variable} is not set: this is for sudo to be started by"))
    };
    let (user, group) = (number("SUDO_UID")?, number("SUDO_GID")?);
    if user == 0 {
        return Err("the user is root already".into());
    }
    let executable = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    sys::become_user(user, group, &Capability::ALL)
        .map_err(|error| format!("cannot become user {user} again: {error}"))?;
    let state = State::read(file.as_ref(), user).map_err(|error| format!("{}: {error}", file.display()))?;
    Err(format!("cannot execute {}: {}", executable.display(), state.execute(&executable, RAISED)))
}

/// Whether this process was started by the helper. Takes the mark out of the arguments, and sees to it that
/// nothing that this process starts has its capabilities.
///
/// # Errors
/// The system refuses that.
pub fn was_raised(arguments: &mut Vec<OsString>) -> io::Result<bool> {
    let raised = arguments.get(1).is_some_and(|first| first.as_bytes() == RAISED.as_bytes());
    if raised {
        arguments.remove(1);
        sys::keep_capabilities_to_itself()?;
    }
    Ok(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_the_helpers_own_arguments_are_the_helpers() {
        for line in [&["x"][..], &["x", HELPER], &["x", "leakcheck", HELPER], &["x", HELPER, "a", "b"]] {
            assert!(helper(&words(line)).is_none(), "{line:?}");
        }
    }

    #[test]
    fn the_mark_is_taken_out() {
        let mut arguments = words(&["x", RAISED, "leakcheck", RAISED]);
        // (Which leaves this thread its capabilities, and takes those away that it hands on.)
        assert!(was_raised(&mut arguments).unwrap());
        assert_eq!(arguments, words(&["x", "leakcheck", RAISED]));
        assert!(!was_raised(&mut arguments).unwrap());
    }

    #[test]
    fn a_refusal_is_sudos_last_line() {
        assert_eq!(refusal(b"hint\nsudo: a password is required\n\n"), "sudo: a password is required");
        assert_eq!(refusal(b""), "sudo gives no reason");
        assert_eq!(refusal(b"\x1b[31mno"), "[31mno");
    }
}
