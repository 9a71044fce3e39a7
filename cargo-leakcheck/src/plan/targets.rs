//! What cargo would test, and how much of it will run.

use crate::build::Doctests;
use crate::discover::{Discovered, Tests};
use crate::model::{Covered, NotChecked, PlannedTest, Target, TestBinary};

/// A binary, where `tests` run; `skips` says that those with the mark `#[ignore]` do not.
pub fn of_binary(found: &Discovered, tests: &[PlannedTest], skips: bool) -> Target {
    let selected = tests.iter().filter(|test| test.binary.path == found.binary.path).count();
    let Discovered { binary, tests } = found;
    let (cases, covered) = match tests {
        Tests::Libtest(cases) | Tests::Protocol(cases) => (Some(cases), Covered::ByTest),
        Tests::Unit { reason } => (None, Covered::AsUnit { reason: reason.clone() }),
    };
    Target {
        package: binary.package.clone(),
        name: binary.target.clone(),
        kind: binary.kind.name(),
        id: binary.id(),
        tests: cases.map(Vec::len),
        ignored: cases.map_or(0, |cases| cases.iter().filter(|case| skips && case.ignored).count()),
        selected,
        covered,
    }
}

/// The binary of a test that somebody else has chosen, who knows which others it has.
pub fn of_one(test: &PlannedTest) -> Target {
    let TestBinary { package, target, kind, .. } = &*test.binary;
    Target {
        package: package.clone(),
        name: target.clone(),
        kind: kind.name(),
        id: test.binary.id(),
        tests: None,
        ignored: 0,
        selected: 1,
        covered: Covered::ByTest,
    }
}

/// The examples in a library's documentation, of which there are so many, and what people are to know of them. None is run.
pub fn of_doctests(doctests: &Doctests, count: Result<usize, String>) -> (Target, Option<NotChecked>) {
    let package = doctests.rustdoc.package.clone();
    let id = format!("doctests of {package}");
    let reason = match &count {
        Ok(_) => "doctests are not run yet".to_owned(),
        Err(reason) => format!("doctests are not run yet, and nobody knows how many there are: {reason}"),
    };
    let what = match count {
        Ok(1) => format!("1 doctest of {package}"),
        Ok(count) => format!("{count} {id}"),
        Err(_) => id.clone(),
    };
    let not_checked = (count != Ok(0)).then(|| NotChecked { what, reason: reason.clone() });
    let target = Target {
        package,
        name: doctests.rustdoc.target.clone(),
        kind: Target::DOCTEST,
        id,
        tests: count.ok(),
        ignored: 0,
        selected: 0,
        covered: Covered::No { reason },
    };
    (target, not_checked)
}
