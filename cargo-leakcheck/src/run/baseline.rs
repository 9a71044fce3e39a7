//! `baseline write` and `baseline update`: what a run makes of the baseline.

use super::Job;
use super::analyse::looked_at;
use super::ratchet::{self, Ran};
use crate::accept::baseline::Baseline;
use crate::error::{Error, Exit, Result};
use crate::judge;
use crate::model::{CheckedTest, Leak, count};
use crate::options::{Options, Ratchet};
use crate::report::Run;

/// Writes the baseline anew, if that is what the run is for, and says so. Leaks are no failure of a run that accepts them; what it
/// cannot accept is.
///
/// # Errors
/// There is no place for it, or it cannot be read or written.
pub fn ratchet(run: &mut Run, job: &Job, options: &Options) -> Result<String> {
    let Some(how) = options.accept.ratchet else { return Ok(String::new()) };
    let Some(path) = &options.accept.baseline else {
        return Err(Error::Usage(
            "no workspace was found that could have a baseline; name a file by --baseline".to_owned(),
        ));
    };
    if run.interrupted || run.tests.len() < job.tests.len() {
        return Ok(format!("note: the baseline {path} was not written, since not all tests have run\n"));
    }
    let before = Baseline::read(path)?;
    let had = before.is_some();
    let before = before.unwrap_or_default();
    let without_ebpf = run.steered.without_ebpf.is_some();
    let looked = |test: &CheckedTest, leak: Leak| {
        let by_ebpf = !matches!(leak, Leak::Memory(_));
        judge::counts(&test.test.budget, &test.test.judging(), leak)
            && looked_at(test.test.trace(&options.trace))(leak)
            && !(by_ebpf && without_ebpf)
    };
    let ran = Ran { tests: &run.tests, all: &job.all, own: &job.own, looked: &looked };
    let after = ratchet::after(before.clone(), how, &ran);
    let shown = job.own.shown(path.as_str());
    let tests = count(after.0.len() as u64, "test");
    let known = format!("{shown}: {} of {tests} known", count(after.leaks() as u64, "leak"));
    let changed = after != before || how == Ratchet::Write && !had;
    if changed {
        after.write(path)?;
    }
    let what = if changed { "written" } else { "as before" };
    let mut said = format!("note: {known} ({what})\n");
    if how == Ratchet::Write {
        match run.tests.iter().filter(|test| judge::fails_anyway(test)).count() as u64 {
            0 => {
                run.exit = match run.exit {
                    Exit::Leaks => Exit::Clean,
                    Exit::FailedAndLeaks => Exit::Failed,
                    exit => exit,
                }
            }
            others => {
                let others = count(others, "test");
                said += &format!(
                    "note: {others} over limits for growth, peak or totals, which no baseline knows\n"
                );
            }
        }
    }
    Ok(said)
}
