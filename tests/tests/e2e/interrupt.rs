//! A run that is ended in the middle.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use leakcheck_tests::tool::Workshop;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("interrupt::ctrl_c", |workshop| by_request(workshop, Signal::SIGINT)),
    ("interrupt::terminate", |workshop| by_request(workshop, Signal::SIGTERM)),
    ("interrupt::kill", killed),
];

const LIMIT: Duration = Duration::from_secs(20);

/// A run on tests that never end, one that has ended.
struct Started {
    tool: Child,
    target: Utf8PathBuf,
    desk: Desk,
}

fn start(workshop: &Workshop) -> Result<Started, String> {
    let desk = Desk::new(workshop, "hang")?;
    let (json, junit, target, temporary) =
        (desk.file("report.json"), desk.file("junit.xml"), desk.file("target"), desk.file("tmp"));
    let manifest = workshop.fixtures().join("Cargo.toml");
    let mut command =
        workshop.command(&["-j8", "--package", "hang", "--manifest-path", manifest.as_str()])?;
    command.args(["--target-dir", target.as_str(), "--json", json.as_str(), "--junit", junit.as_str()]);
    command.args(["--", "--skip", "waits_for_a_child"]).env("TMPDIR", temporary);
    let tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let tool = tool.map_err(|problem| format!("{command:?}: {problem}"))?;
    let mut started = Started { tool, target, desk };
    let below = started.target.clone();
    let hanging = || {
        let running = processes::below(&below);
        let runs = |name: &str| running.iter().any(|process| process.command.contains(name));
        runs("leaks_and_sleeps") && runs("spins") && !runs("quick")
    };
    // Seen long enough that the quick test has been harvested, not only not been started yet.
    let (mut seen, mut ended) = (0, None);
    let waited = processes::wait_for("the tests to hang", Duration::from_secs(120), || {
        ended = started.tool.try_wait().ok().flatten();
        seen = if hanging() { seen + 1 } else { 0 };
        seen > 50 || ended.is_some()
    });
    match waited {
        Ok(()) => match ended {
            Some(status) => Err(format!("the tool ended before its tests hung, with {status}")),
            None => Ok(started),
        },
        Err(problem) => {
            let _ = started.tool.kill();
            let _ = started.tool.wait();
            Err(problem)
        }
    }
}

impl Started {
    fn signal(&self, signal: Signal) -> Outcome {
        let id = Pid::from_raw(self.tool.id().cast_signed());
        kill(id, signal).map_err(|problem| format!("{signal}: {problem}"))
    }

    /// Waits for the tool's end; kills it when it does not come.
    fn wait(&mut self) -> Result<std::process::ExitStatus, String> {
        let tool = &mut self.tool;
        let waited = processes::wait_for("the tool to end", LIMIT, || matches!(tool.try_wait(), Ok(Some(_))));
        if waited.is_err() {
            let _ = tool.kill();
        }
        let status = tool.wait().map_err(|problem| problem.to_string())?;
        waited.map(|()| status)
    }

    fn no_process_left(&self) -> Outcome {
        processes::wait_for("the tests' processes to end", LIMIT, || {
            processes::below(&self.target).is_empty()
        })
    }
}

fn by_request(workshop: &Workshop, signal: Signal) -> Outcome {
    let mut started = start(workshop)?;
    started.signal(signal)?;
    let status = started.wait()?;
    started.no_process_left()?;
    processes::left_files(&started.desk.file("tmp"))?;
    if status.success() {
        return Err("an interrupted run is no success".into());
    }
    let report = documents::json(&started.desk.file("report.json"))?;
    documents::junit(&started.desk.file("junit.xml"), &report)?;
    match report.tests.iter().find(|test| test.name == "quick") {
        Some(test) if test.outcome == "passed" && test.verdict == "clean" => Ok(()),
        other => Err(format!("the test that had ended is reported as {other:?}")),
    }
}

/// The tool cannot clean up, but its tests must not live on.
fn killed(workshop: &Workshop) -> Outcome {
    let mut started = start(workshop)?;
    started.signal(Signal::SIGKILL)?;
    let status = started.wait()?;
    if status.signal() != Some(Signal::SIGKILL as i32) {
        return Err(format!("the tool ended with {status}"));
    }
    started.no_process_left()
}
