//! Which target a test binary is built from, where cargo or nextest starts it and no build of ours has told.
//! nextest says it in variables; cargo says the package only, so that the target's kind is read off the place of
//! its source file.

use std::ffi::OsStr;

use camino::{Utf8Path, Utf8PathBuf};

use crate::model::{OwnCode, TargetKind, target_of_id};
use crate::options::{Environment, ExecOptions};

/// The package, target and kind of a binary.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub package: String,
    pub target: String,
    pub kind: TargetKind,
}

impl Identity {
    /// Of a program that is no test: named after its file.
    pub fn of_program(_: &ExecOptions, path: &Utf8Path) -> Self {
        let target = path.file_name().unwrap_or(path.as_str()).to_owned();
        Self { package: String::new(), target, kind: TargetKind::Program }
    }

    /// Of a test binary.
    pub fn of_test(options: &ExecOptions, path: &Utf8Path) -> Self {
        let variable = |name| variable(&options.environment, name);
        let file = without_hash(path).to_owned();
        let Some(package) = variable("CARGO_PKG_NAME") else {
            return Self { package: file.clone(), target: file, kind: TargetKind::Lib };
        };
        match variable("NEXTEST_BINARY_ID") {
            Some(id) => {
                let (kind, target) = target_of_id(package, id);
                Self { package: package.to_owned(), target: target.to_owned(), kind }
            }
            None => Self::of_sources(package, variable("CARGO_MANIFEST_DIR"), file),
        }
    }

    fn of_sources(package: &str, directory: Option<&str>, file: String) -> Self {
        let directory = Utf8Path::new(directory.unwrap_or("."));
        // Binaries, examples and libraries may have hyphens, which their files do not all keep.
        let names = [file.clone(), file.replace('_', "-")];
        let found = |folder: &str| {
            let folder = directory.join(folder);
            let is_there = |name: &&String| {
                folder.join(format!("{name}.rs")).is_file() || folder.join(name).join("main.rs").is_file()
            };
            names.iter().find(is_there).cloned()
        };
        let kinds = [
            ("tests", TargetKind::Test),
            ("src/bin", TargetKind::Bin),
            ("examples", TargetKind::Example),
            ("benches", TargetKind::Bench),
        ];
        let (kind, target) =
            kinds.into_iter().find_map(|(folder, kind)| Some((kind, found(folder)?))).unwrap_or_else(|| {
                let is_library = directory.join("src/lib.rs").is_file() && package.replace('-', "_") == file;
                let is_main = !is_library && directory.join("src/main.rs").is_file();
                let kind = match (is_library, is_main) {
                    (true, _) => TargetKind::Lib,
                    (false, true) => TargetKind::Bin,
                    (false, false) => TargetKind::Test,
                };
                (kind, if is_main { package.to_owned() } else { file.clone() })
            });
        Self { package: package.to_owned(), target, kind }
    }
}

/// The test that nextest runs in this process, if it does.
pub fn chosen(environment: &Environment) -> Option<&str> {
    variable(environment, "NEXTEST_TEST_NAME")
}

/// Whether a setup script of nextest's, which has the runner in its environment, has called cargo: what it starts is no
/// test of that run.
pub fn is_in_setup_script(environment: &Environment) -> bool {
    environment.contains_key(OsStr::new("NEXTEST_ENV"))
}

/// Which attempt at it this is, from 1.
pub fn attempt(environment: &Environment) -> u32 {
    variable(environment, "NEXTEST_ATTEMPT").and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// Whether cargo has built it to be tested: such files have a hash in their names, in a directory of their own.
pub fn is_built_for_tests(path: &Utf8Path) -> bool {
    let in_deps = path.parent().and_then(Utf8Path::file_name) == Some("deps");
    in_deps && path.file_name().is_some_and(|name| without_hash(path) != name)
}

/// Where the workspace is whose test this is; below the working directory, where nobody tells.
pub fn own_code(options: &ExecOptions, directory: &Utf8Path) -> OwnCode {
    let package = variable(&options.environment, "CARGO_MANIFEST_DIR").map(Utf8PathBuf::from);
    let told = variable(&options.environment, "NEXTEST_WORKSPACE_ROOT").map(Utf8PathBuf::from);
    let is_root = |directory: &&Utf8Path| {
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line.trim_start().starts_with("[workspace")))
    };
    let found = || package.as_deref()?.ancestors().find(is_root).map(Utf8Path::to_owned);
    let root = told.or_else(found).or_else(|| package.clone()).unwrap_or_else(|| directory.to_owned());
    let packages = [root.clone()].into_iter().chain(package).collect();
    OwnCode { root, packages }
}

/// The name of a file that cargo has built, without `-0123456789abcdef`.
fn without_hash(path: &Utf8Path) -> &str {
    let name = path.file_name().unwrap_or(path.as_str());
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').filter(|(_, end)| is_hash(end)).map_or(name, |(start, _)| start)
}

fn variable<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(OsStr::new(name))?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(identity: Identity) -> (String, TargetKind, String) {
        (identity.package, identity.kind, identity.target)
    }

    #[test]
    fn kinds_by_the_places_of_sources() {
        use TargetKind::{Bin, Example, Lib, Test};
        let directory = tempfile::tempdir().unwrap();
        for file in ["src/lib.rs", "src/bin/my-tool.rs", "examples/show/main.rs", "tests/api.rs"] {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let path = directory.path().to_str();
        for (file, kind, target) in [
            ("my_pack", Lib, "my_pack"),
            ("my_tool", Bin, "my-tool"),
            ("show", Example, "show"),
            ("api", Test, "api"),
            ("elsewhere", Test, "elsewhere"),
        ] {
            let found = seen(Identity::of_sources("my-pack", path, file.to_owned()));
            assert_eq!(found, ("my-pack".to_owned(), kind, target.to_owned()), "{file}");
        }
    }

    #[test]
    fn test_binaries_have_hashes() {
        assert!(is_built_for_tests("/t/debug/deps/api-0123456789abcdef".into()));
        assert!(!is_built_for_tests("/t/debug/deps/api".into()));
        assert!(!is_built_for_tests("/t/debug/api-0123456789abcdef".into()));
        assert_eq!(without_hash("/t/my-tool".into()), "my-tool");
        assert_eq!(without_hash("/t/my_tool-0123456789abcdef".into()), "my_tool");
    }
}
