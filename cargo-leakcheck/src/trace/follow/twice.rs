//! Tests that are run once more right after their first run, since that was not worth its price for all: to see where
//! a block was freed first, and where what is left open was opened.

use super::Follower;
use crate::model::Outcome;
use crate::options::{KernelBytes, Recorder};
use crate::snapshot::{BadFree, Loss, Snapshot};
use crate::trace::{Event, Kernel, Traced, again};

impl Follower<'_> {
    /// A test has ended, for the first or the second time.
    pub(super) fn finished(&mut self, traced: Traced) {
        let number = traced.number;
        let result = match self.again.remove(&number) {
            None => match self.first(traced) {
                Some(result) => result,
                None => return,
            },
            Some(first) => {
                if self.weighs && self.again.is_empty() {
                    self.weighs = false;
                    self.steering.stop_objects();
                    self.processes.values_mut().for_each(|process| process.sees.objects = false);
                }
                both(first, traced)
            }
        };
        (self.sink)(Event::Finished(Box::new(result)));
    }

    /// The result, unless the test is to be run once more.
    fn first(&mut self, mut traced: Traced) -> Option<Traced> {
        let may = !self.interrupted && !traced.interrupted && !traced.ran.test.is_program();
        let misses = any(&traced, |free| free.before.allocated.is_some() && free.before.freed.is_none());
        let trace = traced.ran.test.trace(self.options);
        let mut again = may && misses && !trace.free_stacks;
        let weighs = trace.kernel_bytes == KernelBytes::IfLeft;
        if traced.ran.memory.is_unexplained {
            // From here on it is written down for all: where one test leaves something, others do.
            self.steering.start_files();
            let files = self.steering.kernel().and_then(Kernel::files);
            if let Some(reason) = files.and_then(|files| files.as_ref().ok()?.refusal()) {
                let reason = format!("it cannot be seen who has made them: {reason}");
                traced.ran.memory.losses.push(Loss::Descriptors { reason });
            } else if may
                && matches!(traced.ran.outcome, Outcome::Passed | Outcome::Failed { .. })
                // That will be a second run as well.
                && (self.options.recorder != Recorder::Auto || again::reason(&traced).is_none())
            {
                again = true;
                if weighs {
                    self.weigh();
                }
            }
        }
        if !again {
            return Some(traced);
        }
        self.queue.push_front(traced.number);
        self.again.insert(traced.number, traced);
        None
    }

    /// Has objects recorded, so that the second run also tells what descriptors hold.
    fn weigh(&mut self) {
        if !self.steering.sees().objects {
            self.steering.start_objects();
            self.weighs = self.steering.sees().objects;
        }
    }
}

/// The result of both runs: that of the first, unless only the second one shows a double free as a whole; and what the
/// second one says of what is left.
fn both(first: Traced, second: Traced) -> Traced {
    if second.interrupted {
        return first;
    }
    if any(&second, |free| free.before.freed.is_some()) {
        let mut second = second;
        second.ran.test = first.ran.test;
        return second;
    }
    let mut first = first;
    if second.ran.outcome == first.ran.outcome && first.ran.memory.is_unexplained {
        let Snapshot { stacks, left, of_others, mappings, losses, .. } = second.ran.memory;
        // What they have found no room for may be what the first one has left.
        let unseen = |loss: &Loss| matches!(loss, Loss::Files { .. } | Loss::Descriptors { .. });
        let losses: Vec<Loss> = losses.into_iter().filter(unseen).collect();
        first.ran.memory.losses.extend(losses.iter().cloned());
        let of_others = if losses.is_empty() { of_others } else { Vec::new() };
        let seen = Snapshot { stacks, left, of_others, mappings, ..Snapshot::default() };
        first.second = Some(Box::new(seen));
    }
    first
}

fn any(traced: &Traced, is: fn(&BadFree) -> bool) -> bool {
    let children = traced.children.iter().map(|child| &child.snapshot);
    std::iter::once(&traced.ran.memory).chain(children).any(|of| of.bad_frees.iter().any(is))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::OfOthers;
    use crate::trace::again::tests::traced;

    fn left_open(outcome: Outcome, losses: Vec<Loss>) -> Traced {
        let mut traced = traced(outcome, losses);
        traced.ran.memory.is_unexplained = true;
        traced
    }

    #[test]
    fn the_second_run_only_tells_more_of_the_first() {
        let first = left_open(Outcome::Passed, vec![Loss::LookedUp]);
        let mut second = traced(Outcome::Passed, vec![Loss::Exec]);
        let sent = OfOthers { numbers: vec![3], kind: "pipe".into(), description: String::new() };
        second.ran.memory.of_others = vec![sent.clone()];
        let both = both(first, second);
        assert_eq!((both.number, both.ran.memory.losses), (7, vec![Loss::LookedUp]));
        assert_eq!(both.second.unwrap().of_others, [sent]);
    }

    #[test]
    fn a_second_run_that_ends_otherwise_tells_nothing() {
        let second = traced(Outcome::Failed { code: 101 }, vec![]);
        let both = both(left_open(Outcome::Passed, vec![]), second);
        assert_eq!((both.ran.outcome, both.second.is_none()), (Outcome::Passed, true));
    }

    #[test]
    fn what_found_no_room_is_nobody_elses() {
        let mut second = traced(Outcome::Passed, vec![Loss::Files { count: 1 }]);
        let lost = OfOthers { numbers: vec![3], kind: "pipe".into(), description: String::new() };
        second.ran.memory.of_others = vec![lost];
        let both = both(left_open(Outcome::Passed, vec![]), second);
        assert_eq!(both.ran.memory.losses, [Loss::Files { count: 1 }]);
        assert!(both.second.unwrap().of_others.is_empty());
    }
}
