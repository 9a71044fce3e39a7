//! Finds the tests of each test binary by asking it.

pub mod doctests;
mod harness;
mod listing;
mod spawn;

use std::sync::Arc;
use std::time::Duration;

use crate::model::TestBinary;
use crate::parallel;

pub use harness::is_libtest;

/// A binary and its tests.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The binary.
    pub binary: Arc<TestBinary>,
    /// Its tests.
    pub tests: Tests,
}

impl Discovered {
    /// The names of its tests.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (cases, unit) = match &self.tests {
            Tests::Libtest(cases) | Tests::Protocol(cases) => (cases.as_slice(), None),
            Tests::Unit { .. } => (&[][..], Some(self.binary.target.as_str())),
        };
        cases.iter().map(|case| case.name.as_str()).chain(unit)
    }
}

/// The tests of a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tests {
    /// Listed by libtest, in the order of their names.
    Libtest(Vec<TestCase>),
    /// Listed by another harness that speaks libtest's protocol, in the order of their names.
    Protocol(Vec<TestCase>),
    /// The binary cannot be listed and runs as one.
    Unit {
        /// Why.
        reason: String,
    },
}

/// One listed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestCase {
    /// Its whole name.
    pub name: String,
    /// Marked `#[ignore]`.
    pub ignored: bool,
}

/// Lists the tests of all binaries, `jobs` binaries at a time; the order is kept. A binary that
/// misbehaves, or cannot even be started, becomes one unit.
pub fn discover(binaries: Vec<TestBinary>, jobs: usize) -> Vec<Discovered> {
    let tests = parallel::map(&binaries, jobs, |binary| ask(binary, spawn::TIME_LIMIT));
    binaries
        .into_iter()
        .zip(tests)
        .map(|(binary, tests)| Discovered { binary: Arc::new(binary), tests })
        .collect()
}

fn ask(binary: &TestBinary, limit: Duration) -> Tests {
    let libtest = match harness::is_libtest(&binary.path) {
        Ok(libtest) => libtest,
        Err(error) => return Tests::Unit { reason: error.to_string() },
    };
    let list = |extra: &[&str]| {
        let arguments = [&["--list", "--format", "terse"], extra].concat();
        spawn::output(binary, &arguments, limit).map(|output| listing::names(&output))
    };
    let listed = list(&[]).and_then(|all| {
        // A program that prints nothing has not understood the question; libtest then has no tests.
        if all.is_empty() && !libtest {
            return Err("lists no tests".to_owned());
        }
        Ok((list(&["--ignored"])?, all))
    });
    match listed {
        Ok((ignored, all)) => {
            let case = |name: String| TestCase { ignored: ignored.contains(&name), name };
            let cases = all.into_iter().map(case).collect();
            if libtest { Tests::Libtest(cases) } else { Tests::Protocol(cases) }
        }
        Err(reason) if libtest => Tests::Unit { reason: format!("`--list` failed: it {reason}") },
        Err(reason) => {
            Tests::Unit { reason: format!("its harness is not libtest, and asked by `--list` it {reason}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;
    use crate::model::TargetKind;

    fn binary(path: Utf8PathBuf) -> TestBinary {
        TestBinary {
            package: "p".to_owned(),
            target: "t".to_owned(),
            kind: TargetKind::Test,
            path,
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        }
    }

    #[test]
    fn own_tests_are_found() {
        let own = Utf8PathBuf::try_from(std::env::current_exe().unwrap()).unwrap();
        let found = discover(vec![binary(own.clone()), binary(own)], 2);
        assert_eq!(found.len(), 2);
        let Tests::Libtest(cases) = &found[1].tests else { panic!("{:?}", found[1].tests) };
        let name = "discover::tests::own_tests_are_found";
        assert!(cases.contains(&TestCase { name: name.to_owned(), ignored: false }));
        assert!(cases.contains(&TestCase { name: name.replace("own", "ignored"), ignored: true }));
    }

    #[test]
    #[ignore = "exists to be listed"]
    fn ignored_tests_are_found() {}

    #[test]
    fn programs_that_cannot_be_listed_are_units() {
        for (program, words) in [("true", "lists no tests"), ("false", "exit code 1")] {
            let directory = if std::path::Path::new("/usr/bin/true").exists() { "/usr/bin" } else { "/bin" };
            let tests = ask(&binary(format!("{directory}/{program}").into()), spawn::TIME_LIMIT);
            let Tests::Unit { reason } = tests else { panic!("{tests:?}") };
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn files_that_are_no_executables_are_units() {
        for path in ["/nowhere", "/etc/passwd"] {
            let Tests::Unit { reason } = ask(&binary(path.into()), spawn::TIME_LIMIT) else { panic!() };
            assert!(reason.contains(path), "{reason}");
        }
    }
}
