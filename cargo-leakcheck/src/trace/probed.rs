//! Files in which probes may be placed. A probe is met by whoever executes the file, root as well, and one inside of an
//! instruction or of a stack frame changes what that one does. So a plain user's tracer, whose capabilities the user's
//! programs may ask for too, places probes only in what the user could write to anyway; and in that very file, whatever
//! its path has come to mean since it was read.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use camino::Utf8Path;

use crate::sys;

/// Why there are none in a file.
const REASON: &str = "belongs to another user, and probes in it would be met by everyone who executes it: give a copy of \
                      it, or use --no-sudo";

/// A file that may be probed.
pub(super) struct Probed(File);

impl Probed {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened, or is not to be probed.
    pub(super) fn open(path: &Utf8Path) -> io::Result<Self> {
        let file = File::open(path)?;
        match sys::may_change(&file)? {
            true => Ok(Self(file)),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, REASON)),
        }
    }

    /// A path of it that nobody else can change.
    pub(super) fn path(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.0.as_raw_fd())).expect("it has no NUL")
    }
}

/// Why a file is not to be probed, if that is so.
pub(super) fn refusal(path: &Utf8Path) -> Option<String> {
    let error = Probed::open(path).err()?;
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| format!("{path} {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_the_file_that_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("program");
        std::fs::write(&path, "one").unwrap();
        let probed = Probed::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert_eq!(std::fs::read(probed.path().to_str().unwrap()).unwrap(), b"one");
    }
}
