//! Tests whose body was to be run again and again, and cannot be.

use crate::model::{Growth, Outcome};
use crate::trace::Traced;

/// Whether its body was run again, which the test itself has not asked for, and has not come to its end as often as it was to: how the
/// test has ended is nothing that it does by itself.
pub(super) fn fails_repeated(traced: &Traced) -> bool {
    let test = &traced.ran.test;
    let growth = traced.ran.memory.left.growth.as_ref();
    let has_ended = growth.is_some_and(|growth| growth.ended.is_some() && !growth.alive.is_empty());
    has_ended && test.budget.iterations.is_none() && !test.is_program()
}

/// The result of a test whose body cannot be run again: that of the second run, with why nothing is known of its growth.
pub(super) fn not_repeated(first: Traced, mut second: Traced) -> Traced {
    if second.interrupted || matches!(second.ran.outcome, Outcome::NotStarted { .. }) {
        return first;
    }
    second.ran.test = first.ran.test;
    // The call stacks are those of the first.
    let growth = first.ran.memory.left.growth;
    second.ran.memory.left.growth = growth.map(|growth| Growth { grown: Vec::new(), ..growth });
    second
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Grown, Measure};
    use crate::snapshot::Loss;
    use crate::trace::again::tests::traced;

    /// A test that passes once, and whose second iteration panics.
    #[test]
    fn what_a_second_iteration_does_is_not_how_a_test_ends() {
        let first = |iterations: usize, ended: Option<&str>| {
            let mut first = traced(Outcome::Failed { code: 101 }, vec![Loss::LookedUp]);
            let alive = vec![Measure { bytes: 1, blocks: 1 }; iterations];
            let grown = vec![Grown { bytes: vec![1], stack: Some(3) }];
            let ended = ended.map(str::to_owned);
            let growth = Growth { iterations: 5, alive, grown, ended, ..Growth::default() };
            first.ran.memory.left.growth = Some(growth);
            first
        };
        assert!(fails_repeated(&first(1, Some("why"))));
        // All were seen; its first one has failed; it asks for more; there was none; a program is not run twice.
        assert!(!fails_repeated(&first(5, None)));
        assert!(!fails_repeated(&first(0, Some("why"))));
        let but = |change: fn(&mut Traced)| {
            let mut first = first(1, Some("why"));
            change(&mut first);
            fails_repeated(&first)
        };
        assert!(!but(|it| it.ran.test.budget.iterations = Some(5)));
        assert!(!but(|it| it.ran.memory.left.growth = None));
        assert!(!but(|it| it.ran.test.stdio = crate::model::Stdio::Passed));
        let result = not_repeated(first(1, Some("why")), traced(Outcome::Passed, vec![]));
        let growth = result.ran.memory.left.growth.unwrap();
        assert_eq!((result.ran.outcome, result.ran.memory.losses.len()), (Outcome::Passed, 0));
        assert_eq!((growth.grown.len(), growth.ended.as_deref()), (0, Some("why")));
        let not_started = Outcome::NotStarted { reason: String::new() };
        let result = not_repeated(first(1, Some("why")), traced(not_started, vec![]));
        assert_eq!(result.ran.outcome, Outcome::Failed { code: 101 });
    }
}
