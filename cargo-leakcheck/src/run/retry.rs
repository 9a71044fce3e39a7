//! Further attempts at tests that have failed or leaked, when all others have ended.

use super::{Job, Voice, check, exit};
use crate::error::{Error, Result};
use crate::judge;
use crate::model::{CheckedTest, PlannedTest, count};
use crate::options::{Options, TraceOptions};
use crate::progress::Progress;
use crate::report::Run;
use crate::sys::Interrupts;
use crate::trace;

/// Runs tests again until each has come out clean or has had its attempts, and makes one result of all attempts at
/// a test of `job`. Also what has stopped the run, if anything has.
///
/// # Errors
/// The system refuses to trace.
pub fn retry(
    run: &mut Run,
    job: &Job,
    trace: &TraceOptions,
    options: &Options,
    interrupts: &Interrupts,
    voice: &Voice,
    progress: &mut Progress,
) -> Result<Option<Error>> {
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
        let kernel = trace::load(trace)?;
        let (more, stopped) = check(&job.again(tests), kernel, trace, options, interrupts, voice, progress)?;
        run.tests.extend(more.tests);
        run.duration += more.duration;
        run.interrupted |= more.interrupted;
        failure = stopped;
    }
    let tests = std::mem::take(&mut run.tests);
    run.tests = judge::decide(tests);
    run.exit = exit(job, &run.tests, run.interrupted, failure.is_some());
    Ok(failure)
}
