//! The temporary directory that each test is given, and what it leaves there.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::model::LeftFiles;

/// The variable that names the directory for temporary files.
const VARIABLE: &str = "TMPDIR";
/// Paths that are told.
const PATHS: usize = 5;

/// The mode of `/tmp`: a test may go on as another user.
const MODE: u32 = 0o1777;

/// Makes the directories of a run's tests. One that is as it was is the next test's: making and removing costs
/// a tenth of a short test's time.
pub struct Temporaries {
    parent: PathBuf,
    made: Cell<usize>,
    free: Rc<RefCell<Vec<Directory>>>,
}

/// A test's temporary directory.
pub struct Temporary {
    directory: Directory,
    free: Rc<RefCell<Vec<Directory>>>,
}

struct Directory {
    path: PathBuf,
    inode: u64,
}

impl Temporaries {
    /// They are made in `parent`.
    pub fn new(parent: PathBuf) -> Self {
        Self { parent, made: Cell::default(), free: Rc::default() }
    }

    /// One for a test with an environment. None where that names another directory than the tool's own environment does: it
    /// was set for the tests.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn give(&self, environment: &[(OsString, OsString)]) -> io::Result<Option<Temporary>> {
        let theirs = environment.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value);
        if theirs != std::env::var_os(VARIABLE).as_ref() {
            return Ok(None);
        }
        let known = self.free.borrow_mut().pop();
        let directory = known.map_or_else(|| self.make(), Ok)?;
        Ok(Some(Temporary { directory, free: self.free.clone() }))
    }

    fn make(&self) -> io::Result<Directory> {
        // Short: addresses of Unix sockets have 108 bytes.
        // Of one length, since what is forked has no more room for it than others (`template::stack`).
        let path = self.parent.join(format!("t{:03}", self.made.replace(self.made.get() + 1)));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(MODE))?;
        Ok(Directory { inode: fs::metadata(&path)?.ino(), path })
    }
}

impl Temporary {
    /// The variable that names it.
    pub fn variable(&self) -> (&OsStr, &OsStr) {
        (OsStr::new(VARIABLE), self.directory.path.as_os_str())
    }

    /// Removes what was left in it; what that was.
    pub fn clear(self) -> LeftFiles {
        let Directory { path, inode } = &self.directory;
        let mut left = LeftFiles::default();
        let Ok(metadata) = fs::symlink_metadata(path) else { return left };
        if metadata.is_dir() {
            look(path, Path::new(""), &mut left);
        }
        let is_as_it_was = metadata.ino() == *inode
            && metadata.mode() == libc::S_IFDIR | MODE
            && metadata.uid() == nix::unistd::geteuid().as_raw();
        if left.count == 0 && is_as_it_was {
            self.free.borrow_mut().push(self.directory);
        } else {
            // What cannot be removed goes with the run's directory.
            let _ = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        left
    }
}

/// Adds what there is in a directory below `root`, in the order of names.
fn look(root: &Path, below: &Path, left: &mut LeftFiles) {
    let mut entries: Vec<_> = fs::read_dir(root.join(below)).into_iter().flatten().flatten().collect();
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let Ok(metadata) = entry.metadata() else { continue };
        let before = left.count;
        if metadata.is_dir() {
            look(root, &path, left);
        }
        // Of directories only those count that have nothing in them.
        if left.count == before {
            left.count += 1;
            left.bytes += if metadata.is_file() { metadata.len() } else { 0 };
            if left.paths.len() < PATHS {
                left.paths.push(path.to_string_lossy().into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<(OsString, OsString)> {
        std::env::var_os(VARIABLE).map(|value| (VARIABLE.into(), value)).into_iter().collect()
    }

    /// A directory for a test that has the tool's own environment, and where it is.
    fn given(all: &Temporaries) -> (Temporary, PathBuf) {
        let given = all.give(&own()).unwrap().unwrap();
        let path = given.directory.path.clone();
        assert_eq!(given.variable(), (VARIABLE.as_ref(), path.as_os_str()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o1777);
        (given, path)
    }

    #[test]
    fn what_is_left_is_counted_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let all = Temporaries::new(parent.path().to_owned());
        let (one, path) = given(&all);
        fs::create_dir_all(path.join("b/empty")).unwrap();
        fs::write(path.join("b/file"), "four").unwrap();
        std::os::unix::fs::symlink("/etc", path.join("a")).unwrap();
        for number in 0..4 {
            fs::write(path.join(format!("c{number}")), "x").unwrap();
        }
        let left = one.clear();
        assert_eq!((left.count, left.bytes), (7, 8));
        assert_eq!(left.paths, ["a", "b/empty", "b/file", "c0", "c1"]);
        assert!(!path.exists() && Path::new("/etc").exists());
    }

    #[test]
    fn only_a_directory_that_is_as_it_was_is_given_again() {
        let parent = tempfile::tempdir().unwrap();
        let all = Temporaries::new(parent.path().to_owned());
        let (one, first) = given(&all);
        assert_ne!(given(&all).1, first, "tests at the same time have their own");
        assert_eq!(one.clear(), LeftFiles::default());
        let changes: [&dyn Fn(&Path); 4] = [
            &|path| fs::remove_dir(path).unwrap(),
            &|path| fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap(),
            &|path| fs::rename(path, path.with_extension("old")).and_then(|()| fs::create_dir(path)).unwrap(),
            &|path| fs::remove_dir(path).and_then(|()| fs::write(path, "")).unwrap(),
        ];
        let (mut one, mut path) = given(&all);
        assert_eq!(path, first);
        for change in changes {
            change(&path);
            assert_eq!(one.clear(), LeftFiles::default());
            assert!(!path.exists());
            let last = path.clone();
            (one, path) = given(&all);
            assert_ne!(path, last);
        }
    }

    #[test]
    fn a_directory_that_was_set_for_the_tests_is_theirs() {
        let all = Temporaries::new("/nowhere".into());
        assert!(all.give(&[(VARIABLE.into(), "/elsewhere".into())]).unwrap().is_none());
    }
}
