//! The libraries that a test's process is given.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use camino::Utf8PathBuf;

use super::ledger::Ledger;
use super::symbolizer::Symbolizer;
use crate::model::RecordedBy;

/// A private copy of a library.
#[derive(Clone, Debug)]
pub struct Library {
    /// The copy.
    pub path: Utf8PathBuf,
    /// What it is a copy of.
    pub original: Utf8PathBuf,
}

/// Where a process is when nothing of the program itself has run, and all that it needs to allocate has.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// At the entry point that its loader calls.
    Loader(Loader),
    /// At a function of a static executable, so far behind its first page.
    Function(u64),
}

/// Whose heap a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heap {
    /// glibc's, whose layout is known.
    Glibc,
    /// Others as well.
    Other,
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
    /// The C library; of a static executable that itself.
    pub libc: Arc<Library>,
    /// Where `malloc` is in it, behind its first page.
    pub malloc: u64,
    /// Where the program is about to begin.
    pub start: Start,
    /// The GNU C++ library, where the binary uses it.
    pub cxx: Option<Arc<Library>>,
    /// Libraries with a `malloc` of their own, which is the one that programs call.
    pub allocators: Vec<Arc<Library>>,
    /// Who records.
    pub recorded_by: RecordedBy,
    /// Why blocks may not be seen, if that shows beforehand.
    pub unseen: Option<String>,
    /// What its allocators are called.
    pub names: Vec<String>,
    /// Whose heap it has.
    pub heap: Heap,
    /// Functions of several allocators are probed, which call each other.
    pub layers: bool,
    /// The part of a static executable that is the C library's: address behind its first page, and size.
    pub span: Option<(u64, u64)>,
    /// How far the log of the crate `leakcheck` is behind the program's entry point (wrapping), where it has one.
    pub log: Option<u64>,
    /// Why nothing is to be forked from a process of it, as far as the program's functions say.
    pub unforkable: Option<&'static str>,
    /// Where std's symbolizer is in the program.
    pub symbolizer: Arc<Symbolizer>,
}

impl Libraries {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Library> {
        let allocators = self.allocators.iter().map(|library| &**library);
        std::iter::once(&*self.libc).chain(self.cxx.as_deref()).chain(allocators)
    }

    /// Whether it has no loader.
    pub fn is_static(&self) -> bool {
        matches!(self.start, Start::Function(_))
    }

    /// The value of `LD_PRELOAD` that loads them: the ledger before what the user preloads, which may
    /// ask for the next definition of a function (`RTLD_NEXT`), and the copies behind everything that
    /// would be found before the C library.
    pub fn preload(&self, ledger: Option<&Ledger>, theirs: Option<&OsStr>) -> OsString {
        let ledger = ledger.map(|ledger| ledger.path.as_os_str());
        // What the user preloads is taken from its copy, where there is one.
        let theirs: Vec<&OsStr> = theirs.map(|theirs| self.copied(theirs)).unwrap_or_default();
        let rest = self.allocators.iter().map(|library| &**library);
        let rest = rest.chain([&*self.libc]).chain(self.cxx.as_deref());
        let rest = rest.map(|library| library.path.as_os_str()).filter(|path| !theirs.contains(path));
        let all: Vec<_> = ledger.into_iter().chain(theirs.iter().copied()).chain(rest).collect();
        all.join(OsStr::new(":"))
    }

    /// The libraries that a value of the variable names, allocators by their copies.
    fn copied<'a>(&'a self, value: &'a OsStr) -> Vec<&'a OsStr> {
        let names = value.as_bytes().split(|byte| b": ".contains(byte)).filter(|name| !name.is_empty());
        let copy = |name: &'a OsStr| {
            let path = Path::new(name).canonicalize().ok();
            let mut copies = self.allocators.iter();
            let found = copies.find(|library| path.as_deref() == Some(library.original.as_std_path()));
            found.map_or(name, |library| library.path.as_os_str())
        };
        names.map(|name| copy(OsStr::from_bytes(name))).collect()
    }
}

/// How a binary can be traced, or why it cannot.
pub type Coverage = std::result::Result<Arc<Libraries>, String>;
