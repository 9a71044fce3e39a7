//! Whose code has allocated a block: the package whose directory holds the source file, or else the shared library.
//!
//! Packages are told by their manifests, which lie above the files that the debug information names: in the workspace,
//! in cargo's registry and git checkouts, in a vendored directory or anywhere else. So it is the same in a run of ours as
//! under nextest, where nobody says what was built; C code that a package brings along is the package's.

use std::collections::HashMap;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::foreign;
use crate::model::{Frame, OwnCode, Owner, OwnerKind};

/// Finds owners. What manifests say is remembered.
pub(super) struct Owners {
    own: OwnCode,
    /// By directory: the package whose directory it is or is in.
    packages: HashMap<Utf8PathBuf, Option<Package>>,
    /// Directories that the workspace's manifest excludes.
    excluded: Vec<Utf8PathBuf>,
}

#[derive(Clone)]
struct Package {
    directory: Utf8PathBuf,
    name: String,
    version: Option<String>,
    /// It was downloaded: cargo has put its checksums beside it.
    is_vendored: bool,
}

impl Owners {
    /// For a workspace.
    pub fn new(own: OwnCode) -> Self {
        let manifest = manifest(&own.root).unwrap_or_default();
        let excluded = manifest.get("workspace").and_then(|workspace| workspace.get("exclude")?.as_array());
        let excluded = excluded.into_iter().flatten().filter_map(|path| Some(own.root.join(path.as_str()?)));
        Self { excluded: excluded.collect(), own, packages: HashMap::new() }
    }

    /// The owner of the memory that a call stack has allocated: of the innermost frame that is neither std's nor an
    /// allocator's.
    pub fn of_stack(&mut self, frames: &[Frame]) -> Owner {
        // Of a library without debug information nothing may be known but that the frame is in it.
        let is_foreign = |frame: &&Frame| frame.own || frame.function.is_none() && library(frame).is_some();
        frames.iter().find(is_foreign).map_or_else(Owner::default, |frame| self.of(frame))
    }

    /// The owner of a frame's code.
    pub fn of(&mut self, frame: &Frame) -> Owner {
        let file = frame.file.as_deref().map(|file| self.own.root.join(file));
        let package = file.as_deref().and_then(|file| Some((self.package(file.parent()?)?, file)));
        match (package, library(frame)) {
            (Some((Package { directory, name, version, is_vendored }, file)), _) => {
                let is_excluded = self.excluded.iter().any(|excluded| directory.starts_with(excluded));
                let is_member = self.own.packages.contains(&directory)
                    || self.own.in_workspace(file.as_str()) && !is_excluded && !is_vendored;
                let kind = if is_member { OwnerKind::Workspace } else { OwnerKind::Dependency };
                Owner { kind, name: Some(name), version }
            }
            (None, Some(name)) => {
                Owner { kind: OwnerKind::Library, name: Some(name.to_owned()), version: None }
            }
            // A program that is no package's, given to `exec`.
            (None, None)
                if frame.own && file.as_deref().is_some_and(|file| self.own.in_workspace(file.as_str())) =>
            {
                Owner { kind: OwnerKind::Workspace, ..Owner::default() }
            }
            (None, None) => Owner::default(),
        }
    }

    fn package(&mut self, directory: &Utf8Path) -> Option<Package> {
        if let Some(known) = self.packages.get(directory) {
            return known.clone();
        }
        let found = read(directory).or_else(|| self.package(directory.parent()?));
        self.packages.insert(directory.to_owned(), found.clone());
        found
    }
}

/// The package whose manifest is in a directory.
fn read(directory: &Utf8Path) -> Option<Package> {
    let manifest = manifest(directory)?;
    let package = manifest.get("package")?;
    let version = match package.get("version") {
        Some(toml::Value::String(version)) => Some(version.clone()),
        // `version.workspace = true`
        Some(_) => directory.ancestors().find_map(|above| {
            let workspace = self::manifest(above)?;
            Some(workspace.get("workspace")?.get("package")?.get("version")?.as_str()?.to_owned())
        }),
        None => None,
    };
    Some(Package {
        name: package.get("name")?.as_str()?.to_owned(),
        version,
        is_vendored: directory.join(".cargo-checksum.json").is_file(),
        directory: directory.to_owned(),
    })
}

fn manifest(directory: &Utf8Path) -> Option<toml::Table> {
    let path = directory.join("Cargo.toml");
    // Only a regular file: opening a pipe would wait.
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    fs::read_to_string(path).ok()?.parse().ok()
}

/// The shared library that a frame is in, without the version that its file name ends in; not the C and C++ runtime.
fn library(frame: &Frame) -> Option<&str> {
    let path = frame.module.as_deref().filter(|path| !foreign::is_runtime_module(path))?;
    let file = path.rsplit('/').next().unwrap_or(path);
    let end = file.find(".so").map(|place| place + ".so".len())?;
    let is_end = file[end..].is_empty() || file[end..].starts_with('.');
    is_end.then_some(&file[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace with a member, an excluded and a vendored package, and one that is elsewhere.
    fn place() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(directory.path().canonicalize().unwrap()).unwrap();
        let package = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).join("src")).unwrap();
            fs::write(root.join(path).join("Cargo.toml"), text).unwrap();
        };
        let workspace = "[workspace]\nexclude = [\"out\"]\n[workspace.package]\nversion = \"7.1.0\"\n";
        package("w", &format!("{workspace}[package]\nname = \"root\"\nversion = \"0.1.0\"\n"));
        package("w/member", "[package]\nname = \"member\"\nversion.workspace = true\n");
        package("w/out/dep", "[package]\nname = \"dep\"\nversion = \"2.0.0\"\n");
        package("w/vendor/taken", "[package]\nname = \"taken\"\nversion = \"3.0.0\"\n");
        fs::write(root.join("w/vendor/taken/.cargo-checksum.json"), "{}").unwrap();
        package(
            "home/registry/src/index-1/far-sys-1.2.3",
            "[package]\nname = \"far-sys\"\nversion = \"1.2.3\"\n",
        );
        (directory, root)
    }

    fn frame(file: Option<Utf8PathBuf>, module: &str) -> Frame {
        Frame { file: file.map(Into::into), module: Some(module.into()), own: true, ..Frame::default() }
    }

    #[test]
    fn packages_are_told_by_their_manifests() {
        use OwnerKind::{Dependency, Workspace};
        let (_directory, root) = place();
        let mut own = OwnCode { root: root.join("w"), packages: vec![root.join("w"), root.join("w/member")] };
        // Where nobody has said what the members are, the same.
        for _ in 0..2 {
            let mut owners = Owners::new(own.clone());
            for (file, kind, name, version) in [
                ("w/src/lib.rs", Workspace, "root", "0.1.0"),
                ("w/member/src/deep/mod.rs", Workspace, "member", "7.1.0"),
                ("w/out/dep/src/lib.rs", Dependency, "dep", "2.0.0"),
                ("w/vendor/taken/c/x.c", Dependency, "taken", "3.0.0"),
                ("home/registry/src/index-1/far-sys-1.2.3/c/x.c", Dependency, "far-sys", "1.2.3"),
            ] {
                let owner = owners.of(&frame(Some(root.join(file)), "/t/debug/deps/a-1"));
                let expected = Owner { kind, name: Some(name.into()), version: Some(version.into()) };
                assert_eq!(owner, expected, "{file}");
            }
            own.packages = vec![root.join("w")];
        }
    }

    #[test]
    fn libraries_are_told_by_their_files() {
        let mut owners = Owners::new(OwnCode::default());
        let library = |name: &str| Owner { kind: OwnerKind::Library, name: Some(name.into()), version: None };
        for (module, expected) in [
            ("/usr/lib/libxml2.so.2.9.14", library("libxml2.so")),
            ("/opt/libvendor.so", library("libvendor.so")),
            ("/t/debug/deps/a-1", Owner::default()),
            ("/opt/tool.solo", Owner::default()),
        ] {
            let unknown = Frame { own: false, ..frame(None, module) };
            let user = frame(None, "/t/debug/deps/a-1");
            assert_eq!(owners.of_stack(&[unknown, user]), expected, "{module}");
        }
        // The runtime allocates for whoever calls it.
        let frames = [Frame { own: false, ..frame(None, "/lib/libc.so.6") }, frame(None, "/lib/libz.so.1")];
        assert_eq!(owners.of_stack(&frames), library("libz.so"));
        assert_eq!(owners.of_stack(&[]), Owner::default());
    }
}
