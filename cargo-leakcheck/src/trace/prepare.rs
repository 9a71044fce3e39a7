//! What has to be in place before the first test starts: a private copy of each C library that the
//! binaries would load, with probes in it, and probes in the binaries themselves. The copy is the
//! scope: no process but the run's tests maps it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::Pid;

use super::code::Code;
use super::ledger::Ledger;
use super::libraries::{Coverage, Libraries, Library, Loader};
use super::modules::{Modules, loaded_libraries};
use super::sites::{Program, Site};
use super::steering::Steering;
use super::temporary::Temporaries;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, RecordedBy, TestBinary, Window};
use crate::options::{Recorder, TraceOptions};
use crate::scratch::Scratch;

const LIBC: &str = "libc.so.6";
const CXX: &str = "libstdc++.so.6";
/// What the loader calls for debuggers before it loads libraries, and after (elf/dl-debug.c).
const LOADING: &str = "_dl_debug_state";
/// Where it keeps its list of modules, `struct r_debug` of `link.h`.
const MODULES: &str = "_r_debug";

/// The prepared binaries of a run. Dropping it removes the copies.
pub struct Prepared {
    directory: Scratch,
    /// Copies by what they are copies of, and whether probes in them record, with the address of `malloc` in
    /// them.
    libraries: HashMap<(Utf8PathBuf, bool), (Arc<Library>, u64)>,
    binaries: BTreeMap<Utf8PathBuf, Coverage>,
    /// Executables whose processes are followed where tests start them, by device and inode.
    executables: HashMap<(u64, u64), Utf8PathBuf>,
    /// The ledger, where that is a recorder.
    ledger: Option<Arc<Ledger>>,
    recorder: Recorder,
    modules: Modules,
    /// Probes that are still to be placed: before it is known of all binaries who records them, the eBPF
    /// programs may be exchanged for such as have room for records.
    probes: Vec<(Utf8PathBuf, Vec<Site>)>,
    probe_at_entry: bool,
    /// Calls that make IPC objects are probed.
    ipc: bool,
    private_ipc: bool,
    /// Why not all of them are.
    ipc_unseen: Option<String>,
    /// Calls that make mappings are probed.
    mappings: bool,
    /// Why not all of them are.
    mappings_unseen: Option<String>,
    /// Tests get temporary directories of their own.
    temporaries: Option<Temporaries>,
}

impl Prepared {
    /// Places every probe that `tests` need. `private_ipc` says whether they get IPC namespaces of their own.
    ///
    /// # Errors
    /// A probe cannot be placed, or the copy cannot be made.
    pub fn new(
        steering: &mut Steering,
        tests: &[PlannedTest],
        executables: &[Utf8PathBuf],
        options: &TraceOptions,
        private_ipc: bool,
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
            binaries: BTreeMap::new(),
            executables: HashMap::new(),
            ledger: None,
            recorder: options.recorder,
            modules: Modules::new(options.recorder != Recorder::Uprobe),
            probes: Vec::new(),
            probe_at_entry: options.probe_at_entry,
            ipc: options.ipc,
            private_ipc,
            ipc_unseen: None,
            mappings: options.mappings,
            mappings_unseen: None,
            temporaries: None,
        };
        prepared.temporaries = options.files.then(|| Temporaries::new(prepared.directory.path().to_owned()));
        let can_probe = steering.kernel().is_some();
        for test in tests {
            if !prepared.binaries.contains_key(&test.binary.path) {
                let coverage = prepared.cover(&test.binary, test.window, can_probe)?;
                prepared.binaries.insert(test.binary.path.clone(), coverage);
            }
        }
        for path in executables {
            let identity = identity(path.as_std_path()).map_err(system("looking at an executable"))?;
            prepared.executables.insert(identity, path.clone());
            if let (false, Some(test)) = (prepared.binaries.contains_key(path), tests.first()) {
                // Cargo gives all tests the same path of libraries.
                let binary = TestBinary { path: path.clone(), ..TestBinary::clone(&test.binary) };
                let coverage = prepared.cover(&binary, Window::Process, can_probe)?;
                prepared.binaries.insert(path.clone(), coverage);
            }
        }
        if prepared.passing().next().is_some() {
            steering.make_room(options)?;
        }
        for (file, sites) in std::mem::take(&mut prepared.probes) {
            steering.attach(&file, &sites)?;
        }
        if let Some(frames) = prepared.modules.frames.take() {
            prepared.ledger = Some(Arc::new(Ledger::install(prepared.directory.path(), frames)?));
        }
        Ok(prepared)
    }

    /// Tests get IPC namespaces of their own.
    pub fn private_ipc(&self) -> bool {
        self.private_ipc
    }

    /// Why not all calls that make IPC objects are seen.
    pub fn ipc_unseen(&self) -> Option<&str> {
        self.ipc_unseen.as_deref()
    }

    /// Why not all calls that make mappings are seen.
    pub fn mappings_unseen(&self) -> Option<&str> {
        self.mappings_unseen.as_deref()
    }

    /// Gives tests temporary directories, if they are to have their own.
    pub fn temporaries(&self) -> Option<&Temporaries> {
        self.temporaries.as_ref()
    }

    /// The ledger, where that records a binary that is covered so.
    pub fn ledger(&self, coverage: &Coverage) -> Option<&Arc<Ledger>> {
        let libraries = coverage.as_ref().ok()?;
        self.ledger.as_ref().filter(|_| libraries.recorded_by == RecordedBy::Ledger)
    }

    /// The binaries that are not recorded by the ledger because they would pass it by, and why they would.
    pub fn passing(&self) -> impl Iterator<Item = (&Utf8Path, &str)> {
        self.binaries.iter().filter_map(|(path, coverage)| {
            let because = coverage.as_ref().ok()?.recorded_by.because()?;
            Some((path.as_path(), because))
        })
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

    fn cover(&mut self, binary: &TestBinary, window: Window, can_probe: bool) -> Result<Coverage> {
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
            self.probes.push((binary.path.clone(), sites));
        }
        let loader = Utf8Path::from_path(interpreter).map(|path| Code::read(path, true)).transpose()?;
        let loader = loader.as_ref().and_then(|loader| {
            Some(Loader { loading: loader.function(LOADING)?, modules: loader.variable(MODULES)? })
        });
        let Some(loader) = loader else {
            let loader = interpreter.display();
            return Ok(Err(format!("its loader {loader} has no {LOADING} or no {MODULES}")));
        };
        let mut unseen = code.other_allocator().map(|name| format!("{name} is linked in"));
        let mut allocators = Vec::new();
        // The loader has an allocator until there is another one.
        let others = loaded.iter().filter(|(name, _)| name != LIBC).map(|(_, path)| path.as_path());
        let others = self.modules.all(&binary.directory, others.filter(|path| *path != interpreter))?;
        let own = (binary.path.clone(), self.modules.take(&binary.path, &code));
        self.modules.all(&binary.directory, Utf8Path::from_path(interpreter).into_iter())?;
        let mut passes = None;
        for (path, facts) in others.into_iter().chain([own]) {
            if facts.is_allocator && path != binary.path {
                unseen = unseen.or_else(|| Some(format!("{path} has a malloc of its own")));
                allocators.push(path.clone());
            }
            let caller = if path == binary.path { "it" } else { path.as_str() };
            passes = passes.or_else(|| Some(format!("{caller} calls {}", facts.passes_ledger?)));
        }
        let recorded_by = match (self.recorder, passes) {
            (Recorder::Uprobe, _) => RecordedBy::Uprobe { because: None },
            // Blocks that no recorder sees are no reason for the slower one.
            (Recorder::Auto, Some(passes)) if can_probe && unseen.is_none() => {
                RecordedBy::Uprobe { because: Some(passes) }
            }
            (_, passes) => {
                unseen = unseen.or_else(|| Some(format!("{}; use --recorder uprobe", passes?)));
                RecordedBy::Ledger
            }
        };
        let records = recorded_by != RecordedBy::Ledger;
        let (libc, malloc) = self.copy(LIBC, &libc, records)?;
        // The ledger has the callers of the C++ library by itself.
        let cxx = find(CXX).filter(|_| records);
        let cxx = cxx.map(|path| self.copy(CXX, &path, records)).transpose()?.map(|(library, _)| library);
        Ok(Ok(Libraries { libc, malloc, loader, cxx, allocators, recorded_by, unseen }))
    }

    /// A copy with probes in it, those that record or only those that steer.
    fn copy(&mut self, name: &str, original: &Utf8Path, records: bool) -> Result<(Arc<Library>, u64)> {
        let key = (original.to_owned(), records);
        if let Some(known) = self.libraries.get(&key) {
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
        if !records {
            sites.retain(|site| matches!(site.program, Program::Exit | Program::Module | Program::Lookup));
        }
        if self.ipc && name == LIBC {
            sites.extend(code.ipc_sites());
            if code.function("shm_open").is_none() {
                self.ipc_unseen = Some(format!("{original} has no shm_open, as glibc has from 2.34 on"));
            }
        }
        if self.mappings && name == LIBC {
            match code.mapping_sites() {
                Ok(more) => sites.extend(more),
                Err(reason) => self.mappings_unseen = Some(reason),
            }
        }
        self.probes.push((path.clone(), sites));
        if !records {
            self.modules.take(&path, &code);
        }
        let malloc = code.function("malloc").unwrap_or(0);
        let library = Library { path, original: original.to_owned() };
        let known = (Arc::new(library), malloc);
        self.libraries.insert(key, known.clone());
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
