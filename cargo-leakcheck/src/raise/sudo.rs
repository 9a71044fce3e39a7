//! By sudo, where that asks for no password: it starts this program as root, which becomes the user again.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use super::state::State;
use super::{CHECK, Launch, missing, refusal};
use crate::options::Raised;
use crate::sys::{self, Capability};

/// First argument of the program that sudo starts; what follows is `CHECK`, or the file with the state.
pub const HELPER: &str = "__raise";
/// First argument of the program that the helper executes.
pub const RAISED: &str = "__raised";

/// Replaces this process by one with privileges, if sudo allows that without a password. Why it did not, where
/// it returns.
pub fn raise(launch: &Launch) -> Raised {
    // The user's groups stay: root has no list of its own to give.
    let sudo = |what: &OsStr| {
        let mut command = Command::new("sudo");
        command.args(["-n", "-P", "--"]).arg(&launch.executable).arg(HELPER).arg(what);
        command
    };
    // What it says is looked at, and so is to be English.
    match sudo(CHECK.as_ref()).env("LC_ALL", "C").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let refusal = refusal(&output.stderr);
            let hint =
                if refusal.contains("password") { "; `cargo leakcheck setup` asks for it once" } else { "" };
            return Raised::Refused(refusal + hint);
        }
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

/// The helper: as root it looks at nothing but its arguments and two variables of sudo's.
///
/// # Errors
/// It cannot do its work; why, for the user.
pub fn help(what: &OsStr) -> Result<(), String> {
    if what == CHECK {
        return missing(sys::capabilities())
            .map_or(Ok(()), |missing| Err(format!("sudo cannot give {} here", missing.name())));
    }
    become_the_user(what).map(|never| match never {})
}

/// Who has asked sudo: the user's and the group's numbers.
///
/// # Errors
/// sudo has not started this process.
pub fn asked_by() -> Result<(u32, u32), String> {
    let number = |variable: &str| -> Result<u32, String> {
        let value = std::env::var(variable).ok().and_then(|value| value.parse().ok());
        value.ok_or_else(|| {
            format!("{variable} is not set: sudo has not started this; call `cargo leakcheck`")
        })
    };
    match (number("SUDO_UID")?, number("SUDO_GID")?) {
        (0, _) => Err("the user is root already".into()),
        asked => Ok(asked),
    }
}

fn become_the_user(file: &OsStr) -> Result<Infallible, String> {
    let (user, group) = asked_by()?;
    let executable = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    sys::become_user(user, group, &Capability::ALL)
        .map_err(|error| format!("cannot become user {user} again: {error}"))?;
    let state = State::read(file.as_ref(), user).map_err(|error| format!("{}: {error}", file.display()))?;
    Err(format!("cannot execute {}: {}", executable.display(), state.execute(&executable, RAISED)))
}
