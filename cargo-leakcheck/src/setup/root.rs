//! What sudo starts as root. It takes the user from sudo, everything else is fixed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::raise;
use crate::raise::installed::{Place, ROOT};
use crate::sys::{self, Capability};

/// First argument of what sudo starts.
pub const SETUP: &str = "__setup";
/// What follows.
pub const INSTALL: &str = "install";
/// What follows.
pub const REMOVE: &str = "remove";

/// If this process is what sudo has started, does its work.
pub fn as_root(arguments: &[OsString]) -> Option<Result<(), String>> {
    match arguments {
        [_, first, what] if first == SETUP && what == INSTALL => Some(raise::asked_by().and_then(install)),
        [_, first, what] if first == SETUP && what == REMOVE => Some(raise::asked_by().and_then(remove)),
        _ => None,
    }
}

/// With the path that something was done to.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

fn install((user, _): (u32, u32)) -> Result<(), String> {
    let result = prepare(Path::new(ROOT)).and_then(|()| replace(user));
    if result.is_err() {
        // It is kept where others use it.
        let _ = fs::remove_dir(ROOT);
    }
    result
}

/// Makes the directory of all users', unless it is there.
fn prepare(root: &Path) -> Result<(), String> {
    // sudo keeps the user's, which may be stricter.
    sys::set_file_mode_mask(0o022);
    at(root, DirBuilder::new().recursive(true).mode(0o755).create(root))?;
    let real = at(root, root.canonicalize())?;
    real.ancestors().try_for_each(is_roots_alone)?;
    if at(root, sys::is_nosuid(root))? {
        return Err(format!(
            "{ROOT} is on a file system that is mounted `nosuid`: files have no capabilities there"
        ));
    }
    Ok(())
}

fn replace(user: u32) -> Result<(), String> {
    let [new, old] = left_over(user);
    [&new, &old].into_iter().try_for_each(|path| remove_all(path))?;
    let result = fill(&new, user).and_then(|()| {
        let directory = Place::of(user).directory;
        match fs::rename(&directory, &old) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => at(&directory, other)?,
        }
        at(&directory, fs::rename(&new, &directory))?;
        remove_all(&old)
    });
    if result.is_err() {
        // Half of it is of no use.
        remove_all(&new)?;
    }
    result
}

fn fill(directory: &Path, user: u32) -> Result<(), String> {
    let place = Place::in_directory(directory.to_owned());
    at(directory, DirBuilder::new().mode(0o700).create(directory))?;
    let closed = sys::open_to(directory, user);
    closed.map_err(|error| format!("{}: cannot open it to the user alone: {error}", directory.display()))?;
    for path in [&place.helper, &place.tool] {
        at(path, copy_of_this_program(path))?;
    }
    let given = sys::give_capabilities(&place.helper, &Capability::ALL);
    given.map_err(|error| format!("{}: cannot give it capabilities: {error}", place.helper.display()))
}

fn copy_of_this_program(path: &Path) -> io::Result<()> {
    let mut program = File::open("/proc/self/exe")?;
    let mut copy = File::create_new(path)?;
    io::copy(&mut program, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(0o755))?;
    copy.set_modified(program.metadata()?.modified()?)
}

/// Whether nobody but root can put something else in a directory's place, or in it.
fn is_roots_alone(directory: &Path) -> Result<(), String> {
    let metadata = at(directory, directory.metadata())?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner == 0 && mode & 0o22 == 0 {
        return Ok(());
    }
    Err(format!("{} may be changed by others than root: owner {owner}, mode {mode:o}", directory.display()))
}

fn remove((user, _): (u32, u32)) -> Result<(), String> {
    let [new, old] = left_over(user);
    [&Place::of(user).directory, &new, &old].into_iter().try_for_each(|path| remove_all(path))?;
    match fs::remove_dir(ROOT) {
        // Others use it.
        Err(error) if !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => {
            Err(format!("{ROOT}: {error}"))
        }
        _ => Ok(()),
    }
}

/// What an installation that was killed may have left.
fn left_over(user: u32) -> [PathBuf; 2] {
    ["new", "old"].map(|what| Path::new(ROOT).join(format!(".{user}.{what}")))
}

fn remove_all(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_may_replace() {
        assert_eq!(is_roots_alone(Path::new("/")), Ok(()));
        // Everyone may write there; the sticky bit is not enough.
        assert!(is_roots_alone(Path::new("/tmp")).unwrap_err().contains("mode 1777"));
        assert!(is_roots_alone(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn only_its_own_arguments() {
        for line in [&["x", SETUP][..], &["x", SETUP, "else"], &["x", "leakcheck", SETUP, INSTALL]] {
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert!(as_root(&line).is_none(), "{line:?}");
        }
    }
}
