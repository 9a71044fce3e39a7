//! How cargo would start each test: asked of cargo itself.
//!
//! Cargo builds, and is told to start this executable in place of test binaries (as a runner) and of
//! rustdoc. Started so, it writes down its arguments, working
//! directory and environment, and ends. The names of the two symbolic links, through which cargo
//! finds it, tell it to, and their directory is where it writes: nothing is added to the environment.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs as unix;

use crate::error::{Error, Result};
use crate::options::Environment;
use crate::scratch::Scratch;

const RUNNER: &str = "leakcheck-runner";
const RUSTDOC: &str = "leakcheck-rustdoc";

/// A directory with the links to this executable, and what they have written.
pub struct Captures {
    directory: Scratch,
}

/// One process that cargo has started.
#[derive(Debug, PartialEq, Eq)]
pub struct Capture {
    /// Whether it is rustdoc, to test the examples in documentation.
    pub rustdoc: bool,
    /// Working directory.
    pub directory: PathBuf,
    /// Environment.
    pub environment: Environment,
    /// Arguments; for a test binary the first is the binary itself.
    pub arguments: Vec<OsString>,
}

impl Captures {
    /// Makes the directory. `executable` is this program.
    pub fn new(executable: &Path) -> Result<Self> {
        let failed = |source| Error::System { call: "creating a temporary directory".to_owned(), source };
        let directory = Scratch::new().map_err(failed)?;
        for name in [RUNNER, RUSTDOC] {
            unix::symlink(executable, directory.path().join(name)).map_err(failed)?;
        }
        Ok(Self { directory })
    }

    /// What cargo is to start in place of a test.
    pub fn runner(&self) -> PathBuf {
        self.directory.path().join(RUNNER)
    }

    /// What cargo is to start in place of rustdoc.
    pub fn rustdoc(&self) -> PathBuf {
        self.directory.path().join(RUSTDOC)
    }

    /// Everything written so far, in the order in which cargo started it.
    pub fn read(&self) -> Result<Vec<Capture>> {
        let mut captures = Vec::new();
        for number in 0.. {
            let path = self.directory.path().join(number.to_string());
            match fs::read(&path) {
                Ok(bytes) => {
                    captures.push(decode(&bytes).ok_or_else(|| Error::Format {
                        path: path.to_string_lossy().into_owned().into(),
                        reason: "is cut short".to_owned(),
                    })?);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(source) => {
                    return Err(Error::System { call: "reading how cargo starts a test".to_owned(), source });
                }
            }
        }
        Ok(captures)
    }
}

/// When this process was started by cargo through one of the links: writes down how, and returns
/// true. `arguments` starts with the program's own name.
pub fn record(mut arguments: impl Iterator<Item = OsString>) -> io::Result<bool> {
    let Some(program) = arguments.next().map(PathBuf::from) else { return Ok(false) };
    let rustdoc = match program.file_name() {
        Some(name) if name == RUNNER => false,
        Some(name) if name == RUSTDOC => true,
        _ => return Ok(false),
    };
    let Some(directory) = program.parent() else { return Ok(false) };
    let capture = Capture {
        rustdoc,
        directory: std::env::current_dir()?,
        environment: std::env::vars_os().collect(),
        arguments: arguments.collect(),
    };
    let bytes = encode(&capture);
    for number in 0.. {
        let path = directory.join(number.to_string());
        match fs::OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(mut file) => {
                io::Write::write_all(&mut file, &bytes)?;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Strings, each ended by a zero byte, which no path, argument or variable can hold: kind, directory,
/// number of arguments, the arguments, then names and values of variables.
fn encode(capture: &Capture) -> Vec<u8> {
    let kind = if capture.rustdoc { RUSTDOC } else { RUNNER };
    let count = OsString::from(capture.arguments.len().to_string());
    let head = [OsStr::new(kind), capture.directory.as_os_str(), &count];
    let variables = capture.environment.iter().flat_map(|(name, value)| [name, value]);
    let mut bytes = Vec::new();
    for text in head.into_iter().chain(capture.arguments.iter().chain(variables).map(OsString::as_os_str)) {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Capture> {
    let mut strings =
        bytes.strip_suffix(&[0])?.split(|&byte| byte == 0).map(|text| OsString::from_vec(text.to_vec()));
    let rustdoc = strings.next()? == RUSTDOC;
    let directory = strings.next()?.into();
    let count = strings.next()?.to_str()?.parse().ok()?;
    let arguments: Vec<_> = strings.by_ref().take(count).collect();
    if arguments.len() != count {
        return None;
    }
    let mut environment = Environment::new();
    while let Some(name) = strings.next() {
        environment.insert(name, strings.next()?);
    }
    Some(Capture { rustdoc, directory, environment, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive() {
        let odd = || OsString::from_vec(b"\xff = \n\t'".to_vec());
        let capture = Capture {
            rustdoc: false,
            directory: odd().into(),
            environment: [(odd(), OsString::new()), ("A".into(), odd())].into(),
            arguments: vec![OsString::new(), odd()],
        };
        let bytes = encode(&capture);
        assert_eq!(decode(&bytes), Some(capture));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn no_arguments_and_no_environment() {
        let capture = Capture {
            rustdoc: true,
            directory: "/".into(),
            environment: Environment::new(),
            arguments: vec![],
        };
        assert_eq!(decode(&encode(&capture)), Some(capture));
    }

    #[test]
    fn another_name_records_nothing() {
        assert!(!record(["/usr/bin/cargo-leakcheck".into(), "x".into()].into_iter()).unwrap());
        assert!(!record([].into_iter()).unwrap());
    }

    #[test]
    fn records_are_read_in_order() {
        let captures = Captures::new(Path::new("/bin/true")).unwrap();
        for (program, argument) in
            [(captures.runner(), "/a"), (captures.rustdoc(), "--test"), (captures.runner(), "/b")]
        {
            assert!(record([program.into(), argument.into()].into_iter()).unwrap());
        }
        let read = captures.read().unwrap();
        let seen: Vec<_> =
            read.iter().map(|capture| (capture.rustdoc, capture.arguments[0].to_str().unwrap())).collect();
        assert_eq!(seen, [(false, "/a"), (true, "--test"), (false, "/b")]);
        assert_eq!(read[0].directory, std::env::current_dir().unwrap());
    }
}
