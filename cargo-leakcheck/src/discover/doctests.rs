//! How many examples in documentation there are: rustdoc is asked, and runs none of them.
//!
//! It reads the whole library for that, and compiles examples of edition 2024, so the answer is kept until cargo builds
//! the library anew: unless there is code in it that only rustdoc sees (`#[cfg(doctest)]`), which cargo does not look at.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use camino::Utf8PathBuf;
use fs_err as fs;

use super::{listing, spawn};
use crate::build::Doctests;
use crate::scratch::Scratch;

/// Longest time that rustdoc may take.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The number of examples that would be tested, or why it is not known.
pub fn count(doctests: &Doctests) -> Result<usize, String> {
    let built = built(doctests).filter(|_| !sees_more(doctests));
    let kept = built.map(|built| (doctests.known.join(name(doctests)), built));
    if let Some(count) = kept.as_ref().and_then(|(path, built)| read(path, *built)) {
        return Ok(count);
    }
    let mut arguments: Vec<&OsStr> = doctests.arguments.iter().map(AsRef::as_ref).collect();
    arguments.extend(["--test-args", "--list --format terse"].map(OsStr::new));
    // It compiles in a temporary directory, and leaves that where it is ended.
    let scratch = Scratch::new().map_err(|error| format!("has no place for temporary files: {error}"))?;
    let mut rustdoc = doctests.rustdoc.clone();
    rustdoc.environment.push(("TMPDIR".into(), scratch.path().into()));
    let output = spawn::output(&rustdoc, &arguments, TIME_LIMIT);
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

/// Whether rustdoc may see code that no build of the library does.
fn sees_more(doctests: &Doctests) -> bool {
    let source =
        doctests.arguments.iter().filter_map(|argument| argument.to_str()).find(|it| it.ends_with(".rs"));
    let Some(library) = source.map(|source| doctests.rustdoc.directory.join(source)) else { return true };
    let mut folders: Vec<_> = library.parent().map(ToOwned::to_owned).into_iter().collect();
    while let Some(folder) = folders.pop() {
        // What others have built.
        if folder.join("CACHEDIR.TAG").exists() {
            continue;
        }
        for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !entry.file_name().starts_with('.') {
                folders.push(entry.into_path());
            } else if entry.path().extension() == Some("rs")
                && fs::read(entry.path()).is_ok_and(|text| is_for_rustdoc(&String::from_utf8_lossy(&text)))
            {
                return true;
            }
        }
    }
    false
}

/// Whether `doctest` or, between brackets or commas, `doc` stands in a source.
fn is_for_rustdoc(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    // As a word of its own: lints have it in their names.
    text.match_indices("doctest").any(|(at, word)| {
        !text[..at].ends_with(is_of_name) && !text[at + word.len()..].starts_with(is_of_name)
    }) || text.match_indices("doc").any(|(at, word)| {
        let (before, after) = (text[..at].trim_end(), text[at + word.len()..].trim_start());
        before.ends_with(['(', ',']) && after.starts_with([')', ','])
    })
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
        fs::create_dir_all(path("src/inner")).unwrap();
        fs::write(
            path("src/inner/mod.rs"),
            "#[doc(hidden)]\n#[cfg_attr(docsrs, doc(cfg(all())))]\npub mod a;\n",
        )
        .unwrap();
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
            arguments: ["-c", script, "sh", "--extern", &format!("p={}", path("lib.rlib")), "src/lib.rs"]
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
    fn names_of_lints_are_not_for_rustdoc() {
        assert!(!is_for_rustdoc("#![allow(clippy::needless_doctest_main, clippy::doc_markdown)]"));
        assert!(is_for_rustdoc("#[cfg(doctest)]"));
    }

    /// Cargo does not know of the file that is included there.
    #[test]
    fn what_only_rustdoc_sees_is_asked_for_each_time() {
        for source in [
            "#[cfg(doctest)]\n#[doc = include_str!(\"../README.md\")]\nstruct Readme;\n",
            "#[cfg(any(test, doc))]\nmod examples;\n",
            "#![cfg_attr( doc, doc = include_str!(\"../README.md\"))]\n",
        ] {
            let directory = tempfile::tempdir().unwrap();
            let doctests = library(&directory);
            fs::write(directory.path().join("src/inner/more.rs"), source).unwrap();
            let asked = || fs::read_to_string(directory.path().join("asked")).unwrap().lines().count();
            for times in 1..=2 {
                assert_eq!((count(&doctests), asked()), (Ok(2), times), "{source}");
            }
        }
    }

    #[test]
    fn a_failure_is_no_number() {
        let directory = tempfile::tempdir().unwrap();
        let mut doctests = library(&directory);
        doctests.arguments[1] = "echo nonsense >&2; exit 7".into();
        assert_eq!(count(&doctests), Err("rustdoc ended with exit code 7 (nonsense)".to_owned()));
    }

    #[test]
    fn what_rustdoc_leaves_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut library = library(&directory);
        library.arguments[1] = "echo > $TMPDIR/left; printf %s $TMPDIR > used; exit 1".into();
        assert!(count(&library).is_err());
        let used = fs::read_to_string(directory.path().join("used")).unwrap();
        assert!(used.contains("cargo-leakcheck-"), "{used}");
        assert!(!std::path::Path::new(&used).exists(), "{used}");
    }
}
