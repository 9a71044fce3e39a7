//! Budgets from the attribute to the tool: a stranger's crates, compiled by cargo, read back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_leakcheck::model::Budget;
use cargo_leakcheck::plan::budgets;

/// A crate with strict lints; `leakcheck` has another name in it. Each edition and profile gets it.
const SOURCE: &str = r#"
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]
//! Docs.

#[cfg(test)]
mod tests {
    use limits::leak_budget;

    #[leak_budget(bytes = 0)]
    #[test]
    fn above() {}

    #[test]
    #[leak_budget(bytes = "4 KiB", blocks = 2, ignore = "a cache")]
    fn below() -> Result<(), String> {
        Ok(())
    }

    #[test]
    #[should_panic]
    #[leak_budget(reachable_bytes = "1 MB", reachable_blocks = 3, outstanding_bytes = 70)]
    fn panics() {
        panic!("on purpose");
    }

    #[test]
    fn without() {}

    mod r#loop {
        #[limits::leak_budget(blocks = 5)]
        #[test]
        fn r#type() {}
    }
}
"#;

fn expected() -> BTreeMap<String, Budget> {
    let none = Budget::default;
    [
        ("tests::above", Budget { bytes: Some(0), ..none() }),
        (
            "tests::below",
            Budget { bytes: Some(4096), blocks: Some(2), ignore: Some("a cache".into()), ..none() },
        ),
        (
            "tests::panics",
            Budget {
                reachable_bytes: Some(1_000_000),
                reachable_blocks: Some(3),
                outstanding_bytes: Some(70),
                ..none()
            },
        ),
        ("tests::r#loop::r#type", Budget { blocks: Some(5), ..none() }),
    ]
    .map(|(name, budget)| (name.to_owned(), budget))
    .into()
}

/// A workspace of two crates, one an edition. It stays, so that a second run compiles nothing.
fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budgets");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        if fs_err::read_to_string(&path).ok().as_deref() != Some(text) {
            fs_err::write(path, text).unwrap();
        }
    };
    write(
        "Cargo.toml",
        "[workspace]\nresolver = \"2\"\nmembers = [\"old-crate\", \"new-crate\"]\n\
         [profile.fat]\ninherits = \"release\"\nlto = \"fat\"\ncodegen-units = 1\nstrip = true\n",
    );
    // The versions that the repository uses are there already, so that nothing is downloaded.
    fs_err::copy(repository.join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
    for (name, edition) in [("old-crate", "2021"), ("new-crate", "2024")] {
        let leakcheck = repository.join("leakcheck");
        write(
            &format!("{name}/Cargo.toml"),
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\
                 [dev-dependencies]\nlimits = {{ package = \"leakcheck\", path = {leakcheck:?} }}\n"
            ),
        );
        write(&format!("{name}/src/lib.rs"), SOURCE);
    }
    root
}

/// The test binaries of the workspace, built in a profile.
fn build(workspace: &Path, profile: &str) -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--no-run", "--lib", "--message-format=json", "--profile", profile])
        .args(["--target-dir", "target"])
        .current_dir(workspace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cargo_metadata::Message::parse_stream(output.stdout.as_slice())
        .filter_map(|message| match message.unwrap() {
            cargo_metadata::Message::CompilerArtifact(artifact) => artifact.executable,
            _ => None,
        })
        .map(PathBuf::from)
        .collect()
}

#[test]
fn what_the_attribute_says_is_what_the_tool_reads() {
    let workspace = workspace();
    for profile in ["dev", "release", "fat"] {
        let binaries = build(&workspace, profile);
        assert_eq!(binaries.len(), 2, "{profile}: {binaries:?}");
        for binary in binaries {
            let read = budgets::read(fs_err::read(&binary).unwrap().as_slice()).unwrap();
            assert_eq!(read.into_iter().collect::<BTreeMap<_, _>>(), expected(), "{profile}: {binary:?}");

            // The names are libtest's own.
            let list = Command::new(&binary).args(["--list", "--format", "terse"]).output().unwrap();
            let list = String::from_utf8(list.stdout).unwrap();
            let listed = list.lines().filter_map(|line| line.strip_suffix(": test")).collect::<BTreeSet<_>>();
            let mut names = expected().into_keys().collect::<BTreeSet<_>>();
            names.insert("tests::without".into());
            assert_eq!(listed, names.iter().map(String::as_str).collect(), "{profile}: {binary:?}");

            // Every test passes as if the attribute were not there.
            let run = Command::new(&binary).output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        }
    }
}
