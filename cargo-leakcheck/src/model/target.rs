use std::ffi::OsString;

use camino::Utf8PathBuf;

/// The kind of cargo target that a test binary was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
    /// The unit tests of a library (proc-macro libraries included).
    Lib,
    /// The unit tests of a binary.
    Bin,
    /// An integration test.
    Test,
    /// An example with tests.
    Example,
    /// A benchmark, run as a test.
    Bench,
    /// A program given to `exec`.
    Program,
}

/// An executable that holds tests, with the environment cargo would run it in.
#[derive(Clone, Debug)]
pub struct TestBinary {
    /// Name of the package, empty for a program given to `exec`.
    pub package: String,
    /// Name of the target.
    pub target: String,
    /// Kind of the target.
    pub kind: TargetKind,
    /// The executable.
    pub path: Utf8PathBuf,
    /// Working directory of its tests.
    pub directory: Utf8PathBuf,
    /// The whole environment of its tests.
    pub environment: Vec<(OsString, OsString)>,
}

impl TestBinary {
    /// How reports name the binary: `package` for the library, `package::target` for an integration
    /// test, `package::bin/target` and so on for the rest (as cargo-nextest does).
    pub fn id(&self) -> String {
        let Self { package, target, .. } = self;
        match self.kind {
            TargetKind::Lib => package.clone(),
            TargetKind::Test => format!("{package}::{target}"),
            TargetKind::Bin => format!("{package}::bin/{target}"),
            TargetKind::Example => format!("{package}::example/{target}"),
            TargetKind::Bench => format!("{package}::bench/{target}"),
            TargetKind::Program => target.clone(),
        }
    }
}

/// The kind and name of a target by what [`TestBinary::id`] has said of it.
pub fn target_of_id<'a>(package: &'a str, id: &'a str) -> (TargetKind, &'a str) {
    if package.is_empty() {
        return (TargetKind::Program, id);
    }
    let Some(rest) = id.strip_prefix(package).and_then(|rest| rest.strip_prefix("::")) else {
        return (TargetKind::Lib, package);
    };
    match rest.split_once('/') {
        None => (TargetKind::Test, rest),
        Some(("bin", target)) => (TargetKind::Bin, target),
        Some(("example", target)) => (TargetKind::Example, target),
        Some(("bench", target)) => (TargetKind::Bench, target),
        // nextest has `proc-macro/name`.
        Some(_) => (TargetKind::Lib, package),
    }
}

/// Something that `cargo test` would have tested and this run does not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NotChecked {
    /// What it is ("doctests of NAME").
    pub what: String,
    /// Why.
    pub reason: String,
}

/// What tells the user's own code.
#[derive(Clone, Debug, Default)]
pub struct OwnCode {
    /// The workspace's root (the working directory for a program given to `exec`): relative paths
    /// are below it, and reports show paths relative to it.
    pub root: Utf8PathBuf,
    /// Directories of the packages under test.
    pub packages: Vec<Utf8PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_nextest() {
        use TargetKind::{Bench, Bin, Example, Lib, Program, Test};
        for (package, id, kind, target) in [
            ("my-pack", "my-pack", Lib, "my-pack"),
            ("my-pack", "my-pack::api", Test, "api"),
            ("my-pack", "my-pack::bin/tool", Bin, "tool"),
            ("my-pack", "my-pack::example/x", Example, "x"),
            ("my-pack", "my-pack::bench/x", Bench, "x"),
            ("my-pack", "my-pack::proc-macro/my_pack", Lib, "my-pack"),
            ("", "true", Program, "true"),
        ] {
            assert_eq!(target_of_id(package, id), (kind, target), "{id}");
        }
    }
}
