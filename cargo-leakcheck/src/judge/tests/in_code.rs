//! Scopes with limits of their own, and what the test's code has ignored.

use std::sync::Arc;

use super::*;
use crate::model::{Accepted, By, InCode, Item, Limited, Scope};

/// A finding in a scope whose limits are those.
fn within(limits: Option<&Limited>, found: (FindingKind, u64, u64)) -> Finding<Vec<Frame>> {
    let mut finding = findings(&[found]).remove(0);
    let scope = Scope { name: "it".into(), limited: limits.cloned() };
    finding.in_code.scope = Some(Arc::new(scope));
    finding
}

fn limited(by: &str, bytes: Option<u64>, reachable_bytes: Option<u64>) -> Limited {
    Limited { by: by.into(), bytes, reachable_bytes, ..Limited::default() }
}

fn reasons(budget: &Budget, findings: &[Finding<Vec<Frame>>]) -> Vec<String> {
    let seen = Seen { findings: findings.to_vec(), left: Left::default(), heap: None, losses: Vec::new() };
    match judge(budget, &Outcome::Passed, false, seen, &OPTIONS, &nothing).verdict {
        Verdict::Leaks(reasons) => reasons,
        Verdict::Clean => Vec::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_scope_is_judged_by_its_own_limits_alone() {
    let [a, b] = [limited("a", Some(24), None), limited("b", Some(8), None)];
    let all = [
        within(Some(&b), (DefinitelyLost, 9, 1)),
        within(Some(&a), (DefinitelyLost, 16, 1)),
        within(Some(&a), (IndirectlyLost, 8, 1)),
        within(None, (DefinitelyLost, 3, 1)),
        findings(&[(DefinitelyLost, 2, 1)]).remove(0),
    ];
    let of_the_test = "5 B definitely lost in 2 blocks (budget 0 B)";
    assert_eq!(
        reasons(&none(), &all),
        [of_the_test, "in scope 'b': 9 B definitely lost in 1 block (budget 8 B)"]
    );
    let enough = Budget { bytes: Some(5), ..none() };
    assert_eq!(reasons(&enough, &all[1..]), [""; 0], "limits are inclusive");
}

#[test]
fn a_scope_with_another_limit_may_lose_nothing() {
    let limits = limited("a", None, Some(10));
    let found = [(DefinitelyLost, 1, 1), (StillReachable, 11, 1)].map(|it| within(Some(&limits), it));
    let budget = Budget { bytes: Some(100), ..none() };
    let lost = "in scope 'a': 1 B definitely lost in 1 block (budget 0 B)";
    let reachable = "in scope 'a': 11 B still reachable in 1 block (budget 10 B)";
    assert_eq!(reasons(&budget, &found), [lost, reachable]);
}

/// Each of an allocation site is asked by the limits that it is judged by.
#[test]
fn what_can_fail_is_said_by_the_scopes_limits_and_not_of_what_is_ignored() {
    let test = checked(Outcome::Passed, Verdict::Clean, true).test;
    let reachable = within(Some(&limited("a", None, Some(0))), (StillReachable, 8, 1));
    let mut ignored = findings(&[(DefinitelyLost, 8, 1)]).remove(0);
    ignored.in_code = InCode { ignored: Some("a:1".into()), scope: None };
    let others = findings(&[(StillReachable, 8, 1), (DefinitelyLost, 8, 1)]);
    let findings: Vec<_> = [reachable, ignored].into_iter().chain(others).collect();
    let seen = Seen { findings, left: Left::default(), heap: None, losses: Vec::new() };
    let can_fail = |place: usize| {
        can_fail(&test, &seen, Item::Finding(place), crate::model::Leak::Memory(seen.findings[place].kind))
    };
    assert_eq!([0, 1, 2, 3].map(can_fail), [true, false, false, true]);
}

#[test]
fn what_is_ignored_does_not_count() {
    let all = findings(&[(DefinitelyLost, 40, 1), (DefinitelyLost, 8, 1)]);
    let seen = Seen { findings: all, left: Left::default(), heap: None, losses: Vec::new() };
    let by = By::Code("src/lib.rs:7".into());
    let accepted = Accepted { measure: Measure { bytes: 40, blocks: 1 }, by };
    let acceptance = Acceptance { items: [(Item::Finding(0), accepted)].into(), ..Acceptance::default() };
    let budget = Budget { bytes: Some(8), ..none() };
    let judged = judge(&budget, &Outcome::Passed, false, seen, &OPTIONS, &|_| acceptance.clone());
    assert_eq!(judged.verdict, Verdict::Clean, "neither as known nor against the limit");
    assert_eq!(judged.totals.definitely_lost.bytes, 48, "the report has it");
}
