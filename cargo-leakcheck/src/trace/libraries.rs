//! The libraries that a test's process is given.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use camino::Utf8PathBuf;

use super::ledger::Ledger;
use crate::model::RecordedBy;

/// A private copy of a library.
#[derive(Clone, Debug)]
pub struct Library {
    /// The copy.
    pub path: Utf8PathBuf,
    /// What it is a copy of.
    pub original: Utf8PathBuf,
}

/// Virtual addresses in a dynamic loader.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    /// The function that it calls before it loads libraries.
    pub loading: u64,
    /// Its list of modules.
    pub modules: u64,
}

/// The private copies that a binary is given.
#[derive(Clone, Debug)]
pub struct Libraries {
    /// The C library.
    pub libc: Arc<Library>,
    /// Virtual address of `malloc` in it.
    pub malloc: u64,
    /// What has to be known of the loader.
    pub loader: Loader,
    /// The GNU C++ library, where the binary uses it.
    pub cxx: Option<Arc<Library>>,
    /// Libraries with a `malloc` of their own, which is the one that programs call.
    pub allocators: Vec<Utf8PathBuf>,
    /// Who records.
    pub recorded_by: RecordedBy,
    /// Why blocks may not be seen, if that shows beforehand.
    pub unseen: Option<String>,
}

impl Libraries {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Library> {
        std::iter::once(&*self.libc).chain(self.cxx.as_deref())
    }

    /// The value of `LD_PRELOAD` that loads them: the ledger before what the user preloads, which may
    /// ask for the next definition of a function (`RTLD_NEXT`), and the copies behind everything that
    /// would be found before the C library.
    pub fn preload(&self, ledger: Option<&Ledger>, theirs: Option<&OsStr>) -> OsString {
        let ledger = ledger.map(|ledger| OsStr::new(&ledger.path));
        let allocators = self.allocators.iter().map(OsStr::new);
        let copies = self.iter().map(|library| OsStr::new(&library.path));
        let all: Vec<_> = ledger.into_iter().chain(theirs).chain(allocators).chain(copies).collect();
        all.join(OsStr::new(":"))
    }
}

/// How a binary can be traced, or why it cannot.
pub type Coverage = std::result::Result<Libraries, String>;
