//! Where the workspace's root is, found as cargo finds it, so that what is configured is known before cargo has been
//! asked.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use fs_err as fs;
use toml::de::{DeTable, DeValue};

/// The root of the workspace that a directory, or a file in it, is in. None where there is no manifest; that is for
/// cargo to say.
pub fn of(start: &Utf8Path) -> Option<Utf8PathBuf> {
    let start = &plain(start);
    let file = if start.is_file() {
        start.to_owned()
    } else {
        start.ancestors().map(|directory| directory.join("Cargo.toml")).find(|file| file.is_file())?
    };
    let package = file.parent()?;
    let text = fs::read_to_string(&file).ok()?;
    let manifest = DeTable::parse(&text).ok()?;
    let root = match place(manifest.get_ref()) {
        Place::Root => package.to_owned(),
        Place::In(root) => clean(&package.join(root)),
        Place::Member => package
            .ancestors()
            .skip(1)
            .find_map(|directory| of_members(directory, package))
            .flatten()
            .unwrap_or_else(|| package.to_owned()),
    };
    Some(root)
}

/// What a manifest says of its workspace.
enum Place<'a> {
    /// It is the root.
    Root,
    /// `package.workspace` names the root's directory.
    In(&'a str),
    /// Nothing: one further up may be the root.
    Member,
}

fn place<'a>(manifest: &'a DeTable<'_>) -> Place<'a> {
    let named = || manifest.get("package")?.get_ref().as_table()?.get("workspace")?.get_ref().as_str();
    match (manifest.contains_key("workspace"), named()) {
        (true, _) => Place::Root,
        (false, Some(root)) => Place::In(root),
        (false, None) => Place::Member,
    }
}

/// The directory, if its manifest is the root of a workspace, or the root that it names; the inner value is none if it
/// leaves the package out.
fn of_members(directory: &Utf8Path, package: &Utf8Path) -> Option<Option<Utf8PathBuf>> {
    let text = fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    let manifest = DeTable::parse(&text).ok()?;
    if let Place::In(root) = place(manifest.get_ref()) {
        return Some(Some(clean(&directory.join(root))));
    }
    let workspace = manifest.get_ref().get("workspace")?.get_ref().as_table()?;
    let paths = |name: &str| -> Vec<Utf8PathBuf> {
        let paths = workspace.get(name).and_then(|paths| paths.get_ref().as_array());
        let paths = paths.into_iter().flat_map(|paths| paths.iter().map(|path| path.get_ref()));
        paths.filter_map(DeValue::as_str).map(|path| directory.join(path)).collect()
    };
    let is_in = |paths: Vec<Utf8PathBuf>| paths.iter().any(|path| package.starts_with(path));
    // A member by name stays one, as in cargo.
    let is_left_out = is_in(paths("exclude")) && !is_in(paths("members"));
    Some((!is_left_out).then(|| directory.to_owned()))
}

/// The path without `.` and `..` by its text, as cargo takes that of a manifest: a `..` takes away the link before it, and
/// not what the link leads to.
fn plain(path: &Utf8Path) -> Utf8PathBuf {
    let mut plain = Utf8PathBuf::new();
    for component in path.components() {
        match component {
            Utf8Component::ParentDir => drop(plain.pop()),
            Utf8Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The path without links, `.` and `..`.
fn clean(path: &Utf8Path) -> Utf8PathBuf {
    path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A workspace with members, one that is left out, and one elsewhere that names its root.
    fn workspace() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap().canonicalize_utf8().unwrap();
        let package =
            |name: &str| format!("[package]\nname = '{name}'\nversion = '0.0.0'\nedition = '2024'\n");
        for (path, text) in [
            (
                "all/Cargo.toml",
                "[workspace]\nmembers = ['in', 'out/kept', '../far', '../far/below']\nexclude = ['out']\nresolver = '3'\n"
                    .to_owned(),
            ),
            ("all/in/Cargo.toml", package("in")),
            ("all/out/alone/Cargo.toml", package("alone")),
            ("all/out/kept/Cargo.toml", package("kept")),
            ("far/Cargo.toml", package("far") + "workspace = '../all'\n"),
            ("far/below/Cargo.toml", package("below")),
            ("other/Cargo.toml", package("other")),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap().join("src/deep")).unwrap();
            fs::write(path.with_file_name("src/lib.rs"), "").unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, root)
    }

    /// What cargo says is right.
    #[test]
    fn the_root_is_that_of_cargo() {
        let (_directory, root) = workspace();
        let cargo = |start: &Utf8Path| {
            let mut command = Command::new(std::env::var("CARGO").unwrap());
            command.args(["locate-project", "--workspace", "--message-format", "plain"]);
            let output = command.current_dir(start).output().unwrap();
            let path = String::from_utf8(output.stdout).unwrap();
            Utf8PathBuf::from(path.trim()).parent().map(Utf8Path::to_owned)
        };
        for (start, expected) in [
            ("all", "all"),
            ("all/in/src/deep", "all"),
            ("all/out/alone", "all/out/alone"),
            ("all/out/kept/src", "all"),
            ("far/src", "all"),
            ("far/below", "all"),
            ("other", "other"),
        ] {
            let start = root.join(start);
            assert_eq!(of(&start), Some(root.join(expected)), "{start}");
            assert_eq!(cargo(&start), of(&start), "{start}");
        }
        assert_eq!(of(&root.join("far/Cargo.toml")), Some(root.join("all")));
        // From a directory that is in another workspace.
        assert_eq!(of(&root.join("all/in/../../far/./Cargo.toml")), Some(root.join("all")));
        assert_eq!(of(&root.join("all/../all/out/alone")), Some(root.join("all/out/alone")));
        assert_eq!(of(&root.join("all/in/../out/alone/Cargo.toml")), Some(root.join("all/out/alone")));
        assert_eq!(of(&root), None);
    }

    /// From a workspace's directory to another package, also through a link: that a path has begun in the workspace says
    /// nothing.
    #[test]
    fn a_manifest_is_where_its_path_leads() {
        let (_directory, root) = workspace();
        std::os::unix::fs::symlink(root.join("far/src"), root.join("all/link")).unwrap();
        for (manifest, expected) in [
            ("all/../other/Cargo.toml", "other"),
            ("all/in/../../other/./Cargo.toml", "other"),
            ("all/link/../in/Cargo.toml", "all"),
            ("other/../all/in/Cargo.toml", "all"),
        ] {
            let manifest = root.join(manifest);
            let mut command = Command::new(std::env::var("CARGO").unwrap());
            command.args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"]);
            let output = command.arg(&manifest).output().unwrap();
            let expected = root.join(expected);
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), expected.join("Cargo.toml"));
            assert_eq!(of(&manifest), Some(expected), "{manifest}");
        }
    }
}
