//! How many examples in documentation there are: rustdoc is asked, and runs none of them.
//!
//! It reads the whole library for that, and compiles examples of edition 2024, so the answer is kept until cargo builds
//! the library anew.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use camino::Utf8PathBuf;
use fs_err as fs;

use super::{listing, spawn};
use crate::build::Doctests;

/// Longest time that rustdoc may take.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The number of examples that would be tested, or why it is not known.
pub fn count(doctests: &Doctests) -> Result<usize, String> {
    let built = built(doctests);
    let kept = built.map(|built| (doctests.known.join(name(doctests)), built));
    if let Some(count) = kept.as_ref().and_then(|(path, built)| read(path, *built)) {
        return Ok(count);
    }
    let mut arguments: Vec<&OsStr> = doctests.arguments.iter().map(AsRef::as_ref).collect();
    arguments.extend(["--test-args", "--list --format terse"].map(OsStr::new));
    let output = spawn::output(&doctests.rustdoc, &arguments, TIME_LIMIT);
    let count =
        output.map(|output| listing::names(&output).len()).map_err(|reason| format!("rustdoc {reason}"))?;
    if let Some((path, _)) = kept {
        // It is only asked again if it cannot be kept.
        let _ = fs::create_dir_all(&doctests.known).and_then(|()| fs::write(path, count.to_string()));
    }
    Ok(count)
}

/// What was found out after `built`.
fn read(path: &Utf8PathBuf, built: SystemTime) -> Option<usize> {
    let found_out = fs::metadata(path).ok()?.modified().ok()?;
    if found_out < built {
        return None;
    }
    fs::read_to_string(path).ok()?.parse().ok()
}

/// When the library or one of its dependencies was last built.
fn built(doctests: &Doctests) -> Option<SystemTime> {
    let externs = doctests.arguments.windows(2).filter(|pair| pair[0] == "--extern");
    let paths = externs.filter_map(|pair| pair[1].to_str()?.split_once('=').map(|(_, path)| path));
    paths.filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max()
}

/// One for each way to ask.
fn name(doctests: &Doctests) -> String {
    let mut hasher = DefaultHasher::new();
    (&doctests.rustdoc.path, &doctests.rustdoc.directory, &doctests.arguments).hash(&mut hasher);
    format!("{}-{:016x}", doctests.rustdoc.target, hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TargetKind, TestBinary};

    /// A rustdoc that counts how often it was asked, for a library of one file.
    fn library(directory: &tempfile::TempDir) -> Doctests {
        let path = |name: &str| Utf8PathBuf::try_from(directory.path().join(name)).unwrap();
        fs::write(path("lib.rlib"), "").unwrap();
        let script = "echo >> asked; printf 'src/lib.rs - a (line 1): test\\nsrc/lib.rs - b (line 2): test\\n\\n2 tests\\n'";
        Doctests {
            rustdoc: TestBinary {
                package: "p".into(),
                target: "p".into(),
                kind: TargetKind::Lib,
                path: "/bin/sh".into(),
                directory: path(""),
                environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            },
            arguments: ["-c", script, "sh", "--extern", &format!("p={}", path("lib.rlib"))]
                .map(Into::into)
                .into(),
            known: path("known"),
        }
    }

    #[test]
    fn rustdoc_is_asked_once_for_each_build() {
        let directory = tempfile::tempdir().unwrap();
        let doctests = library(&directory);
        let asked = || fs::read_to_string(directory.path().join("asked")).unwrap().lines().count();
        for _ in 0..2 {
            assert_eq!(count(&doctests), Ok(2));
            assert_eq!(asked(), 1);
        }
        let later = SystemTime::now() + Duration::from_secs(10);
        let library = fs::File::options().write(true).open(directory.path().join("lib.rlib")).unwrap();
        library.into_file().set_modified(later).unwrap();
        assert_eq!((count(&doctests), asked()), (Ok(2), 2));
    }

    #[test]
    fn a_failure_is_no_number() {
        let directory = tempfile::tempdir().unwrap();
        let mut doctests = library(&directory);
        doctests.arguments[1] = "echo nonsense >&2; exit 7".into();
        assert_eq!(count(&doctests), Err("rustdoc ended with exit code 7 (nonsense)".to_owned()));
    }
}
