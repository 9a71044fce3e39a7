//! What has to be in place before the first test starts: a private copy of each C library that the
//! binaries would load, with probes in it, and probes in the binaries themselves. The copy is the
//! scope: no process but the run's tests maps it.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use super::kernel::Kernel;
use super::sites::Code;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, TestBinary, Window};

/// A private copy of a C library.
#[derive(Debug)]
pub struct Libc {
    /// The copy.
    pub path: Utf8PathBuf,
    /// What it is a copy of.
    pub original: Utf8PathBuf,
    /// Virtual address of `malloc` in it.
    pub malloc: u64,
}

/// How a binary can be traced, or why it cannot.
pub type Coverage = std::result::Result<Arc<Libc>, String>;

/// The prepared binaries of a run. Dropping it removes the copies.
pub struct Prepared {
    directory: TempDir,
    libraries: HashMap<Utf8PathBuf, Arc<Libc>>,
    binaries: HashMap<Utf8PathBuf, Coverage>,
    probe_at_entry: bool,
}

impl Prepared {
    /// Places every probe that `tests` need.
    ///
    /// # Errors
    /// A probe cannot be placed, or the copy cannot be made.
    pub fn new(kernel: &mut Kernel, tests: &[PlannedTest], probe_at_entry: bool) -> Result<Self> {
        let system = |call: &str| {
            let call = call.to_owned();
            move |source| Error::System { call, source }
        };
        let directory = tempfile::Builder::new()
            .prefix("cargo-leakcheck-")
            .tempdir()
            .map_err(system("making a temporary directory"))?;
        // Tests may run as another user than the tracer.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
            .map_err(system("opening the temporary directory to tests"))?;
        let mut prepared =
            Self { directory, libraries: HashMap::new(), binaries: HashMap::new(), probe_at_entry };
        for test in tests {
            if !prepared.binaries.contains_key(&test.binary.path) {
                let coverage = prepared.cover(kernel, &test.binary, test.window)?;
                prepared.binaries.insert(test.binary.path.clone(), coverage);
            }
        }
        Ok(prepared)
    }

    /// How the binary is traced.
    pub fn coverage(&self, binary: &TestBinary) -> &Coverage {
        &self.binaries[&binary.path]
    }

    fn cover(&mut self, kernel: &mut Kernel, binary: &TestBinary, window: Window) -> Result<Coverage> {
        let code = match Code::read(&binary.path, false) {
            Ok(code) => code,
            Err(Error::Format { reason, .. }) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let Some(interpreter) = code.interpreter() else {
            return Ok(Err("the executable is statically linked; link it dynamically with glibc".into()));
        };
        let path = match loaded_libc(interpreter, binary)? {
            Ok(path) => path,
            Err(reason) => return Ok(Err(reason)),
        };
        if window == Window::TestBody {
            let sites = code.body_sites();
            if sites.is_empty() {
                return Ok(Err("libtest's symbols are missing; do not strip test binaries".into()));
            }
            kernel.attach(&binary.path, &sites)?;
        }
        if let Some(libc) = self.libraries.get(&path) {
            return Ok(Ok(libc.clone()));
        }
        let libc = Arc::new(self.copy(kernel, &path)?);
        self.libraries.insert(path, libc.clone());
        Ok(Ok(libc))
    }

    fn copy(&self, kernel: &mut Kernel, original: &Utf8Path) -> Result<Libc> {
        let file = |path: &Utf8Path, action| {
            let path = path.to_owned();
            move |source| Error::File { action, path, source }
        };
        let directory = self.directory.path().join(self.libraries.len().to_string());
        let path = Utf8PathBuf::try_from(directory.join("libc.so.6")).map_err(|error| {
            Error::Usage(format!("the temporary directory must have a UTF-8 path: {error}"))
        })?;
        std::fs::create_dir(&directory).map_err(file(&path, "create"))?;
        std::fs::copy(original, &path).map_err(file(&path, "copy the C library to"))?;
        let code = Code::read(&path, true)?;
        kernel.attach(&path, &code.libc_sites(original, self.probe_at_entry)?)?;
        let malloc = code.function("malloc").expect("its site was found above");
        Ok(Libc { path, original: original.to_owned(), malloc })
    }
}

/// Asks the binary's own dynamic loader which C library it would load (`ld.so --list`; nothing of
/// the binary is executed).
fn loaded_libc(
    interpreter: &std::path::Path,
    binary: &TestBinary,
) -> Result<std::result::Result<Utf8PathBuf, String>> {
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
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = listing.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let (path, _) = rest.rsplit_once(" (")?;
        (name == "libc.so.6").then(|| Utf8PathBuf::from(path))
    });
    Ok(path.ok_or_else(|| {
        format!("its loader {} names no libc.so.6; only glibc can be traced so far", interpreter.display())
    }))
}
