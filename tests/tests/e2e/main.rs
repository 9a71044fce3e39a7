//! Runs the tool on every fixture and on bad input, on the real kernel.
//!
//! `LEAKCHECK_BIN` names a built tool (otherwise it is built), `LEAKCHECK_E2E_REPEAT` how often each
//! fixture runs, `LEAKCHECK_E2E_JOBS` with which `-j` (`1,8`), `LEAKCHECK_E2E_RECORDER` by which recorder
//! (fixtures and the random program: by all of them; `container` and `user` are the ledger without
//! privileges), `LEAKCHECK_E2E_SEEDS` the seeds of that program
//! (`1-200`), `LEAKCHECK_E2E_WAYS=all` that the large workspace runs whole by every way. Without privileges the trials fail: a
//! test that did not run is no test that passed.

mod action;
mod allocators;
mod around;
mod at_peak;
mod bad_input;
mod baseline;
mod chains;
mod children;
mod config;
mod containers;
mod descriptors;
mod doctor;
mod documents;
mod exec;
mod fixtures;
mod frees;
mod growth;
mod heap;
mod html;
mod inside;
mod install;
mod interrupt;
mod ipc;
mod isolated;
mod kernel_bytes;
mod left;
mod look;
mod mapped;
mod marks;
mod nextest;
mod owners;
mod package;
mod parts;
mod processes;
mod raised;
mod rules;
mod runner;
mod selection;
mod setup;
mod spawn;
mod stream;
mod suite;
mod targets;
mod unprivileged;
mod witness;

use std::process::ExitCode;
use std::sync::Arc;

use leakcheck_tests::tool::Workshop;
use libtest_mimic::{Arguments, Failed, Trial};

/// A trial's result: nothing, or what differs.
type Outcome = Result<(), String>;

/// Name and body of a trial.
type NamedTrial = (&'static str, fn(&Workshop) -> Outcome);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let workshop = match Workshop::open() {
        Ok(workshop) => Arc::new(workshop),
        Err(problem) => {
            eprintln!("cannot set up the end-to-end tests: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = fixtures::trials(&workshop);
    trials.extend(witness::trials(&workshop));
    let lists: &[&[NamedTrial]] = &[
        action::TRIALS,
        allocators::TRIALS,
        around::TRIALS,
        at_peak::TRIALS,
        baseline::TRIALS,
        chains::TRIALS,
        children::TRIALS,
        config::TRIALS,
        containers::TRIALS,
        doctor::TRIALS,
        frees::TRIALS,
        growth::TRIALS,
        heap::TRIALS,
        html::TRIALS,
        bad_input::TRIALS,
        descriptors::TRIALS,
        exec::TRIALS,
        inside::TRIALS,
        install::TRIALS,
        interrupt::TRIALS,
        ipc::TRIALS,
        isolated::TRIALS,
        kernel_bytes::TRIALS,
        left::TRIALS,
        look::TRIALS,
        mapped::TRIALS,
        marks::TRIALS,
        nextest::TRIALS,
        owners::TRIALS,
        parts::TRIALS,
        raised::TRIALS,
        rules::TRIALS,
        runner::TRIALS,
        selection::TRIALS,
        setup::TRIALS,
        spawn::TRIALS,
        stream::TRIALS,
        suite::TRIALS,
        targets::TRIALS,
        unprivileged::TRIALS,
    ];
    for &(name, run) in lists.iter().copied().flatten() {
        trials.push(trial(name.to_owned(), &workshop, run));
    }
    let user = Arc::new(workshop.recorded_by("user"));
    for &(name, run) in [exec::TRIALS, inside::TRIALS].into_iter().flatten() {
        trials.push(trial(format!("user::{name}"), &user, run));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(
    name: String,
    workshop: &Arc<Workshop>,
    run: impl FnOnce(&Workshop) -> Outcome + Send + 'static,
) -> Trial {
    let workshop = workshop.clone();
    Trial::test(name, move || {
        privileged()?;
        run(&workshop).map_err(Failed::from)
    })
}

/// Whether eBPF programs may be loaded and processes traced: the bits of the effective capabilities.
fn privileged() -> Outcome {
    const NEEDED: [(&str, u32); 3] = [("CAP_BPF", 39), ("CAP_PERFMON", 38), ("CAP_SYS_PTRACE", 19)];
    let status = fs_err::read_to_string("/proc/self/status").map_err(|problem| problem.to_string())?;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default().trim();
    let mask = u64::from_str_radix(mask, 16).map_err(|problem| format!("CapEff `{mask}`: {problem}"))?;
    match NEEDED.iter().find(|(_, bit)| mask >> bit & 1 == 0) {
        Some((name, _)) => Err(format!(
            "the end-to-end tests need {name}: run them as root, for example \
             `sudo -E env \"PATH=$PATH\" cargo test --package leakcheck-tests`"
        )),
        None => Ok(()),
    }
}
