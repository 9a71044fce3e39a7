//! The files that binaries load, and what has to be known of them beforehand.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use super::code::Code;
use super::ledger::Module;
use crate::error::{Error, Result};
use crate::model::TestBinary;

/// What has to be known of a module.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The allocator that it has for others to call.
    pub allocator: Option<String>,
    /// A function by which it calls the C library's allocator past the ledger.
    pub passes_ledger: Option<&'static str>,
}

/// What was seen of a module.
pub struct Looked {
    facts: Facts,
    /// Where there is a ledger.
    frames: Option<Module>,
}

impl Looked {
    /// `path` is that of its mappings.
    pub fn at(path: &Utf8Path, code: &Code, for_ledger: bool) -> Self {
        let allocator = code.own_malloc().or_else(|| code.named_allocator()).map(|allocator| allocator.name);
        let facts = Facts { allocator, passes_ledger: code.passes_ledger() };
        Self { facts, frames: for_ledger.then(|| Module::of(path, code)) }
    }
}

/// The modules of a run's binaries.
pub struct Modules {
    /// By the paths of their mappings.
    known: HashMap<Utf8PathBuf, Facts>,
    /// The same, for a ledger, where there is to be one.
    pub frames: Option<Vec<Module>>,
}

impl Modules {
    /// None yet.
    pub fn new(for_ledger: bool) -> Self {
        Self { known: HashMap::new(), frames: for_ledger.then(Vec::new) }
    }

    /// What has to be known of libraries that are loaded in a directory. The kernel's own one has no file.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn all<'a>(
        &mut self,
        directory: &Utf8Path,
        libraries: impl Iterator<Item = &'a Utf8Path>,
    ) -> Result<Vec<(Utf8PathBuf, Facts)>> {
        let mut modules = Vec::new();
        // Mappings have the names of the files themselves.
        for path in libraries.filter_map(|path| directory.join(path).canonicalize_utf8().ok()) {
            let facts = match self.known.get(&path) {
                Some(facts) => facts.clone(),
                None => {
                    let looked = Looked::at(&path, &Code::read(&path, true)?, self.frames.is_some());
                    self.take(&path, looked)
                }
            };
            modules.push((path, facts));
        }
        Ok(modules)
    }

    /// Takes what was seen of a module.
    pub fn take(&mut self, path: &Utf8Path, looked: Looked) -> Facts {
        if let Some(frames) = &mut self.frames {
            frames.extend(looked.frames);
        }
        self.known.insert(path.to_owned(), looked.facts.clone());
        looked.facts
    }
}

/// Asks the binary's own dynamic loader which libraries it would load (`ld.so --list`; nothing of
/// the binary is executed): names and paths.
pub fn loaded_libraries(interpreter: &Path, binary: &TestBinary) -> Result<Vec<(String, Utf8PathBuf)>> {
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
