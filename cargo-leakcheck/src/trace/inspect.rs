//! What has to be known of an executable before it runs, and what its loader would load. Large ones take
//! long to read, so that some are read at a time, and little is kept of each.

use std::io::Read as _;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};

use super::allocators::Allocator;
use super::code::Code;
use super::cover;
use super::modules::{Looked, loaded_libraries};
use super::sites::Site;
use super::symbolizer::Symbolizer;
use crate::error::{Error, Result};
use crate::model::TestBinary;
use crate::parallel;

/// What is known of an executable.
pub struct Executable {
    /// What it loads; none if it is statically linked.
    pub loading: Option<Loading>,
    /// It has no symbols.
    pub is_stripped: bool,
    /// Where libtest enters and leaves test bodies.
    pub body: Vec<Site>,
    /// Allocators that are linked in, by the names of their functions.
    pub named: Vec<Allocator>,
    /// That of its Rust code, if it is another one than std's, and why it would not be seen.
    pub rust: (Option<Allocator>, Option<String>),
    /// Where the log of the crate `leakcheck` is, as in [`Libraries::log`](super::libraries::Libraries::log).
    pub log: Option<u64>,
    /// Why nothing is to be forked from a process of it.
    pub unforkable: Option<&'static str>,
    /// Where std's symbolizer is.
    pub symbolizer: Symbolizer,
    /// It as a module.
    pub module: Looked,
}

/// What an executable loads.
pub struct Loading {
    /// Its dynamic loader.
    pub interpreter: PathBuf,
    /// Names and paths of the libraries that the loader would load.
    pub libraries: Vec<(String, Utf8PathBuf)>,
}

/// What is known of an executable, or why it cannot be traced.
pub type Inspected = std::result::Result<Executable, String>;

/// Looks at executables, `jobs` of them at a time; their modules' frames as well, if a ledger is to have them.
pub fn all(binaries: &[TestBinary], jobs: usize, for_ledger: bool) -> Vec<Result<Inspected>> {
    parallel::map(binaries, jobs, |binary| one(binary, for_ledger))
}

fn one(binary: &TestBinary, for_ledger: bool) -> Result<Inspected> {
    let code = match Code::read(&binary.path, false) {
        Ok(code) => code,
        Err(Error::Format { .. }) if is_script(&binary.path) => {
            return Ok(Err("it is a script; give its interpreter and the script as arguments".into()));
        }
        Err(Error::Format { reason, .. }) => return Ok(Err(reason)),
        Err(error) => return Err(error),
    };
    let loading = code.interpreter().map(|interpreter| -> Result<Loading> {
        let libraries = loaded_libraries(interpreter, binary)?;
        Ok(Loading { interpreter: interpreter.to_owned(), libraries })
    });
    let named: Vec<_> = [code.named_allocator(), code.own_malloc()].into_iter().flatten().collect();
    Ok(Ok(Executable {
        loading: loading.transpose()?,
        is_stripped: code.is_stripped(),
        body: code.body_sites(),
        rust: cover::rust_of(&code, named.is_empty()),
        named,
        log: code.log_behind_entry(),
        unforkable: code.unforkable(),
        symbolizer: code.symbolizer(),
        module: Looked::at(&binary.path, &code, for_ledger),
    }))
}

fn is_script(path: &Utf8Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"#!")
}
