//! Further attempts at tests that have failed or leaked, when all others have ended.

use super::{Job, Voice, check, exit};
use crate::error::Error;
use crate::judge;
use crate::model::{CheckedTest, PlannedTest, count};
use crate::options::{Options, TraceOptions};
use crate::progress::Progress;
use crate::report::Run;
use crate::sys::Interrupts;
use crate::trace;

/// Runs tests again until each has come out clean or has had its attempts, and makes one result of all attempts at
/// a test of `job`. What has stopped the run, if anything has.
pub fn retry(
    run: &mut Run,
    job: &Job,
    trace: &TraceOptions,
    options: &Options,
    interrupts: &Interrupts,
    voice: &Voice,
    progress: &mut Progress,
) -> Option<Error> {
    let mut failure = None;
    let attempts = trace.retries.saturating_add(1);
    for attempt in 2..=attempts {
        let last = |test: &&CheckedTest| {
            let retries = test.test.trace(&options.trace).retries;
            test.test.attempt == attempt - 1 && retries >= attempt - 1 && judge::is_bad(test)
        };
        let tests: Vec<_> =
            run.tests.iter().filter(last).map(|test| PlannedTest { attempt, ..test.test.clone() }).collect();
        if tests.is_empty() || run.interrupted || failure.is_some() {
            break;
        }
        let number = count(tests.len() as u64, "test");
        progress.print(&format!("note: attempt {attempt} of {attempts} at {number}\n"));
        let job = job.again(tests);
        let checked = trace::load(trace)
            .and_then(|kernel| check(&job, kernel, trace, options, interrupts, voice, progress));
        match checked {
            Ok((more, stopped)) => {
                run.tests.extend(more.tests);
                run.duration += more.duration;
                run.interrupted |= more.interrupted;
                failure = stopped;
            }
            // What earlier attempts have come to is not lost.
            Err(error) => failure = Some(error),
        }
    }
    let tests = std::mem::take(&mut run.tests);
    run.tests = judge::decide(tests);
    run.exit = exit(job, &run.tests, run.interrupted, failure.is_some());
    failure
}
