//! Which files there are, and of which workspace.

use std::os::unix::fs::symlink;
use std::process::Command;

use fs_err as fs;

use super::*;

/// A directory with a manifest, and the options of a run there.
fn package(manifest: &str) -> (tempfile::TempDir, ConfigOptions) {
    let directory = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(directory.path()).unwrap().canonicalize_utf8().unwrap();
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    (directory, ConfigOptions { start: Some(root), ..ConfigOptions::default() })
}

/// What is said of the file `.config/leakcheck.toml` that is made by `make`.
fn said(make: impl FnOnce(&Utf8Path)) -> String {
    let (_directory, options) = package("");
    make(options.start.as_deref().unwrap());
    match Config::load(&options) {
        Ok(config) => config.files.join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_file_is_told_from_what_is_not_there() {
    let in_folder = |make: fn(&Utf8Path)| {
        said(|root| {
            fs::create_dir(root.join(".config")).unwrap();
            make(&root.join(FILE));
        })
    };
    assert_eq!(in_folder(|path| fs::write(path, "[profile.default]\nfds = 1\n").unwrap()), FILE);
    assert_eq!(in_folder(|_| ()), "");
    assert_eq!(said(|_| ()), "");
    // The configuration of a kernel is called so.
    assert_eq!(said(|root| fs::write(root.join(".config"), "CONFIG_BPF=y\n").unwrap()), "");
    for (make, words) in [
        ((|path| fs::create_dir(path).unwrap()) as fn(&Utf8Path), "directory"),
        (|path| symlink("nowhere", path).unwrap(), "os error 2"),
        (|path| symlink(path, path).unwrap(), "os error 40"),
        (|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()), "several processes"),
        (|path| fs::write(path, b"\xff").unwrap(), "UTF-8"),
    ] {
        let said = in_folder(make);
        assert!(said.starts_with("cannot read the configuration: ") && said.contains(words), "{said}");
    }
}

/// A runner has another standard input, and no pipe is read twice.
#[test]
fn a_file_is_one_for_all_processes() {
    let (_directory, options) = package("");
    for (path, words) in
        [("/dev/stdin", "several processes"), ("/dev/fd/0", "several"), ("/a", "no such file")]
    {
        let options = ConfigOptions { file: Some(path.into()), ..options.clone() };
        let error = Config::load(&options).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains(words), "{error}");
    }
    Config::load(&ConfigOptions { file: Some("/dev/null".into()), ..options }).unwrap();
}

#[test]
fn a_file_that_is_named_is_that_of_any_workspace() {
    let metadata = "[workspace.metadata.leakcheck.profile.default]\nfds = 1\n";
    let (_one, options) = package("");
    let (_other, other) = package("");
    let (_configured, configured) = package(metadata);
    let file = options.start.as_ref().unwrap().join("some.toml");
    fs::write(&file, "[profile.default]\nipc = 1\n").unwrap();
    let options = ConfigOptions { file: Some(file), ..options };
    let config = Config::load(&options).unwrap();
    config.is_of(&options, other.start.as_ref().unwrap()).unwrap();
    let error = config.is_of(&options, configured.start.as_ref().unwrap()).unwrap_err().to_string();
    assert!(error.contains("the configuration was looked for in"), "{error}");
}
