//! Tests that have left descriptors are run once more, to see what those hold in the kernel: the tracepoints that it
//! takes are met by the whole machine, so no run has them without need.

use std::collections::BTreeMap;
use std::time::Duration;

use super::follow::Follower;
use super::kernel::Kernel;
use super::prepare::Prepared;
use super::steering::Steering;
use super::{Event, Traced};
use crate::error::Result;
use crate::model::PlannedTest;
use crate::options::{KernelBytes, TraceOptions};
use crate::sys::Interrupts;

/// Whether objects are to be recorded from the first test on.
pub fn from_the_start(tests: &[PlannedTest], options: &TraceOptions) -> bool {
    let has_limit = || tests.iter().any(|test| test.budget.kernel_bytes.is_some());
    let limits = options.kernel_bytes == KernelBytes::IfLeft && has_limit();
    options.kernel_report || options.kernel_bytes == KernelBytes::Always || limits
}

/// Whether it can be done: objects can be recorded, and are not yet.
pub fn is_possible(steering: &Steering, options: &TraceOptions) -> bool {
    let objects = steering.kernel().and_then(Kernel::objects);
    options.kernel_bytes == KernelBytes::IfLeft && matches!(objects, Some(Ok(objects)) if !objects.runs())
}

fn is_started(steering: &Steering) -> bool {
    matches!(steering.kernel().and_then(Kernel::objects), Some(Ok(objects)) if objects.runs())
}

/// Whether a test may be run twice, and that may tell something.
pub fn may_run_twice(traced: &Traced) -> bool {
    let wants = traced.ran.test.wants(|trace| trace.kernel_bytes != KernelBytes::Off);
    let descriptors = &traced.ran.memory.left.descriptors;
    let may = !traced.interrupted && traced.ran.test.may_run_twice(&traced.ran.outcome);
    may && wants && descriptors.iter().any(|it| it.bytes.is_none())
}

/// Runs those of `tests` once more, by their places in the plan and with what `first` says they took, and tells `sink` of each. Whether it was interrupted.
///
/// # Errors
/// The system refuses a process.
pub fn run(
    steering: &mut Steering,
    prepared: &Prepared,
    (tests, numbers, first): (&[PlannedTest], &[usize], &BTreeMap<usize, Duration>),
    options: &TraceOptions,
    interrupts: &Interrupts,
    sink: &mut dyn FnMut(Event),
) -> Result<bool> {
    steering.start_objects();
    if !is_started(steering) {
        return Ok(false);
    }
    let quiet =
        |number: &usize| tests[*number].quiet(options, first.get(number).copied().unwrap_or_default());
    let again: Vec<PlannedTest> = numbers.iter().map(quiet).collect();
    let mut sift = |event| {
        if let Event::Finished(mut second) = event {
            second.number = numbers[second.number];
            sink(Event::Weighed(second));
        }
    };
    Follower::new(steering, prepared, options, interrupts, &mut sift)?.run(&again)
}
