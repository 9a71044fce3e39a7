//! The self-test: this program, started as one that leaks and as one that does not, traced as tests are.

use std::ffi::{OsStr, OsString};
use std::hint::black_box;

use super::facts::Trial;
use crate::classify;
use crate::error::{Error, Result};
use crate::model::{FindingKind, Measure, Outcome, PlannedTest, Stdio};
use crate::options::{Asked, DoctorOptions, ExecOptions, Recorder, TraceOptions};
use crate::plan::{self, Called};
use crate::sys::Interrupts;
use crate::trace::{self, Event};

/// The first argument of a planted program.
const PLANT: &str = "__plant";
/// What it loses, in bytes: a number that nothing else comes by.
const BYTES: usize = 4321;

/// What is planted, in the order in which it runs.
const PLANTS: [(&str, Measure); 2] =
    [("leak", Measure { bytes: BYTES as u64, blocks: 1 }), ("clean", Measure { bytes: 0, blocks: 0 })];

/// Whether these are the arguments of a planted program; then it has done what it is to do.
pub fn is_planted(mut arguments: impl Iterator<Item = OsString>) -> bool {
    if arguments.nth(1).is_none_or(|first| first != PLANT) {
        return false;
    }
    let block = black_box(vec![1_u8; BYTES]);
    if arguments.next().is_some_and(|what| what == "leak") {
        std::mem::forget(block);
    }
    true
}

/// Traces both programs with a recorder.
pub fn trial(options: &DoctorOptions, recorder: Recorder, interrupts: &Interrupts) -> Trial {
    let name = match recorder {
        Recorder::Auto | Recorder::Ledger => "ledger",
        Recorder::Uprobe => "uprobe",
    };
    let mut trial = Trial { recorder: name, steered: None, result: Ok(()) };
    let trace = TraceOptions { recorder, ..options.trace.clone() };
    trial.result = run(options, &trace, interrupts, &mut trial).map_err(|error| error.to_string()).flatten();
    trial
}

fn run(
    options: &DoctorOptions,
    trace: &TraceOptions,
    interrupts: &Interrupts,
    trial: &mut Trial,
) -> Result<std::result::Result<(), String>> {
    let planted = PLANTS.iter().map(|(what, _)| plant(options, what)).collect::<Result<Vec<_>>>()?;
    let mut seen: [Option<std::result::Result<Measure, String>>; PLANTS.len()] = Default::default();
    let kernel = trace::load(trace)?;
    let interrupted = trace::run(kernel, &planted, &[], trace, interrupts, &mut |event| match event {
        Event::Ready(steered) => trial.steered = Some(steered),
        Event::Finished(traced) => seen[traced.number] = Some(lost(&traced.ran)),
        // They leave no descriptors.
        Event::Weigh { .. }
        | Event::Weighed(_)
        | Event::ByUprobe { .. }
        | Event::NotForked { .. }
        | Event::Started { .. }
        | Event::Followed(_) => {}
    })?;
    if interrupted {
        return Err(Error::Interrupted);
    }
    Ok(PLANTS.iter().zip(seen).try_for_each(|((what, planted), seen)| compare(what, *planted, seen)))
}

fn plant(options: &DoctorOptions, what: &str) -> Result<PlannedTest> {
    let command = vec![options.executable.clone().into(), OsStr::new(PLANT).into(), OsStr::new(what).into()];
    let (directory, environment) = (options.directory.clone(), options.environment.clone());
    let (metadata, runner, asked) = (None, false, Asked::Other);
    let exec = ExecOptions { command, directory, environment, metadata, runner, asked };
    match plan::called(&exec, Stdio::Captured)? {
        Called::One(test) => Ok(*test),
        Called::Tests(..) | Called::Other(_) => {
            let command = options.executable.display().to_string();
            Err(Error::Command { command, reason: "it is not the tool, but a test binary".to_owned() })
        }
    }
}

/// What a process has lost; why that is not known.
fn lost(ran: &crate::model::Ran<crate::snapshot::Snapshot>) -> std::result::Result<Measure, String> {
    if ran.outcome != Outcome::Passed {
        return Err(format!("the process ended otherwise than by itself: {:?}", ran.outcome));
    }
    if let Some(loss) = ran.memory.losses.first() {
        return Err(loss.to_string());
    }
    let findings = classify::classify(&ran.memory);
    let lost = findings.iter().filter(|finding| finding.kind <= FindingKind::PossiblyLost);
    Ok(lost.fold(Measure::default(), |sum, finding| sum + finding.measure))
}

fn compare(
    what: &str,
    planted: Measure,
    seen: Option<std::result::Result<Measure, String>>,
) -> std::result::Result<(), String> {
    match seen {
        None => Err(format!("the program that is {what} was not run")),
        Some(Err(reason)) => Err(format!("the program `{what}`: {reason}")),
        Some(Ok(measure)) if measure == planted => Ok(()),
        Some(Ok(seen)) => Err(format!(
            "{} B in {} blocks were planted in the program `{what}`, and {} B in {} blocks found",
            planted.bytes, planted.blocks, seen.bytes, seen.blocks
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_and_less_than_planted_are_failures() {
        let measure = |bytes, blocks| Measure { bytes, blocks };
        let is = |planted, seen| compare("leak", planted, Some(Ok(seen)));
        assert_eq!(is(measure(5, 1), measure(5, 1)), Ok(()));
        assert!(is(measure(5, 1), measure(0, 0)).unwrap_err().ends_with("and 0 B in 0 blocks found"));
        assert!(is(measure(0, 0), measure(5, 1)).is_err());
        assert!(is(measure(5, 1), measure(5, 2)).is_err());
        assert!(compare("leak", measure(0, 0), None).is_err());
        let unseen = compare("leak", measure(0, 0), Some(Err("no canary".into())));
        assert_eq!(unseen, Err("the program `leak`: no canary".into()));
    }

    #[test]
    fn other_arguments_plant_nothing() {
        let is = |arguments: &[&str]| is_planted(arguments.iter().map(OsString::from));
        assert!(!is(&["x"]) && !is(&["x", "leakcheck", PLANT]) && is(&["x", PLANT, "clean"]));
    }
}
