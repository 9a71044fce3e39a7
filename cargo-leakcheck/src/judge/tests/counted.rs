//! What counts: what is lost, or all that is left.

use super::*;

#[test]
fn everything_alive_counts_on_demand() {
    let all = [(DefinitelyLost, 1, 1), (IndirectlyLost, 2, 1), (PossiblyLost, 4, 1), (StillReachable, 8, 2)];
    let cases: [(&[_], &[&str]); _] = [
        (&[], &[]),
        (&[(StillReachable, 10000, 1)], &["10000 B outstanding in 1 block (budget 0 B)"]),
        (&all, &["15 B outstanding in 5 blocks (budget 0 B)"]),
        (&[(PossiblyLost, 0, 2)], &["2 blocks outstanding (budget 0 blocks)"]),
        (&[(DoubleFree, 0, 1)], &[]),
    ];
    for (found, reasons) in cases {
        check(none(), found, &OUTSTANDING, reasons);
    }
}

/// What counts is a choice of its own; how much of it may be left, another.
#[test]
fn limits_are_for_what_counts() {
    let all = [(DefinitelyLost, 1, 1), (IndirectlyLost, 2, 1), (PossiblyLost, 4, 1), (StillReachable, 8, 2)];
    let cases: [(Budget, &[&str]); _] = [
        (Budget { bytes: Some(15), ..none() }, &[]),
        (Budget { bytes: Some(14), ..none() }, &["15 B outstanding in 5 blocks (budget 14 B)"]),
        (Budget { blocks: Some(5), ..none() }, &[]),
        (Budget { blocks: Some(4), ..none() }, &["5 blocks outstanding (budget 4 blocks)"]),
        (Budget { fds: Some(9), ..none() }, &["15 B outstanding in 5 blocks (budget 0 B)"]),
        // What may be reachable does not count once more.
        (Budget { reachable_bytes: Some(8), bytes: Some(7), ..none() }, &[]),
        (
            Budget { reachable_bytes: Some(8), ..none() },
            &["7 B lost or possibly lost in 3 blocks (budget 0 B)"],
        ),
        (
            Budget { reachable_blocks: Some(1), blocks: Some(2), ..none() },
            &[
                "3 blocks lost or possibly lost (budget 2 blocks)",
                "2 blocks still reachable (budget 1 block)",
            ],
        ),
        // Nor does all that may be outstanding.
        (
            Budget { outstanding_bytes: Some(15), ..none() },
            &["1 B definitely and 2 B indirectly lost in 2 blocks (budget 0 B)"],
        ),
    ];
    for (budget, reasons) in cases {
        check(budget, &all, &OUTSTANDING, reasons);
    }
}
