//! A random allocation program, whose truth it tells itself, under every recorder.
//!
//! `LEAKCHECK_E2E_SEEDS=FIRST-LAST` names the seeds.

use std::env;
use std::sync::Arc;

use camino::Utf8Path;
use leakcheck_tests::tool::{Workshop, open_to_all};
use leakcheck_tests::truth::Truth;
use libtest_mimic::Trial;

use crate::{Outcome, exec, trial};

/// Trials that the seeds are dealt out to; they run side by side.
const PARTS: u64 = 8;
/// Runs with a difference that a trial shows.
const SHOWN: usize = 3;

/// The trials.
pub fn trials(workshop: &Arc<Workshop>) -> Vec<Trial> {
    let part =
        |part| trial(format!("witness::part_{}", part + 1), workshop, move |workshop| run(workshop, part));
    (0..PARTS).map(part).collect()
}

/// First and last seed.
fn seeds() -> Result<(u64, u64), String> {
    let text = env::var("LEAKCHECK_E2E_SEEDS").unwrap_or("1-200".into());
    let range =
        text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    range.filter(|(first, last)| first <= last).ok_or(format!("LEAKCHECK_E2E_SEEDS={text}: it is FIRST-LAST"))
}

/// All recorders, or the one that `LEAKCHECK_E2E_RECORDER` names.
fn recorders() -> Vec<String> {
    let all = || ["ledger", "uprobe", "user"].map(str::to_owned).to_vec();
    env::var("LEAKCHECK_E2E_RECORDER").map_or_else(|_| all(), |recorder| vec![recorder])
}

fn run(workshop: &Workshop, part: u64) -> Outcome {
    let (first, last) = seeds()?;
    // The loader saves vector registers, with addresses in them, on the stack of whoever calls a function first.
    let program = workshop.compile("random", &["-pthread", "-Wl,-z,now"])?;
    let (mut runs, mut different) = (0, Vec::new());
    for seed in (first..=last).filter(|seed| seed % PARTS == part) {
        for recorder in recorders() {
            let options = ["--recorder", &recorder];
            runs += 1;
            if let Err(differences) = compare(workshop, &program, seed, &options) {
                different.push(format!("seed {seed}, {options:?}:\n{differences}"));
            }
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let count = different.len();
    different.truncate(SHOWN);
    Err(format!("{count} of {runs} runs differ from the truth\n{}", different.join("\n")))
}

fn compare(workshop: &Workshop, program: &Utf8Path, seed: u64, options: &[&str]) -> Outcome {
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let path = Utf8Path::from_path(folder.path()).ok_or("the temporary folder has no readable name")?;
    open_to_all(path)?;
    let file = path.join("truth").into_string();
    let mut options = options.to_vec();
    options.extend(["--timeout", "60"]);
    let arguments = [program.as_str(), &seed.to_string(), &file];
    let (run, test) = exec::exec_with(workshop, &options, &arguments)?;
    let text = std::fs::read_to_string(&file).map_err(|problem| format!("{file}: {problem}"));
    let truth = text.and_then(|text| Truth::parse(&text));
    let truth = truth.map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    let differences = truth.differences(&test);
    match differences.is_empty() {
        true => run.expect(truth.exit_code(&test.verdict), &[]),
        false => Err(format!("  it ended by {}\n  {}", truth.end, differences.join("\n  "))),
    }
}
