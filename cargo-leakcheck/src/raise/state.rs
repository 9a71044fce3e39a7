//! What sudo, or a process in the loader's secure mode, does not hand on: arguments, environment (the loader's
//! variables among it) and file mode mask, in a file that only the user may read.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::NamedTempFile;

use super::Launch;
use crate::options::Environment;
use crate::sys;

/// More than the kernel takes for a program's arguments and environment.
const LONGEST: u64 = 16 << 20;

/// Stands before the name of each variable of a program that is executed with privileges, until it has begun: what a
/// variable asks of the loader or the C library (`LD_PRELOAD`) is for the tests, and not for who has capabilities.
const HELD: &[u8] = b"_";

/// Puts the environment back that [`State::execute`] has held.
pub fn restore_environment() {
    let variables: Vec<_> =
        std::env::vars_os().filter_map(|(name, value)| Some((released(&name)?, value))).collect();
    sys::replace_environment(&variables);
}

/// The name that was held. (One that begins with `=`, which the system allows, is lost on the way.)
fn released(name: &OsStr) -> Option<OsString> {
    let name = name.as_bytes().strip_prefix(HELD).filter(|name| !name.is_empty())?;
    Some(OsStr::from_bytes(name).to_owned())
}

/// The state of a process that another one is to have.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    mask: u32,
    arguments: Vec<OsString>,
    environment: Environment,
}

impl State {
    /// That of this process.
    pub fn of_this_process(launch: &Launch) -> Self {
        let (arguments, environment) = (launch.arguments.clone(), launch.environment.clone());
        Self { mask: sys::file_mode_mask(), arguments, environment }
    }

    /// Writes it where only the user can read it.
    pub fn write(&self) -> io::Result<NamedTempFile> {
        let mut file = NamedTempFile::with_prefix("cargo-leakcheck-state-")?;
        file.write_all(&self.encode())?;
        Ok(file)
    }

    /// Reads it, as `user`, from a file that must be that user's, and removes the file.
    pub fn read(path: &Path, user: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(sys::NO_FOLLOW).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != user || metadata.mode() & 0o77 != 0 {
            return Err(io::Error::other("it is not a file of the user alone"));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes)?;
        std::fs::remove_file(path)?;
        Self::decode(&bytes).ok_or_else(|| io::Error::other("it is not what was written"))
    }

    /// Replaces this process; why that has failed. `mark` becomes the first argument.
    pub fn execute(self, executable: &Path, mark: &str) -> io::Error {
        sys::set_file_mode_mask(self.mask);
        let mut arguments = self.arguments.iter();
        let mut command = Command::new(executable);
        command.arg0(arguments.next().map_or(executable.as_os_str(), OsString::as_os_str));
        command.arg(mark).args(arguments).env_clear().envs(held(self.environment)).exec()
    }

    /// Strings, each ended by a zero byte, which none of them can hold.
    fn encode(&self) -> Vec<u8> {
        let head = [self.mask, self.arguments.len() as u32].map(|number| OsString::from(number.to_string()));
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        let strings = head.iter().chain(&self.arguments).chain(variables);
        strings.flat_map(|text| text.as_bytes().iter().copied().chain([0])).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut strings = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let mut number = || strings.next()?.to_str()?.parse::<u32>().ok();
        let (mask, count) = (number()?, number()? as usize);
        let arguments: Vec<_> = strings.by_ref().take(count).map(OsStr::to_owned).collect();
        let rest: Vec<_> = strings.collect();
        let (pairs, []) = rest.as_chunks::<2>() else { return None };
        let environment = pairs.iter().map(|[name, value]| (OsString::from(name), OsString::from(value)));
        (arguments.len() == count).then(|| Self { mask, arguments, environment: environment.collect() })
    }
}

fn held(environment: Environment) -> impl Iterator<Item = (OsString, OsString)> {
    let hold = |name: &OsStr| OsStr::from_bytes(&[HELD, name.as_bytes()].concat()).to_owned();
    environment.into_iter().map(move |(name, value)| (hold(&name), value))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn state() -> State {
        let odd = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let environment = [(odd(b"LD_LIBRARY_PATH"), odd(b"/a:/b")), (odd(b"EMPTY"), odd(b""))];
        State {
            mask: 0o27,
            arguments: vec![odd(b"cargo-leakcheck"), odd(b""), odd(b"\xff = \n\t'")],
            environment: environment.into(),
        }
    }

    #[test]
    fn any_bytes_survive() {
        let bytes = state().encode();
        assert_eq!(State::decode(&bytes), Some(state()));
        assert!((0..bytes.len()).all(|end| State::decode(&bytes[..end]) != Some(state())));
        assert_eq!(State::decode(b""), None);
        assert_eq!(State::decode(b"18\x009\x00a\0"), None);
    }

    #[test]
    fn no_variable_is_left_to_the_loader() {
        let names: Vec<_> = held(state().environment).map(|(name, _)| name).collect();
        assert_eq!(names, ["_EMPTY", "_LD_LIBRARY_PATH"]);
        let released = names.iter().map(|name| released(name).unwrap());
        assert_eq!(released.collect::<Vec<_>>(), ["EMPTY", "LD_LIBRARY_PATH"]);
        assert_eq!(super::released("_".as_ref()), None);
    }

    #[test]
    fn the_file_is_for_the_user_alone_and_read_once() {
        let file = state().write().unwrap();
        assert_eq!(file.as_file().metadata().unwrap().mode() & 0o777, 0o600);
        let user = sys::user();
        let stranger = State::read(file.path(), user + 1).unwrap_err();
        assert!(stranger.to_string().contains("the user alone"));
        assert_eq!(State::read(file.path(), user).unwrap(), state());
        assert!(!file.path().exists());
    }

    #[test]
    fn links_and_open_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = state().write().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(file.path(), &link).unwrap();
        assert!(State::read(&link, sys::user()).is_err());
        let mut permissions = file.as_file().metadata().unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
        file.as_file().set_permissions(permissions).unwrap();
        assert!(State::read(file.path(), sys::user()).is_err());
        assert!(file.path().exists());
    }
}
