use std::ffi::OsString;

use camino::Utf8PathBuf;

use crate::filter::Subject;

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
    /// As cargo and expressions name it.
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

    /// What expressions can ask for of the test `name` of this binary, whose id is `binary_id`.
    pub fn subject<'a>(&'a self, binary_id: &'a str, name: &'a str) -> Subject<'a> {
        let Self { package, target, kind, .. } = self;
        Subject { package, binary_id, binary: target, kind: kind.name(), test: name }
    }
}

/// Something that `cargo test` would test: a binary, or the examples in a library's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the package.
    pub package: String,
    /// Name of the target.
    pub name: String,
    /// Its kind as cargo names it, or `doctest`.
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

/// Something that `cargo test` would have tested and this run does not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
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
