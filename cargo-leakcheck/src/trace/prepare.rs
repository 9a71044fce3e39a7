//! What has to be in place before the first test starts: a private copy of each C library that the
//! binaries would load, with probes in it, and probes in the binaries themselves. The copy is the
//! scope: no process but the run's tests maps it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::Pid;

use super::inspect;
use super::ledger::Ledger;
use super::libraries::{Coverage, Library};
use super::modules::Modules;
use super::sites::Site;
use super::steering::Steering;
use super::temporary::Temporaries;
use super::variables::strings;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, RecordedBy, TestBinary, Window};
use crate::options::{Recorder, TraceOptions};
use crate::scratch::Scratch;
use crate::sys;

/// The prepared binaries of a run. Dropping it removes the copies.
pub struct Prepared {
    pub(super) directory: Scratch,
    /// Copies by what they are copies of, and whether probes in them record, with the address of `malloc` in
    /// them.
    pub(super) libraries: HashMap<(Utf8PathBuf, bool), (Arc<Library>, u64)>,
    binaries: BTreeMap<Utf8PathBuf, Coverage>,
    /// What the tests of each have in their environments.
    environments: HashMap<Utf8PathBuf, Arc<[CString]>>,
    /// Executables whose processes are followed where tests start them, by device and inode.
    executables: HashMap<(u64, u64), Utf8PathBuf>,
    /// The ledger, where that is a recorder.
    ledger: Option<Arc<Ledger>>,
    pub(super) recorder: Recorder,
    pub(super) modules: Modules,
    /// Probes that are still to be placed: before it is known of all binaries who records them, the eBPF
    /// programs may be exchanged for such as have room for records.
    pub(super) probes: Vec<(Utf8PathBuf, Vec<Site>)>,
    pub(super) probe_at_entry: bool,
    /// Calls that make IPC objects are probed.
    pub(super) ipc: bool,
    private_ipc: bool,
    /// Why not all of them are.
    pub(super) ipc_unseen: Option<String>,
    /// Calls that make mappings are probed.
    pub(super) mappings: bool,
    /// Why not all of them are.
    pub(super) mappings_unseen: Option<String>,
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
            environments: HashMap::new(),
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
        let mut known = HashSet::new();
        let first = tests.iter().filter(|test| known.insert(test.binary.path.clone()));
        let (mut binaries, mut windows): (Vec<_>, Vec<_>) =
            first.map(|test| (TestBinary::clone(&test.binary), test.window)).unzip();
        for path in executables {
            let identity = identity(path.as_std_path()).map_err(system("looking at an executable"))?;
            prepared.executables.insert(identity, path.clone());
            if let (true, Some(test)) = (known.insert(path.clone()), tests.first()) {
                // Cargo gives all tests the same path of libraries.
                binaries.push(TestBinary { path: path.clone(), ..TestBinary::clone(&test.binary) });
                windows.push(Window::Process);
            }
        }
        // What is read, and copied to where the user can read it, is what the binaries name.
        let for_ledger = prepared.modules.frames.is_some();
        let inspected = sys::asleep(|| inspect::all(&binaries, options.jobs, for_ledger));
        for ((binary, window), inspected) in binaries.iter().zip(windows).zip(inspected) {
            let coverage = match inspected? {
                Ok(executable) => sys::asleep(|| prepared.cover(binary, executable, window, can_probe))?,
                Err(reason) => Err(reason),
            };
            prepared.binaries.insert(binary.path.clone(), coverage);
            prepared.environments.insert(binary.path.clone(), strings(&binary.environment));
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

    /// What a test of the binary has in its environment.
    pub fn environment(&self, binary: &TestBinary) -> Arc<[CString]> {
        self.environments[&binary.path].clone()
    }

    /// How the binary is traced.
    pub fn coverage(&self, binary: &TestBinary) -> &Coverage {
        &self.binaries[&binary.path]
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}
