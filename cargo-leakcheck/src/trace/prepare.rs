//! What has to be in place before the first test starts: a private copy of each C library that the
//! binaries would load, with probes in it, and probes in the binaries themselves. The copy is the
//! scope: no process but the run's tests maps it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::Pid;

use super::code::Code;
use super::ledger::{Ledger, Module};
use super::sites::Program;
use super::steering::Steering;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, TestBinary, Window};
use crate::options::{Recorder, TraceOptions};
use crate::scratch::Scratch;

const LIBC: &str = "libc.so.6";
const CXX: &str = "libstdc++.so.6";
/// What the loader calls for debuggers before it loads libraries, and after (elf/dl-debug.c).
const LOADING: &str = "_dl_debug_state";
/// Where it keeps its list of modules, `struct r_debug` of `link.h`.
const MODULES: &str = "_r_debug";

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

/// What has to be known of a module.
#[derive(Clone, Copy, Debug)]
struct Facts {
    is_allocator: bool,
    passes_ledger: bool,
}

/// How a binary can be traced, or why it cannot.
pub type Coverage = std::result::Result<Libraries, String>;

/// The prepared binaries of a run. Dropping it removes the copies.
pub struct Prepared {
    directory: Scratch,
    /// Copies by what they are copies of, with the address of `malloc` in them.
    libraries: HashMap<Utf8PathBuf, (Arc<Library>, u64)>,
    binaries: HashMap<Utf8PathBuf, Coverage>,
    /// Executables whose processes are followed where tests start them, by device and inode.
    executables: HashMap<(u64, u64), Utf8PathBuf>,
    /// The ledger, where that is the recorder.
    ledger: Option<Arc<Ledger>>,
    recorder: Recorder,
    /// What binaries load, by the paths of the mappings.
    modules: HashMap<Utf8PathBuf, Facts>,
    /// The same, for the ledger.
    frames: Vec<Module>,
    probe_at_entry: bool,
}

impl Prepared {
    /// Places every probe that `tests` need.
    ///
    /// # Errors
    /// A probe cannot be placed, or the copy cannot be made.
    pub fn new(
        steering: &mut Steering,
        tests: &[PlannedTest],
        executables: &[Utf8PathBuf],
        options: &TraceOptions,
    ) -> Result<Self> {
        let system = |call: &str| {
            let call = call.to_owned();
            move |source| Error::System { call, source }
        };
        let directory = Scratch::new().map_err(system("making a temporary directory"))?;
        // Tests may run as another user than the tracer.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
            .map_err(system("opening the temporary directory to tests"))?;
        let mut prepared = Self {
            directory,
            libraries: HashMap::new(),
            binaries: HashMap::new(),
            executables: HashMap::new(),
            ledger: None,
            recorder: options.recorder,
            modules: HashMap::new(),
            frames: Vec::new(),
            probe_at_entry: options.probe_at_entry,
        };
        for test in tests {
            if !prepared.binaries.contains_key(&test.binary.path) {
                let coverage = prepared.cover(steering, &test.binary, test.window)?;
                prepared.binaries.insert(test.binary.path.clone(), coverage);
            }
        }
        for path in executables {
            let identity = identity(path.as_std_path()).map_err(system("looking at an executable"))?;
            prepared.executables.insert(identity, path.clone());
            if let (false, Some(test)) = (prepared.binaries.contains_key(path), tests.first()) {
                // Cargo gives all tests the same path of libraries.
                let binary = TestBinary { path: path.clone(), ..TestBinary::clone(&test.binary) };
                let coverage = prepared.cover(steering, &binary, Window::Process)?;
                prepared.binaries.insert(path.clone(), coverage);
            }
        }
        if prepared.recorder != Recorder::Uprobe {
            let ledger = Ledger::install(prepared.directory.path(), std::mem::take(&mut prepared.frames))?;
            prepared.ledger = Some(Arc::new(ledger));
        }
        Ok(prepared)
    }

    /// The ledger, where that is the recorder.
    pub fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.ledger.as_ref()
    }

    /// How a child of a test is traced that has just executed its program; none if it is not to be.
    pub fn child(&self, pid: Pid) -> Option<&Coverage> {
        let executable = identity(format!("/proc/{pid}/exe").as_ref()).ok()?;
        self.binaries.get(self.executables.get(&executable)?)
    }

    /// How the binary is traced.
    pub fn coverage(&self, binary: &TestBinary) -> &Coverage {
        &self.binaries[&binary.path]
    }

    fn cover(&mut self, steering: &mut Steering, binary: &TestBinary, window: Window) -> Result<Coverage> {
        let code = match Code::read(&binary.path, false) {
            Ok(code) => code,
            Err(Error::Format { .. }) if is_script(&binary.path) => {
                return Ok(Err("it is a script; give its interpreter and the script as arguments".into()));
            }
            Err(Error::Format { reason, .. }) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let Some(interpreter) = code.interpreter() else {
            return Ok(Err("the executable is statically linked; link it dynamically with glibc".into()));
        };
        let loaded = loaded_libraries(interpreter, binary)?;
        let find = |wanted: &str| {
            let found = loaded.iter().find(|(name, _)| name == wanted);
            found.map(|(_, path)| path.clone())
        };
        let Some(libc) = find(LIBC) else {
            let loader = interpreter.display();
            return Ok(Err(format!("its loader {loader} names no {LIBC}; only glibc can be traced so far")));
        };
        if window == Window::TestBody {
            let sites = code.body_sites();
            if sites.is_empty() {
                return Ok(Err("libtest's symbols are missing; do not strip test binaries".into()));
            }
            steering.attach(&binary.path, &sites)?;
        }
        let loader = Utf8Path::from_path(interpreter).map(|path| Code::read(path, true)).transpose()?;
        let loader = loader.as_ref().and_then(|loader| {
            Some(Loader { loading: loader.function(LOADING)?, modules: loader.variable(MODULES)? })
        });
        let Some(loader) = loader else {
            let loader = interpreter.display();
            return Ok(Err(format!("its loader {loader} has no {LOADING} or no {MODULES}")));
        };
        let (libc, malloc) = self.copy(steering, LIBC, &libc)?;
        let mut unseen = code.other_allocator().map(|name| format!("{name} is linked in"));
        let mut allocators = Vec::new();
        // The loader has an allocator until there is another one.
        let others = loaded.iter().filter(|(name, _)| name != LIBC).map(|(_, path)| path.as_path());
        let others = self.modules(&binary.directory, others.filter(|path| *path != interpreter))?;
        let own = (binary.path.clone(), self.module(&binary.path, &code));
        self.modules(&binary.directory, Utf8Path::from_path(interpreter).into_iter())?;
        for (path, facts) in others.into_iter().chain([own]) {
            if facts.is_allocator && path != binary.path {
                unseen = unseen.or_else(|| Some(format!("{path} has a malloc of its own")));
                allocators.push(path.clone());
            }
            if facts.passes_ledger && self.recorder != Recorder::Uprobe {
                let reason = || format!("{path} calls functions like __libc_malloc; use --recorder uprobe");
                unseen = unseen.or_else(|| Some(reason()));
            }
        }
        // The ledger has the callers of the C++ library by itself.
        let cxx = find(CXX).filter(|_| self.recorder == Recorder::Uprobe);
        let cxx = cxx.map(|path| self.copy(steering, CXX, &path)).transpose()?;
        Ok(Ok(Libraries { libc, malloc, loader, cxx: cxx.map(|(library, _)| library), allocators, unseen }))
    }

    /// What has to be known of libraries. The kernel's own one has no file.
    fn modules<'a>(
        &mut self,
        directory: &Utf8Path,
        libraries: impl Iterator<Item = &'a Utf8Path>,
    ) -> Result<Vec<(Utf8PathBuf, Facts)>> {
        let mut modules = Vec::new();
        // Mappings have the names of the files themselves.
        for path in libraries.filter_map(|path| directory.join(path).canonicalize_utf8().ok()) {
            let facts = match self.modules.get(&path) {
                Some(facts) => *facts,
                None => self.module(&path, &Code::read(&path, true)?),
            };
            modules.push((path, facts));
        }
        Ok(modules)
    }

    /// Takes what has to be known of a module.
    fn module(&mut self, path: &Utf8Path, code: &Code) -> Facts {
        if self.recorder != Recorder::Uprobe {
            self.frames.push(Module::of(path, code));
        }
        let facts = Facts { is_allocator: code.is_allocator(), passes_ledger: code.passes_ledger() };
        self.modules.insert(path.to_owned(), facts);
        facts
    }

    fn copy(
        &mut self,
        steering: &mut Steering,
        name: &str,
        original: &Utf8Path,
    ) -> Result<(Arc<Library>, u64)> {
        if let Some(known) = self.libraries.get(original) {
            return Ok(known.clone());
        }
        let file = |path: &Utf8Path, action| {
            let path = path.to_owned();
            move |source| Error::File { action, path, source }
        };
        let directory = self.directory.path().join(self.libraries.len().to_string());
        let path = Utf8PathBuf::try_from(directory.join(name)).map_err(|error| {
            Error::Usage(format!("the temporary directory must have a UTF-8 path: {error}"))
        })?;
        std::fs::create_dir(&directory).map_err(file(&path, "create"))?;
        std::fs::copy(original, &path).map_err(file(&path, "copy the library to"))?;
        let code = Code::read(&path, true)?;
        let mut sites = match name {
            LIBC => code.libc_sites(original, self.probe_at_entry)?,
            _ => code.cxx_sites(),
        };
        if self.recorder != Recorder::Uprobe {
            sites.retain(|site| matches!(site.program, Program::Exit | Program::Module | Program::Lookup));
        }
        steering.attach(&path, &sites)?;
        self.module(&path, &code);
        let malloc = code.function("malloc").unwrap_or(0);
        let library = Library { path, original: original.to_owned() };
        let known = (Arc::new(library), malloc);
        self.libraries.insert(original.to_owned(), known.clone());
        Ok(known)
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn is_script(path: &Utf8Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"#!")
}

/// Asks the binary's own dynamic loader which libraries it would load (`ld.so --list`; nothing of
/// the binary is executed): names and paths.
fn loaded_libraries(interpreter: &Path, binary: &TestBinary) -> Result<Vec<(String, Utf8PathBuf)>> {
    let output = Command::new(interpreter)
        .arg("--list")
        .arg(&binary.path)
        .env_clear()
        .envs(binary.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&binary.directory)
        .output()
        .map_err(|error| Error::Command {
            command: format!("{} --list {}", interpreter.display(), binary.path),
            reason: error.to_string(),
        })?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let libraries = listing.lines().filter_map(|line| {
        let (entry, _) = line.trim().rsplit_once(" (")?;
        // What is needed by a path has no name beside it.
        let (name, path) = entry.split_once(" => ").unwrap_or((entry, entry));
        Some((name.to_owned(), Utf8PathBuf::from(path)))
    });
    Ok(libraries.collect())
}
