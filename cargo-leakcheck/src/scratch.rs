//! Temporary directories that do not outlive a killed run for long: the next run removes them.

use std::fs::{File, remove_dir_all, rename};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What their names begin with.
const PREFIX: &str = "cargo-leakcheck-";
/// The file in them that their run keeps locked.
const LOCK: &str = "lock";

/// A temporary directory whose path has no white space, colon or dollar sign: neither `LD_PRELOAD`
/// nor cargo's list of runner arguments has a way to quote them. Dropping it removes it.
pub struct Scratch {
    directory: TempDir,
    /// Held as long as the directory is in use, see `sweep`.
    _lock: File,
}

impl Scratch {
    /// Makes one, and removes those whose runs were killed.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn new() -> io::Result<Self> {
        let usual = std::env::temp_dir();
        let is_odd = |letter: char| letter.is_whitespace() || matches!(letter, ':' | '$');
        let usable = usual.to_str().is_some_and(|path| !path.contains(is_odd));
        let parent = if usable { usual } else { PathBuf::from("/tmp") };
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent)?;
        // It gets its name when it is locked: until then nobody takes the directory for a stale one.
        let unnamed = directory.path().join("new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        rename(&unnamed, directory.path().join(LOCK))?;
        sweep(&parent);
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes what runs have left that were killed: directories whose lock nobody holds.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let stale = is_ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if stale {
            // Another run may be doing the same.
            let _ = remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_nobody_holds_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let directory = parent.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            File::create(directory.join(LOCK)).unwrap()
        };
        drop(make("cargo-leakcheck-stale"));
        drop(make("something-else"));
        let held = make("cargo-leakcheck-held");
        held.lock().unwrap();
        std::fs::create_dir(parent.path().join("cargo-leakcheck-new")).unwrap();
        sweep(parent.path());
        let mut left: Vec<_> =
            std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["cargo-leakcheck-held", "cargo-leakcheck-new", "something-else"]);
    }
}
