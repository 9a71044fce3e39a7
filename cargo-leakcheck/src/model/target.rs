use std::ffi::OsString;

use camino::Utf8PathBuf;

/// The kind of cargo target that a test binary was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
    /// The unit tests of a library.
    Lib,
    /// The unit tests of a library of procedural macros.
    ProcMacro,
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

impl TargetKind {
    const ALL: [Self; 7] =
        [Self::Lib, Self::ProcMacro, Self::Bin, Self::Test, Self::Example, Self::Bench, Self::Program];

    /// As cargo names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lib => "lib",
            Self::ProcMacro => "proc-macro",
            Self::Bin => "bin",
            Self::Test => "test",
            Self::Example => "example",
            Self::Bench => "bench",
            Self::Program => "program",
        }
    }
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
            TargetKind::Lib | TargetKind::ProcMacro => package.clone(),
            TargetKind::Test => format!("{package}::{target}"),
            TargetKind::Bin => format!("{package}::bin/{target}"),
            TargetKind::Example => format!("{package}::example/{target}"),
            TargetKind::Bench => format!("{package}::bench/{target}"),
            TargetKind::Program => target.clone(),
        }
    }
}

/// Something that `cargo test` would test: a binary, or the examples in a library's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the package.
    pub package: String,
    /// Name of the target.
    pub name: String,
    /// Its kind as cargo names it, or [`Target::DOCTEST`].
    pub kind: &'static str,
    /// As reports name it: a binary's id, or `doctests of NAME`.
    pub id: String,
    /// Tests that it lists; none where it cannot be asked.
    pub tests: Option<usize>,
    /// Those of them that are marked `#[ignore]` and therefore do not run.
    pub ignored: usize,
    /// Those of them that run.
    pub selected: usize,
    /// How it is covered.
    pub covered: Covered,
}

impl Target {
    /// The kind of examples in documentation.
    pub const DOCTEST: &'static str = "doctest";

    /// The kind that has this name.
    pub fn kind_named(name: &str) -> Option<&'static str> {
        let names = TargetKind::ALL.into_iter().map(TargetKind::name);
        names.chain([Self::DOCTEST]).find(|known| *known == name)
    }

    /// Adds what another part of the run knows of the same target.
    pub fn add(&mut self, other: Self) {
        let rank = |target: &Self| (!matches!(target.covered, Covered::No { .. }), target.selected > 0);
        if rank(&other) > rank(self) {
            self.covered = other.covered;
        }
        self.tests = self.tests.or(other.tests);
        self.ignored = self.ignored.max(other.ignored);
        self.selected += other.selected;
    }
}

/// How a target is covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// Test by test.
    ByTest,
    /// As a whole.
    AsUnit {
        /// Why.
        reason: String,
    },
    /// Not at all.
    No {
        /// Why.
        reason: String,
    },
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
        // nextest's.
        Some(("proc-macro", target)) => (TargetKind::ProcMacro, target),
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
        use TargetKind::{Bench, Bin, Example, Lib, ProcMacro, Program, Test};
        for (package, id, kind, target) in [
            ("my-pack", "my-pack", Lib, "my-pack"),
            ("my-pack", "my-pack::api", Test, "api"),
            ("my-pack", "my-pack::bin/tool", Bin, "tool"),
            ("my-pack", "my-pack::example/x", Example, "x"),
            ("my-pack", "my-pack::bench/x", Bench, "x"),
            ("my-pack", "my-pack::proc-macro/my_pack", ProcMacro, "my_pack"),
            ("", "true", Program, "true"),
        ] {
            assert_eq!(target_of_id(package, id), (kind, target), "{id}");
        }
    }
}
