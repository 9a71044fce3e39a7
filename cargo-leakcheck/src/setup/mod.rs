//! `cargo leakcheck setup`: for a user who may use sudo with a password, installs once what raises the tracer from
//! then on (`raise::installed`). What runs as root is in `root`.

mod root;

use std::io::Write as _;
use std::process::Command;

pub use self::root::as_root;
use crate::error::{Error, Exit, Result};
use crate::options::{SetupAction, SetupOptions};
use crate::raise::installed::{Place, Setup};
use crate::sys;

/// Installs, removes or looks; how it ended.
///
/// # Errors
/// sudo refuses, or the machine has no place for it.
pub fn run(options: &SetupOptions) -> Result<Exit> {
    let user = sys::user();
    if user == 0 {
        return Err(Error::Usage(
            "root needs no setup; a plain user calls `cargo leakcheck setup`, which asks sudo by itself"
                .into(),
        ));
    }
    let directory = Place::of(user).directory;
    let place = directory.display();
    let refused = |reason| Error::Command { command: "cargo leakcheck setup".into(), reason };
    match options.action {
        SetupAction::Check => Ok(match Setup::look_up(&options.executable) {
            Setup::Works => {
                say(&format!("set up: {place} gives the tracer its capabilities"));
                Exit::Clean
            }
            Setup::No => {
                say(&format!("not set up: there is no {place}; `cargo leakcheck setup` makes it"));
                Exit::Incomplete
            }
            Setup::Refused(reason) => {
                say(&format!("does not work: {reason}"));
                Exit::Incomplete
            }
        }),
        SetupAction::Install => {
            say(&format!("sudo installs in {place}, which only user {user} and root may enter,"));
            say("a copy of this program that hands five capabilities on to a second one, and nothing else");
            ask_sudo(options, root::INSTALL)?;
            match Setup::look_up(&options.executable) {
                Setup::Works => {
                    say("set up; `cargo leakcheck setup --remove` takes it back");
                    Ok(Exit::Clean)
                }
                Setup::No => Err(refused(format!("there is no {place}"))),
                Setup::Refused(reason) => Err(refused(reason)),
            }
        }
        SetupAction::Remove if !std::fs::exists(&directory).unwrap_or(true) => {
            say(&format!("there is nothing to remove: {place} does not exist"));
            Ok(Exit::Clean)
        }
        SetupAction::Remove => {
            ask_sudo(options, root::REMOVE)?;
            say(&format!("removed {place}"));
            Ok(Exit::Clean)
        }
    }
}

/// Nobody may be listening any more.
fn say(text: &str) {
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// The only place where sudo may ask for a password: by the user's own terminal.
fn ask_sudo(options: &SetupOptions, what: &str) -> Result<()> {
    let mut command = Command::new("sudo");
    command.args(["--"]).arg(&options.executable).args([root::SETUP, what]);
    let failed = |reason| Error::Command {
        command: format!("sudo -- {} {} {what}", options.executable.display(), root::SETUP),
        reason,
    };
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("it ended with {status}"))),
        Err(error) => Err(failed(error.to_string())),
    }
}
