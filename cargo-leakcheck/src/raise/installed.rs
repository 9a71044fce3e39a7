//! By what `cargo leakcheck setup` has installed for a user: two copies of this program. The one has the capabilities by
//! its file and does nothing but to hand them on to the other, which nobody but root can have changed.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::state::State;
use super::{CHECK, Launch, missing, refusal};
use crate::options::Raised;
use crate::sys::{self, Capability};

/// First argument of the helper; what follows is `CHECK`, or the file with the state.
pub const HELPER: &str = "__hand-on";
/// First argument of the program that the helper executes.
pub const RAISED: &str = "__handed-on";

/// Where the users' directories are. It is not looked up, neither by an option nor beside the helper: whoever can name
/// another directory has the capabilities for whatever he puts there.
pub const ROOT: &str = "/opt/cargo-leakcheck";

/// What is installed for a user.
pub struct Place {
    /// A directory that only the user and root may enter.
    pub directory: PathBuf,
    /// The copy whose file has capabilities.
    pub helper: PathBuf,
    /// The copy that it executes.
    pub tool: PathBuf,
}

impl Place {
    /// Whether it is there or not.
    pub fn of(user: u32) -> Self {
        Self::in_directory(Path::new(ROOT).join(user.to_string()))
    }

    /// The same in a directory that is not yet in its place.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self { helper: directory.join("hand-on"), tool: directory.join("cargo-leakcheck"), directory }
    }
}

/// What there is for the user of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Nothing.
    No,
    /// This version, and it works.
    Works,
    /// Something else than this version, or something that does not work; what, and what to do.
    Refused(String),
}

impl Setup {
    /// Looks it up. `executable` is this program.
    pub fn look_up(executable: &Path) -> Self {
        let place = Place::of(sys::user());
        match is_same(executable, &place.tool) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::No,
            Err(error) => Self::Refused(format!("{}: {error}; {AGAIN}", place.tool.display())),
            Ok(false) => Self::Refused(format!(
                "{} is another version of the tool than {}; {AGAIN}",
                place.tool.display(),
                executable.display()
            )),
            Ok(true) => match Command::new(&place.helper).args([HELPER, CHECK]).stdin(Stdio::null()).output()
            {
                Ok(output) if output.status.success() => Self::Works,
                Ok(output) => Self::Refused(refusal(&output.stderr)),
                Err(error) => Self::Refused(format!("{}: {error}; {AGAIN}", place.helper.display())),
            },
        }
    }
}

/// What mends it.
const AGAIN: &str = "run `cargo leakcheck setup` again";

/// Whether two files have the same content. What was copied with its time is not compared byte by byte, unless it may be
/// the time that archives and package managers give to every file: one of full seconds.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    let (it, its) = (one.metadata()?, other.metadata()?);
    let is_copy = it.modified()? == its.modified()? && it.mtime_nsec() != 0;
    if it.len() != its.len() || is_copy {
        return Ok(it.len() == its.len());
    }
    let (mut one, mut other) =
        (BufReader::with_capacity(1 << 18, one), BufReader::with_capacity(1 << 18, other));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let length = left.len().min(right.len());
        if length == 0 || left[..length] != right[..length] {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Replaces this process by one with privileges. Why that was not possible, where it returns; nothing where nothing is
/// installed.
pub fn raise(launch: &Launch) -> Option<Raised> {
    match Setup::look_up(&launch.executable) {
        Setup::No => return None,
        Setup::Refused(reason) => return Some(Raised::Refused(reason)),
        Setup::Works => {}
    }
    let file = match State::of_this_process(launch).write() {
        Ok(file) => file,
        Err(error) => return Some(Raised::Refused(format!("no temporary file can be written: {error}"))),
    };
    let helper = Place::of(sys::user()).helper;
    let error = Command::new(&helper).arg(HELPER).arg(file.path()).exec();
    Some(Raised::Refused(format!("{}: {error}", helper.display())))
}

/// The helper.
///
/// # Errors
/// It cannot do its work; why, for the user.
pub fn help(what: &OsStr) -> Result<(), String> {
    if let Some(missing) = missing(sys::permitted()) {
        return Err(format!(
            "what `cargo leakcheck setup` has installed does not get {} here: a container, a file system that is mounted \
             `nosuid`, or `no_new_privs` takes it away; or {AGAIN}",
            missing.name()
        ));
    }
    if what == CHECK { Ok(()) } else { hand_on(what).map(|never| match never {}) }
}

fn hand_on(file: &OsStr) -> Result<Infallible, String> {
    // Of this user alone, whose helper soever it is: others have nothing there.
    let user = sys::real_user();
    let tool = Place::of(user).tool;
    let state = State::read(file.as_ref(), user).map_err(|error| format!("{}: {error}", file.display()))?;
    sys::hand_on_capabilities(&Capability::ALL)
        .map_err(|error| format!("cannot hand capabilities on: {error}"))?;
    Err(format!("cannot execute {}: {}", tool.display(), state.execute(&tool, RAISED)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_same_is_what_has_the_same_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8], age: u64| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        // More than is read at a time.
        let long = vec![7; 300_000];
        let mut other = long.clone();
        other[299_999] = 8;
        let one = file("one", &long, 0);
        assert!(is_same(&one, &file("later", &long, 1)).unwrap());
        assert!(!is_same(&one, &file("other", &other, 1)).unwrap());
        assert!(!is_same(&one, &file("shorter", &long[1..], 0)).unwrap());
        assert!(is_same(&file("empty", b"", 0), &file("as empty", b"", 1)).unwrap());
        assert!(!is_same(&one, &file("of the same archive", &other, 0)).unwrap());
        let missing = is_same(&one, &directory.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
