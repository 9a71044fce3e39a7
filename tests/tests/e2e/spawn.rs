//! Tests that are forked from a process of their binary that was started once.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::{Run, Workshop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixtures::Desk;
use crate::processes::Process;
use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("spawn::processes_are_alike", processes_are_alike),
    ("spawn::findings_are_the_same", findings_are_the_same),
    ("spawn::obstacles", obstacles),
    ("spawn::memory_is_shared", memory_is_shared),
    ("spawn::uprobe_recorder", uprobe_recorder),
    ("spawn::processes_are_killed", processes_are_killed),
    ("spawn::tool_is_killed", tool_is_killed),
];

/// What the report says of a binary whose tests are started.
const STARTED: &str = "started for each test: ";

/// A test's process describes itself in the same words, whichever way it was made.
fn processes_are_alike(workshop: &Workshop) -> Outcome {
    const TESTS: [&str; 2] =
        ["describes_itself", "describes_itself_by_a_name_that_is_as_long_as_that_of_no_other_test"];
    for recorder in ["ledger", "container", "user"] {
        let mut described = Vec::new();
        for way in ["exec", "fork"] {
            let desk = Desk::new(workshop, "alike")?;
            let folder = desk.file("described");
            std::fs::create_dir(&folder).map_err(|problem| problem.to_string())?;
            leakcheck_tests::tool::open_to_all(&folder)?;
            let (run, _) = desk.run(
                workshop,
                &["--recorder", recorder, "--spawn", way],
                &[("ALIKE".into(), folder.to_string())],
            )?;
            run.expect(0, &[])?;
            if run.stderr.contains(STARTED) {
                return Err(run.describe());
            }
            let read =
                |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|it| format!("{name}: {it}"));
            let texts: Result<Vec<_>, _> = TESTS.iter().map(|name| read(name)).collect();
            let random: Result<BTreeSet<_>, _> =
                TESTS.iter().map(|name| read(&format!("{name}.random"))).collect();
            let random: BTreeSet<_> =
                random?.iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
            if random.len() != 2 * TESTS.len() {
                return Err(format!(
                    "{recorder}, {way}: random numbers are the same in two tests: {random:?}"
                ));
            }
            described.push(texts?.join("\n").replace(folder.as_str(), "FOLDER"));
        }
        if described[0] != described[1] {
            let lines = described[0].lines().zip(described[1].lines()).filter(|(a, b)| a != b);
            let lines: Vec<_> = lines.map(|(exec, fork)| format!("exec: {exec}\nfork: {fork}")).collect();
            return Err(format!(
                "{recorder}: a process that was forked is another one:\n{}",
                lines.join("\n")
            ));
        }
    }
    Ok(())
}

/// Whole documents are the same, but for what no two runs have alike.
fn findings_are_the_same(workshop: &Workshop) -> Outcome {
    for package in ["forget", "cycles", "endings", "bad-free", "tagged", "statics"] {
        let mut documents = Vec::new();
        for way in ["exec", "fork"] {
            let desk = Desk::new(workshop, package)?;
            let (run, _) = desk.run(workshop, &["-j2", "--recorder", "ledger", "--spawn", way], &[])?;
            if run.stderr.contains(STARTED) {
                return Err(run.describe());
            }
            let text = std::fs::read_to_string(desk.file("report.json")).map_err(|it| it.to_string())?;
            let mut document: Value = serde_json::from_str(&text).map_err(|problem| problem.to_string())?;
            blank(&mut document);
            documents.push(document);
        }
        let [exec, fork] =
            [0, 1].map(|number| serde_json::to_string_pretty(&documents[number]).unwrap_or_default());
        if exec != fork {
            let lines = exec.lines().zip(fork.lines()).filter(|(a, b)| a != b).take(10);
            let lines: Vec<_> = lines.map(|(exec, fork)| format!("exec: {exec}\nfork: {fork}")).collect();
            return Err(format!("{package}: the documents differ:\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

/// Takes out of a document what depends on the run.
fn blank(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let varies = key.ends_with("_ns")
                    || [
                        "output",
                        "stdout",
                        "stderr",
                        "address",
                        "started",
                        "time",
                        "id",
                        "description",
                        "process",
                        "name_of_thread",
                        "spawn",
                    ]
                    .contains(&key.as_str());
                if varies && !value.is_object() && !value.is_array() {
                    *value = Value::Null;
                } else {
                    blank(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(blank),
        _ => {}
    }
}

/// What a library's constructor does before `main`: its tests are started, the report says why, and nothing else changes.
fn obstacles(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("obstacle", &["-shared", "-fPIC", "-pthread", "-lrt"])?;
    for (what, reason) in [
        ("nothing", None),
        ("thread", Some("it starts threads or processes before main")),
        ("child", Some("it starts threads or processes before main")),
        ("descriptor", Some("it has opened a descriptor")),
        ("shared", Some("it shares memory with others")),
        ("locked", Some("it has memory that its children do not get as it is")),
        ("map", Some("a process that was forked could not be begun")),
        ("message", Some("the kernel refuses to fork it: it gets no descriptors")),
        ("clone", Some("the kernel refuses to fork it: EPERM")),
        ("timer", Some("it has made a timer")),
        ("writes", Some("it writes something before main")),
        ("redirected", Some("it has changed a descriptor, or locked a file")),
        ("nonblocking", Some("it has changed a descriptor, or locked a file")),
        ("record", Some("it has changed a descriptor, or locked a file")),
        ("future", Some("it has memory that its children do not get as it is")),
        ("pending", Some("a signal waits until it takes it")),
        ("queued", Some("a signal waits until it takes it")),
        ("death", Some("it wants a signal when its parent ends")),
        ("reaper", Some("it takes orphans as its children")),
        ("priority", Some("its children do not get its priority")),
        ("namespace", Some("its children get another namespace")),
        ("session", Some("it has changed its process group or session")),
        ("semaphores", Some("it has made an IPC object")),
        ("messages", Some("it has made an IPC object")),
        ("queue", Some("it has made an IPC object")),
    ] {
        let desk = Desk::new(workshop, "alike")?;
        let variables = [("LD_PRELOAD".into(), library.to_string()), ("OBSTACLE".into(), what.into())];
        let (run, report) = desk.run(
            workshop,
            &[
                "--recorder",
                "ledger",
                "--spawn",
                "fork",
                "--message-format",
                "json",
                "--",
                "arguments",
                "environment",
            ],
            &variables,
        )?;
        // However often it was tried.
        let started = run.stdout.matches("\"test-started\"").count();
        let said = match reason {
            Some(reason) => run.stderr.contains(&format!("{STARTED}{reason}")),
            None => !run.stderr.contains(STARTED),
        };
        // Where children get another namespace, no thread can be started.
        let end = if what == "namespace" { "failed" } else { "passed" };
        // Each test says it, too.
        let spawned = |test: &Test| match (reason, &test.spawn_reason) {
            (Some(reason), Some(said)) => test.spawn.as_deref() == Some("exec") && said.starts_with(reason),
            (None, None) => test.spawn.as_deref() == Some("fork"),
            _ => false,
        };
        let is_right = |test: &Test| test.outcome == end && spawned(test);
        if !said || started != 2 || report.tests.len() != 2 || !report.tests.iter().all(is_right) {
            return Err(format!("{what}: {}", run.describe()));
        }
    }
    Ok(())
}

/// What a constructor has filled is in memory once, whatever number of tests is forked from it.
fn memory_is_shared(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("obstacle", &["-shared", "-fPIC", "-pthread", "-lrt"])?;
    let desk = Desk::new(workshop, "alike")?;
    let folder = desk.file("described");
    std::fs::create_dir(&folder).map_err(|problem| problem.to_string())?;
    let variables = [
        ("LD_PRELOAD".into(), library.to_string()),
        ("OBSTACLE".into(), "memory".into()),
        ("ALIKE".into(), folder.to_string()),
    ];
    // While the first one runs there is the template.
    let (run, _) = desk.run(
        workshop,
        &["-j1", "--recorder", "ledger", "--spawn", "fork", "--", "describes_itself"],
        &variables,
    )?;
    run.expect(0, &[])?;
    let private = folder.join("describes_itself.private");
    let private = std::fs::read_to_string(private).map_err(|problem| problem.to_string())?;
    match private.parse::<u64>() {
        Ok(kilobytes) if kilobytes < 100 << 10 && !run.stderr.contains(STARTED) => Ok(()),
        _ => Err(format!("{private} kB are its own:\n{}", run.describe())),
    }
}

/// Nothing is forked of what the other recorder records.
fn uprobe_recorder(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "clean")?;
    let (run, _) = desk.run(workshop, &["--recorder", "uprobe", "--spawn", "fork"], &[])?;
    run.expect(0, &["started for each test: its recorder is not the ledger"])
}

/// Whether a process is a template: its last argument has no name in it, and it has executed its program itself, which what
/// was forked from it and has not begun has not (`PF_FORKNOEXEC` among the flags, proc(5)).
fn is_template(process: &Process) -> bool {
    const FORKED: u64 = 0x40;
    let last = process.command.trim_end().rsplit(' ').next().unwrap_or_default();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id)).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse::<u64>().ok());
    last.len() > 2 && last.bytes().all(|byte| byte == b'-') && flags.is_some_and(|flags| flags & FORKED == 0)
}

/// A run on the fixture `alike` that somebody disturbs.
struct Disturbed {
    tool: Child,
    command: String,
    desk: Desk,
    target: Utf8PathBuf,
}

impl Disturbed {
    fn start(workshop: &Workshop, package: &str, target: Utf8PathBuf, more: &[&str]) -> Result<Self, String> {
        let desk = Desk::new(workshop, package)?;
        let manifest = workshop.fixtures().join("Cargo.toml");
        let mut command =
            workshop.command(&["-j4", "--recorder", "ledger", "--spawn", "fork", "--package", package])?;
        command.args(["--manifest-path", manifest.as_str(), "--target-dir", target.as_str()]);
        command.args(["--json", desk.file("report.json").as_str()]).args(more);
        command.env("TMPDIR", desk.file("tmp")).stdout(Stdio::null()).stderr(Stdio::piped());
        let tool = command.spawn().map_err(|problem| format!("{command:?}: {problem}"))?;
        Ok(Self { tool, command: format!("{command:?}"), desk, target })
    }

    /// Its processes that are templates, or that are not.
    fn processes(&self, templates: bool) -> Vec<Pid> {
        let variable = format!("TMPDIR={}", self.desk.file("tmp"));
        let is_ours = |process: &Process| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.id)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(variable.as_bytes()))
        };
        // Nor the one that lists its tests.
        let found = processes::below(&self.target).into_iter().filter(|it| !it.command.contains(" --list"));
        let found = found.filter(|process| is_template(process) == templates && is_ours(process));
        found.map(|process| Pid::from_raw(process.id)).collect()
    }

    /// Kills such processes until the run has ended; how many.
    fn kill(mut self, templates: bool, pause: Duration) -> Result<(Run, Report, u32), String> {
        let mut killed = 0;
        while matches!(self.tool.try_wait(), Ok(None)) {
            for process in self.processes(templates) {
                killed += u32::from(kill(process, Signal::SIGKILL).is_ok());
            }
            std::thread::sleep(pause);
        }
        let output = self.tool.wait_with_output().map_err(|problem| problem.to_string())?;
        let run = Run::new(self.command, output);
        let report = documents::json(&self.desk.file("report.json"))?;
        processes::left_files(&self.desk.file("tmp"))?;
        Ok((run, report, killed))
    }
}

/// Templates that somebody kills take no result with them, and a test that is killed takes none of another.
fn processes_are_killed(workshop: &Workshop) -> Outcome {
    const TESTS: usize = 12;
    for templates in [true, false] {
        let (mut runs, mut killed) = (0, 0);
        let start = Instant::now();
        while killed < 20 && start.elapsed() < Duration::from_secs(60) {
            let run = Disturbed::start(workshop, "alike", workshop.target_dir(), &[])?;
            let (run, report, count) = run.kill(templates, Duration::from_micros(300 * (runs % 11)))?;
            runs += 1;
            // What lists the tests cannot be told from others before its arguments are there.
            if run.stderr.contains("`--list` failed") {
                continue;
            }
            killed += count;
            let is_whole = |outcome: &str| outcome == "passed" || outcome == "signalled" && !templates;
            if report.tests.len() != TESTS || !report.tests.iter().all(|test| is_whole(&test.outcome)) {
                return Err(run.describe());
            }
        }
        if killed < 20 {
            return Err(format!("only {killed} processes were killed in {runs} runs"));
        }
    }
    Ok(())
}

/// Neither templates nor what was forked from them outlive the tool, whenever it is killed.
fn tool_is_killed(workshop: &Workshop) -> Outcome {
    for round in 0..20 {
        let mut run = Disturbed::start(workshop, "alike", workshop.target_dir(), &[])?;
        let has_begun = || !run.processes(true).is_empty() || !run.processes(false).is_empty();
        let start = Instant::now();
        while !has_begun() && start.elapsed() < Duration::from_secs(60) {}
        std::thread::sleep(Duration::from_micros(500 * round));
        let _ = run.tool.kill();
        let _ = run.tool.wait();
        processes::wait_for("all processes to end", Duration::from_secs(20), || {
            run.processes(true).is_empty() && run.processes(false).is_empty()
        })?;
    }
    // While tests hang.
    let target = Desk::new(workshop, "hang")?;
    let more = ["--", "--skip", "waits_for_a_child"];
    let mut run = Disturbed::start(workshop, "hang", target.file("target"), &more)?;
    let seen =
        processes::wait_for("tests that hang", Duration::from_secs(120), || run.processes(false).len() > 1);
    let _ = run.tool.kill();
    let _ = run.tool.wait();
    seen?;
    processes::wait_for("all processes to end", Duration::from_secs(20), || {
        processes::below(&run.target).is_empty()
    })
}
