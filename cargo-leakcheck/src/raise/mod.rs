//! A plain user's run with privileges for the tracer alone: by what `cargo leakcheck setup` has installed, or by
//! `sudo -n`. Either starts a helper, which hands some capabilities on as it executes this program anew, with the user's
//! own arguments and environment. So building, listing, the tests and the reports belong to the user, whose capabilities
//! are those of any program; and what has more than the tool needs is some lines that read next to nothing.

pub mod installed;
mod state;
mod sudo;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::options::{Environment, Raised};
use crate::sys::{self, Capabilities, Capability};

pub use sudo::asked_by;

/// Asks a helper whether it could do its work.
const CHECK: &str = "check";

/// What this process was started with.
pub struct Launch {
    /// This program.
    pub executable: PathBuf,
    /// All of its arguments, its name first.
    pub arguments: Vec<OsString>,
    /// Its environment.
    pub environment: Environment,
}

/// Whether privileges are missing that could be given.
pub fn is_wanted() -> bool {
    sys::user() != 0 && missing(sys::capabilities()).is_some()
}

/// The first capability that is missing and without which it is not worth it.
fn missing(there: Capabilities) -> Option<Capability> {
    let needed = [Capability::Bpf, Capability::Perfmon, Capability::SysPtrace];
    needed.into_iter().find(|capability| !there.has(*capability))
}

/// Replaces this process by one with privileges. Why that was not possible, where it returns.
pub fn raise(launch: &Launch) -> Raised {
    installed::raise(launch).unwrap_or_else(|| sudo::raise(launch))
}

/// What a helper said, in a line.
fn refusal(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason is given");
    line.chars().filter(|letter| !letter.is_control()).collect()
}

/// If this process is a helper, does its work: it does not return if it has succeeded, but for a check. This comes
/// before anything else, since a process that has its privileges by its file must do nothing else.
pub fn helper(arguments: &[OsString]) -> Option<Result<(), String>> {
    match arguments {
        [_, first, what] if first == installed::HELPER => Some(installed::help(what)),
        _ if sys::is_secure() => {
            Some(Err("this copy has capabilities, and does nothing but hand them on; call `cargo leakcheck`"
                .into()))
        }
        [_, first, what] if first == sudo::HELPER => Some(sudo::help(what)),
        _ => None,
    }
}

/// Whether, and how, this process was raised. Takes the mark out of the arguments, puts the user's environment
/// back, and sees to it that nothing that this process starts has its capabilities.
///
/// # Errors
/// The system refuses that.
pub fn was_raised(arguments: &mut Vec<OsString>) -> io::Result<Option<Raised>> {
    let raised = match arguments.get(1) {
        Some(first) if first == sudo::RAISED => Raised::BySudo,
        Some(first) if first == installed::RAISED => Raised::BySetup,
        _ => return Ok(None),
    };
    arguments.remove(1);
    sys::keep_capabilities_to_itself()?;
    state::restore_environment();
    Ok(Some(raised))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_the_helpers_own_arguments_are_the_helpers() {
        for name in [sudo::HELPER, installed::HELPER] {
            for line in [&["x"][..], &["x", name], &["x", "leakcheck", name], &["x", name, "a", "b"]] {
                assert!(helper(&words(line)).is_none(), "{line:?}");
            }
        }
    }

    #[test]
    fn who_is_not_raised_stays_as_he_is() {
        let mut arguments = words(&["x", "leakcheck", sudo::RAISED]);
        assert_eq!(was_raised(&mut arguments).unwrap(), None);
        assert_eq!(arguments, words(&["x", "leakcheck", sudo::RAISED]));
    }

    #[test]
    fn a_refusal_is_the_last_line() {
        assert_eq!(refusal(b"hint\nsudo: a password is required\n\n"), "sudo: a password is required");
        assert_eq!(refusal(b""), "no reason is given");
        assert_eq!(refusal(b"\x1b[31mno"), "[31mno");
    }
}
