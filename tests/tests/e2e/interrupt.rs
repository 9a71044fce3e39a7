//! A run that is ended in the middle.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_tests::tool::{Run, Workshop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixtures::Desk;
use crate::processes::Process;
use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("interrupt::ctrl_c", |workshop| by_request(workshop, Signal::SIGINT)),
    ("interrupt::terminate", |workshop| by_request(workshop, Signal::SIGTERM)),
    ("interrupt::sent_twice", sent_twice),
    ("interrupt::among_events", among_events),
    ("interrupt::kill", killed),
    ("interrupt::while_cargo_is_asked", |workshop| before_the_tests(workshop, "metadata")),
    ("interrupt::during_the_build", |workshop| before_the_tests(workshop, "--no-fail-fast")),
    ("interrupt::while_tests_are_listed", while_listed),
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
    let started = start(workshop)?;
    started.signal(signal)?;
    ended(started)
}

/// `timeout` sends a signal to its child, and to its group, in which that is too: it has been asked once.
fn sent_twice(workshop: &Workshop) -> Outcome {
    let started = start(workshop)?;
    started.signal(Signal::SIGTERM)?;
    std::thread::sleep(Duration::from_millis(20));
    started.signal(Signal::SIGTERM)?;
    ended(started)
}

/// What it runs keeps the tool busy all the time.
fn among_events(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("endless", &["-pthread"])?;
    let desk = Desk::new(workshop, "hang")?;
    let mut command = workshop.command(&["exec", "--", program.as_str()])?;
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tool = command.spawn().map_err(|problem| format!("{command:?}: {problem}"))?;
    let mut begun = [0; 6];
    let output = tool.stdout.take();
    let mut started = Started { tool, target: desk.file("target"), desk };
    let read = output.ok_or("no output")?.read_exact(&mut begun);
    let ended = read.map_err(|problem| problem.to_string()).and_then(|()| {
        // Long enough that it would be seen if nothing else happened.
        std::thread::sleep(Duration::from_millis(100));
        started.signal(Signal::SIGTERM)
    });
    // It is handed on to the program.
    match (started.wait()?, ended?) {
        (status, ()) if status.success() => Err("the program has not ended by a signal".into()),
        _ => Ok(()),
    }
}

/// It ends in order, with all that was known.
fn ended(mut started: Started) -> Outcome {
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

/// A run that is to be interrupted before its first test: waits until a process runs whose executable
/// begins with `what` or whose last argument that is, interrupts the tool alone (a terminal would interrupt cargo as well), and looks
/// whether anything is left.
fn interrupted_early(workshop: &Workshop, args: &[&str], cargo: Option<&str>, what: &str) -> Outcome {
    let temporary = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let mut command = workshop.command(args)?;
    command.envs(cargo.map(|cargo| ("CARGO", cargo))).env("TMPDIR", temporary.path());
    let tool = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let tool = tool.map_err(|problem| format!("{command:?}: {problem}"))?;
    let is_it = |process: &Process| {
        process.executable.starts_with(what) || process.command.ends_with(&format!(" {what} "))
    };
    let running = || processes::all().iter().any(is_it);
    let started = processes::wait_for(what, Duration::from_secs(120), running);
    // It has ended by itself if this fails.
    let _ = kill(Pid::from_raw(tool.id().cast_signed()), Signal::SIGINT);
    let output = tool.wait_with_output().map_err(|problem| problem.to_string())?;
    let run = Run::new(format!("{command:?}"), output);
    let left = running();
    for process in processes::all().into_iter().filter(is_it) {
        let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
    }
    started.map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    if left {
        return Err(format!("`{what}` still runs\n{}", run.describe()));
    }
    processes::left_files(Utf8Path::from_path(temporary.path()).ok_or("an unreadable folder")?)?;
    run.expect(10, &["interrupted before any test"])
}

/// A cargo that hangs in the call that has this argument, in a compiler that removes its temporary file
/// when it is told to end.
fn before_the_tests(workshop: &Workshop, argument: &str) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let (cargo, target) = (desk.file("cargo"), workshop.target_dir());
    let what = desk.file("hangs");
    let compiler =
        "trap \"rm \\$TMPDIR/object; exit\" TERM; touch $TMPDIR/object; while :; do sleep 0.1; done";
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" {argument} \"*) /bin/sh -c '{compiler}' {what}; exit;; esac\n\
         exec cargo \"$@\"\n"
    );
    std::fs::write(&cargo, script).map_err(|problem| problem.to_string())?;
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755))
        .map_err(|problem| problem.to_string())?;
    let manifest = workshop.fixtures().join("Cargo.toml");
    let args = ["-p", "clean", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
    interrupted_early(workshop, &args, Some(cargo.as_str()), what.as_str())
}

/// A binary that does not answer.
fn while_listed(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let folder = desk.file("silent");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
    std::fs::create_dir(&folder)
        .and_then(|()| {
            write(
                "Cargo.toml",
                "[package]\nname = \"silent\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\nharness = false\n",
            )
        })
        .and_then(|()| write("lib.rs", "fn main() { std::thread::sleep(std::time::Duration::from_secs(60)) }\n"))
        .map_err(|problem| problem.to_string())?;
    let manifest = folder.join("Cargo.toml");
    let what = folder.join("target/leakcheck/debug/deps/silent-");
    interrupted_early(workshop, &["--manifest-path", manifest.as_str()], None, what.as_str())
}
