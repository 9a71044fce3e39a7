//! Tests that are run once more right after their first run, since that was not worth its price for all: to see where
//! a block was freed first, and where what is left open was opened; or since it cannot be repeated in one process.

use super::Follower;
use super::repeat::{fails_repeated, not_repeated};
use crate::model::Outcome;
use crate::options::{KernelBytes, Recorder};
use crate::snapshot::{BadFree, Loss, Snapshot};
use crate::trace::{Event, Kernel, Traced, again};

/// A test that is run once more.
pub(super) struct Again {
    /// How it went first.
    pub(super) first: Traced,
    pub(super) why: Why,
}

/// Why a test is run once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// To see where what it has left was made.
    Lines,
    /// For its double frees too: it takes longer where all frees are noted.
    Frees,
    /// Its body cannot be run again.
    Growth,
}

impl Follower<'_> {
    /// A test has ended, for the first or the second time.
    pub(super) fn finished(&mut self, traced: Traced) {
        let number = traced.number;
        let result = match self.again.remove(&number) {
            None => match self.first(traced, true) {
                Some(result) => result,
                None => return,
            },
            Some(again) => {
                if self.weighs && self.again.is_empty() {
                    self.weighs = false;
                    self.steering.stop_objects();
                    self.processes.values_mut().for_each(|process| process.sees.objects = false);
                }
                match again.why {
                    Why::Growth => match self.first(not_repeated(again.first, traced), false) {
                        Some(result) => result,
                        None => return,
                    },
                    Why::Lines | Why::Frees => both(again, traced),
                }
            }
        };
        self.tell(Event::Finished(Box::new(result)));
    }

    /// The result, unless the test is to be run once more. `repeated` says whether its body was to be run again.
    fn first(&mut self, mut traced: Traced, repeated: bool) -> Option<Traced> {
        let trace = traced.ran.test.trace(self.options);
        let weighs = trace.kernel_bytes == KernelBytes::IfLeft;
        let goes_on = !self.interrupted && !traced.interrupted;
        if goes_on && repeated && fails_repeated(&traced) {
            return self.once_more(traced, Why::Growth);
        }
        let frees = goes_on && !trace.free_stacks && misses_frees(&traced);
        let untold = Untold::of(&traced);
        let mut again = frees;
        if untold.descriptors || untold.objects {
            // From here on it is written down for all: where one test leaves something, others do.
            self.steering.start_files();
            let files = self.steering.kernel().and_then(Kernel::files);
            if let Some(reason) = files.and_then(|files| files.as_ref().ok()?.refusal()) {
                // Of objects only the line is not known.
                if untold.descriptors {
                    let reason = format!("it cannot be seen who has made them: {reason}");
                    traced.ran.memory.losses.push(Loss::Descriptors { reason });
                }
            } else if goes_on
                && traced.ran.test.may_run_twice(&traced.ran.outcome)
                // That will be a second run as well.
                && (self.options.recorder != Recorder::Auto || again::reason(&traced).is_none())
            {
                again = true;
                if weighs && untold.descriptors {
                    self.weigh();
                }
            }
        }
        if !again {
            return Some(traced);
        }
        self.once_more(traced, if frees { Why::Frees } else { Why::Lines })
    }

    fn once_more(&mut self, first: Traced, why: Why) -> Option<Traced> {
        self.queue.push_front(first.number);
        self.again.insert(first.number, Again { first, why });
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

/// What only a second run can tell of what a test has left.
#[derive(Debug, PartialEq, Eq)]
struct Untold {
    /// Who has made its descriptors. Without that there is no verdict on them.
    descriptors: bool,
    /// Where it has made its IPC objects.
    objects: bool,
}

impl Untold {
    /// What it may leave does not matter: what is seen of it can only make it less.
    fn of(traced: &Traced) -> Self {
        let (test, memory) = (&traced.ran.test, &traced.ran.memory);
        let (judge, left) = (test.judging(), &memory.left);
        let is_judged = memory.is_unexplained && test.budget.ignore.is_none();
        let open: usize = left.descriptors.iter().map(|descriptor| descriptor.numbers.len()).sum();
        let is_over =
            |limit: Option<u64>, number| is_judged && limit.is_some_and(|limit| number as u64 > limit);
        let are_unseen = left.descriptors.iter().any(|it| it.call.is_none());
        let descriptors = are_unseen && is_over(test.budget.fds.or(judge.fds), open);
        let are_unseen = left.ipc.iter().any(|it| it.call.is_none());
        let objects = are_unseen && is_over(test.budget.ipc.or(Some(judge.ipc)), left.ipc.len());
        Self { descriptors, objects }
    }
}

/// Whether it has freed a block twice, and it is not known where first. Many such tests do not pass, which is what they
/// are run for.
fn misses_frees(traced: &Traced) -> bool {
    let (test, outcome) = (&traced.ran.test, &traced.ran.outcome);
    let may = !test.is_program() && test.budget.ignore.is_none() && *outcome != Outcome::TimedOut;
    let misses = |free: &BadFree| free.before.allocated.is_some() && free.before.freed.is_none();
    let children = traced.children.iter().map(|child| &child.snapshot);
    may && std::iter::once(&traced.ran.memory).chain(children).any(|of| of.bad_frees.iter().any(misses))
}

/// The result of both runs: that of the first, with what the second one tells of the same.
fn both(Again { mut first, why }: Again, mut second: Traced) -> Traced {
    if second.interrupted || second.ran.outcome != first.ran.outcome {
        return first;
    }
    let memory = &mut second.ran.memory;
    if first.ran.memory.is_unexplained {
        // What they have found no room for may be what the first one has left.
        let losses: Vec<Loss> =
            std::mem::take(&mut memory.losses).into_iter().filter(Loss::hides_descriptors).collect();
        if !losses.is_empty() {
            memory.of_others.clear();
        }
        first.ran.memory.losses.extend(losses);
    } else {
        (memory.left, memory.of_others) = Default::default();
    }
    let children = second.children.iter_mut().map(|child| &mut child.snapshot);
    for memory in std::iter::once(memory).chain(children) {
        let Snapshot { stacks, bad_frees, left, of_others, mappings, .. } = std::mem::take(memory);
        let bad_frees = if why == Why::Frees { bad_frees } else { Vec::new() };
        *memory = Snapshot { stacks, bad_frees, left, of_others, mappings, ..Snapshot::default() };
    }
    first.second = Some(Box::new(second));
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Descriptor, IpcName, IpcObject, Window};
    use crate::snapshot::{Before, OfOthers};
    use crate::trace::again::tests::traced;

    fn left_open(outcome: Outcome, losses: Vec<Loss>) -> Traced {
        let mut traced = traced(outcome, losses);
        traced.ran.memory.is_unexplained = true;
        traced
    }

    fn of_both(first: Traced, second: Traced) -> Traced {
        both(Again { first, why: Why::Lines }, second)
    }

    fn of_others() -> Vec<OfOthers> {
        vec![OfOthers { numbers: vec![3], kind: "pipe".into(), description: String::new() }]
    }

    #[test]
    fn the_second_run_only_tells_more_of_the_first() {
        let first = left_open(Outcome::Passed, vec![Loss::LookedUp]);
        let mut second = traced(Outcome::Passed, vec![Loss::Exec]);
        second.ran.memory.of_others = of_others();
        let both = of_both(first, second);
        assert_eq!((both.number, both.ran.memory.losses), (7, vec![Loss::LookedUp]));
        assert_eq!(both.second.unwrap().ran.memory.of_others, of_others());
    }

    #[test]
    fn a_second_run_that_ends_otherwise_tells_nothing() {
        for outcome in [Outcome::Failed { code: 101 }, Outcome::TimedOut] {
            let both = of_both(left_open(Outcome::Passed, vec![]), traced(outcome, vec![]));
            assert_eq!((both.ran.outcome, both.second.is_none()), (Outcome::Passed, true));
        }
    }

    #[test]
    fn what_found_no_room_is_nobody_elses() {
        for loss in [Loss::Files { count: 1 }, Loss::NoMemory { what: Loss::FILE, count: 1 }] {
            let mut second = traced(Outcome::Passed, vec![Loss::Exec, loss.clone()]);
            second.ran.memory.of_others = of_others();
            let both = of_both(left_open(Outcome::Passed, vec![]), second);
            assert_eq!(both.ran.memory.losses, [loss]);
            assert!(both.second.unwrap().ran.memory.of_others.is_empty());
        }
    }

    fn descriptors(number: u32, call: Option<&str>) -> Vec<Descriptor<usize>> {
        let call = call.map(str::to_owned);
        let description = String::new();
        let (kind, numbers) = ("file".into(), (3..3 + number).collect());
        vec![Descriptor {
            held_by: None,
            once: false,
            bytes: None,
            numbers,
            kind,
            description,
            call,
            stack: None,
        }]
    }

    fn free(allocated: Option<usize>, freed: Option<usize>) -> Vec<BadFree> {
        vec![BadFree { address: 8, double: true, stack: Some(0), before: Before { allocated, freed } }]
    }

    /// What the first run alone has left counts, also where the second one shows more of a double free.
    #[test]
    fn a_double_free_does_not_make_the_first_run_forgotten() {
        let mut first = left_open(Outcome::Signalled { signal: 6 }, vec![]);
        first.ran.memory.left.descriptors = descriptors(1, None);
        first.ran.memory.bad_frees = free(Some(1), None);
        let second = |outcome| {
            let mut second = traced(outcome, vec![]);
            second.ran.memory.bad_frees = free(Some(1), Some(2));
            second
        };
        let both = both(Again { first, why: Why::Frees }, second(Outcome::Signalled { signal: 6 }));
        let Snapshot { left, bad_frees, .. } = both.ran.memory;
        assert_eq!((left.descriptors, bad_frees), (descriptors(1, None), free(Some(1), None)));
        assert_eq!(both.second.unwrap().ran.memory.bad_frees, free(Some(1), Some(2)));
        let mut first = traced(Outcome::Passed, vec![]);
        first.ran.memory.bad_frees = free(Some(1), None);
        let both = super::both(Again { first, why: Why::Frees }, second(Outcome::Signalled { signal: 6 }));
        assert_eq!((both.ran.outcome, both.second.is_none()), (Outcome::Passed, true));
    }

    #[test]
    fn only_a_limit_that_is_exceeded_needs_to_know_more() {
        let wanted = |change: fn(&mut Traced)| {
            let mut traced = left_open(Outcome::Passed, vec![]);
            traced.ran.memory.left.descriptors = descriptors(2, None);
            change(&mut traced);
            Untold::of(&traced).descriptors
        };
        assert!(wanted(|_| {}));
        assert!(wanted(|it| it.ran.test.budget.fds = Some(1)));
        assert!(!wanted(|it| it.ran.test.budget.fds = Some(2)));
        assert!(!wanted(|it| it.ran.test.judge.fds = Some(2)));
        assert!(!wanted(|it| it.ran.test.budget.ignore = Some("why".into())));
        assert!(!wanted(|it| it.ran.memory.left.descriptors = descriptors(2, Some("openat"))));
        // Of a program it is only mentioned.
        assert!(!wanted(|it| it.ran.test.window = Window::Process));
        assert!(wanted(|it| (it.ran.test.window, it.ran.test.judge.fds) = (Window::Process, Some(1))));
    }

    #[test]
    fn objects_are_another_matter() {
        let mut traced = left_open(Outcome::Passed, vec![]);
        let (kind, name) = ("POSIX shared memory".into(), IpcName::Name("/1".into()));
        traced.ran.memory.left.ipc = vec![IpcObject { kind, name, bytes: None, call: None, stack: None }];
        assert_eq!(Untold::of(&traced), Untold { descriptors: false, objects: true });
        traced.ran.test.judge.ipc = 1;
        assert_eq!(Untold::of(&traced), Untold { descriptors: false, objects: false });
    }

    #[test]
    fn a_double_free_is_worth_a_second_run_however_the_test_has_ended() {
        let misses = |outcome, frees| {
            let mut traced = traced(outcome, vec![]);
            traced.ran.memory.bad_frees = frees;
            misses_frees(&traced)
        };
        assert!(misses(Outcome::Passed, free(Some(1), None)));
        assert!(misses(Outcome::Signalled { signal: 6 }, free(Some(1), None)));
        assert!(!misses(Outcome::TimedOut, free(Some(1), None)));
        assert!(!misses(Outcome::Passed, free(Some(1), Some(2))));
        assert!(!misses(Outcome::Passed, free(None, None)));
    }
}
