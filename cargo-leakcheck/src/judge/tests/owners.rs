//! Whose leaks count.

use super::*;
use crate::model::{Owner, OwnerKind};
use crate::options::Dependencies;

fn owned(kind: OwnerKind, found: (FindingKind, u64, u64)) -> Finding<Vec<Frame>> {
    let mut finding = findings(&[found]).remove(0);
    finding.origin.owner = Owner { kind, name: Some("it".into()), version: None };
    finding
}

#[test]
fn what_dependencies_leak_is_reported_only_where_that_is_wanted() {
    use OwnerKind::{Dependency, Library, Unknown, Workspace};
    let found = || {
        vec![
            owned(Workspace, (DefinitelyLost, 1, 1)),
            owned(Unknown, (DefinitelyLost, 2, 1)),
            owned(Dependency, (DefinitelyLost, 4, 1)),
            owned(Library, (DefinitelyLost, 8, 1)),
            owned(Dependency, (DoubleFree, 0, 1)),
        ]
    };
    let judged = |found, dependencies| {
        let options = JudgeOptions { dependencies, count_bad_frees: true, ..OPTIONS };
        let seen = Seen { findings: found, left: Left::default(), losses: Vec::new(), ..Seen::default() };
        judge(&none(), &Outcome::Passed, false, seen, &options, &nothing)
    };
    let all = judged(found(), Dependencies::Fail);
    let reasons = ["15 B definitely lost in 4 blocks (budget 0 B)", "1 double free"].map(str::to_owned);
    assert_eq!(all.verdict, Verdict::Leaks(reasons.to_vec()));
    let own = judged(found(), Dependencies::Report);
    // Of what nobody owns somebody has to look at it.
    let reason = "3 B definitely lost in 2 blocks (budget 0 B)".to_owned();
    assert_eq!(own.verdict, Verdict::Leaks(vec![reason]));
    assert_eq!(own.totals.definitely_lost, Measure { bytes: 15, blocks: 4 }, "all are shown");
    assert_eq!(judged(found().split_off(2), Dependencies::Report).verdict, Verdict::Clean);
}
