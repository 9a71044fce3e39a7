//! The pipeline: one stage after the other.

mod show;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;

use crate::build::Workspace;
use crate::config::Config;
use crate::error::{Error, Exit, Result};
use crate::model::{
    CheckedTest, Finding, Frame, Judged, Left, NotChecked, OwnCode, PlannedTest, Ran, Stdio, Steered, Target,
    TestName, Window,
};
use crate::options::{Action, BuildOptions, ExecOptions, JudgeOptions, Options, Selection, TraceOptions};
use crate::progress::Progress;
use crate::report::{Run, Terminal, View};
use crate::snapshot::{Loss, Snapshot};
use crate::symbolize::Symbolizer;
use crate::sys::Interrupts;
use crate::trace::{self, Child, Event, Traced};
use crate::{build, classify, discover, judge, parallel, plan, report};

/// Finished tests that may wait for their analysis before the next ones are held up.
const WAITING: usize = 16;

/// Does what the options ask for; how it ended.
///
/// # Errors
/// The tool could not do its work; failing and leaking tests are no errors.
pub fn run(options: &Options) -> Result<Exit> {
    let files = report::open(&options.report)?;
    let interrupts = Interrupts::new()
        .map_err(|source| Error::System { call: "taking over the signals".to_owned(), source })?;
    let workspace = match &options.action {
        Action::Test(build, _) | Action::List(build, _) | Action::ShowConfig(build, _) => {
            Some(watched(&interrupts, || Workspace::find(build))?)
        }
        Action::Exec(_) => None,
    };
    let config = Config::load(&options.config, workspace.as_ref().map(Workspace::root))?;
    let options = &config.resolve(options);
    let trace = config.widest(&options.trace);
    let (mut job, kernel) = match (&options.action, workspace) {
        (Action::ShowConfig(_, None), _) => {
            return show::config(&config);
        }
        (Action::ShowConfig(build, Some(selection)), Some(workspace)) => {
            return show::tests(&prepare(build, workspace, selection, options, &interrupts)?, &config);
        }
        (Action::List(build, selection), Some(workspace)) => {
            let mut job = prepare(build, workspace, selection, options, &interrupts)?;
            job.tests.iter_mut().for_each(|test| config.settle(test, options));
            return show::list(&job);
        }
        (Action::Test(build, selection), Some(workspace)) => {
            let kernel = trace::load(&trace)?;
            (prepare(build, workspace, selection, options, &interrupts)?, kernel)
        }
        (Action::Exec(exec), _) => {
            let on_stdout = options.report.json.as_deref().is_some_and(|path| path == "-");
            let stdio = if on_stdout { Stdio::PassedToStderr } else { Stdio::Passed };
            (program(exec, stdio)?, trace::load(&trace)?)
        }
        (_, None) => unreachable!("all that builds has a workspace"),
    };
    job.tests.iter_mut().for_each(|test| config.settle(test, options));
    let view = View {
        own: job.own.clone(),
        full_stacks: options.report.full_stacks,
        files: options.report.files,
        count: options.judge.count,
    };
    let mut progress = Progress::new(options.report.color);
    let terminal = Terminal::new(view.clone());
    let (run, failure) = check(job, kernel, &trace, options, &interrupts, &terminal, &mut progress)?;
    progress.print(&terminal.details(&run));
    progress.print(&terminal.summary(&run));
    files.write(&run, &view)?;
    // What stopped the run comes last: what had been found before is not lost.
    failure.map_or(Ok(run.exit), Err)
}

/// What is to be done.
struct Job {
    tests: Vec<PlannedTest>,
    /// What is followed where tests start it, if that is asked for.
    executables: Vec<Utf8PathBuf>,
    targets: Vec<Target>,
    not_checked: Vec<NotChecked>,
    notes: Vec<String>,
    own: OwnCode,
}

/// Builds, and asks the binaries for their tests.
fn prepare(
    build: &BuildOptions,
    workspace: Workspace,
    selection: &Selection,
    options: &Options,
    interrupts: &Interrupts,
) -> Result<Job> {
    let work = || {
        let mut built = build::build(build, workspace)?;
        let binaries = std::mem::take(&mut built.binaries);
        let jobs = options.trace.jobs;
        let doctests = parallel::map(&built.doctests, jobs, discover::doctests::count);
        Ok((built, discover::discover(binaries, jobs), doctests))
    };
    let (mut built, discovered, counted) = watched(interrupts, work)?;
    let plan = plan::plan(discovered, selection, plan::budgets::of_binary)?;
    let notes = std::mem::take(&mut built.notes).into_iter().chain(plan.notes).collect();
    let build::Built { executables, doctests, mut not_checked, own, .. } = built;
    let mut targets = plan.targets;
    for (doctests, count) in doctests.iter().zip(counted) {
        let (target, silent) = plan::targets::of_doctests(doctests, count);
        targets.push(target);
        not_checked.extend(silent);
    }
    Ok(Job { tests: plan.tests, executables, targets, not_checked, notes, own })
}

/// Does something that the user may interrupt.
fn watched<T>(interrupts: &Interrupts, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = interrupts.watch(work);
    if interrupts.requested() { Err(Error::Interrupted) } else { done }
}

fn program(exec: &ExecOptions, stdio: Stdio) -> Result<Job> {
    let test = plan::program(exec, stdio)?;
    let directory = test.binary.directory.clone();
    let packages: Vec<Utf8PathBuf> = vec![directory.clone()];
    let own = OwnCode { root: directory, packages };
    let executables = vec![test.binary.path.clone()];
    let (targets, not_checked, notes) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Job { tests: vec![test], executables, targets, not_checked, notes, own })
}

/// Traces the tests on a thread of its own; analyses and shows each on this one as it ends. Also what
/// has stopped the run after some tests, if anything has.
fn check(
    job: Job,
    kernel: trace::Loading,
    trace: &TraceOptions,
    options: &Options,
    interrupts: &Interrupts,
    terminal: &Terminal,
    progress: &mut Progress,
) -> Result<(Run, Option<Error>)> {
    for note in &job.notes {
        progress.print(&format!("note: {note}\n"));
    }
    let start = Instant::now();
    let binaries: HashSet<_> = job.tests.iter().map(|test| &test.binary.path).collect();
    progress.print(&terminal.checking(job.tests.len(), binaries.len()));
    let mut tests = Vec::new();
    let mut interrupted = false;
    let mut failure = None;
    let steered = OnceLock::new();
    if !job.tests.is_empty() {
        trace::block_signals()?;
        progress.start(job.tests.len());
        let progress = &*progress;
        let (sender, receiver) = mpsc::sync_channel::<Box<Traced>>(WAITING);
        let (plan, executables, own, steered) = (&job.tests, &job.executables, &job.own, &steered);
        let symbolizer = Symbolizer::new(job.own.clone());
        let traced = std::thread::scope(|scope| {
            let tracer = scope.spawn(move || {
                trace::run(kernel, plan, executables, trace, interrupts, &mut |event| match event {
                    Event::Ready(how) => {
                        progress
                            .print(&how.note().map_or_else(String::new, |note| format!("note: {note}\n")));
                        steered.get_or_init(|| how);
                    }
                    Event::ByUprobe { binary, because } => {
                        progress.print(&report::by_uprobe(own, &binary, &because));
                    }
                    Event::Started { number } => progress.running(plan[number].name.as_str()),
                    // If nobody receives, the analysis has panicked, and that is what shows.
                    Event::Finished(traced) => drop(sender.send(traced)),
                })
            });
            let own = &job.own;
            tests = analyse(receiver, symbolizer, own, options, terminal, progress);
            tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        progress.finish();
        match traced {
            Ok(was_interrupted) => interrupted = was_interrupted,
            Err(error) if tests.is_empty() => return Err(error),
            Err(error) => failure = Some(error),
        }
    }
    let exit = match judge::exit(tests.iter()) {
        _ if failure.is_some() => Exit::Tool,
        exit if interrupted => exit.max(Exit::Incomplete),
        exit => exit,
    };
    let recorder = options.trace.recorder;
    let steered: Steered = steered.into_inner().unwrap_or_default();
    let (targets, not_checked) = (job.targets, job.not_checked);
    let duration = start.elapsed();
    Ok((Run { tests, targets, not_checked, duration, recorder, steered, interrupted, exit }, failure))
}

fn analyse(
    receiver: mpsc::Receiver<Box<Traced>>,
    mut symbolizer: Symbolizer,
    own: &OwnCode,
    options: &Options,
    terminal: &Terminal,
    progress: &Progress,
) -> Vec<CheckedTest> {
    let mut checked: Vec<(usize, CheckedTest)> = Vec::new();
    for traced in receiver {
        // A test that was cut short by the user's interrupt has no result.
        if traced.interrupted {
            continue;
        }
        let number = traced.number;
        let test = examine(*traced, &mut symbolizer, own, options, progress);
        progress.print(&terminal.finished(&test));
        progress.advance();
        checked.push((number, test));
    }
    checked.sort_by_key(|(number, _)| *number);
    checked.into_iter().map(|(_, test)| test).collect()
}

/// From snapshots to a verdict: the pure stages.
fn examine(
    traced: Traced,
    symbolizer: &mut Symbolizer,
    own: &OwnCode,
    options: &Options,
    progress: &Progress,
) -> CheckedTest {
    let Ran { mut test, outcome, duration, output, recorded_by, mut memory } = traced.ran;
    test.should_panic |= is_should_panic(&test, &output.stdout);
    let files = memory.files.take();
    let Explained { mut findings, left, mut losses } = explain(memory, symbolizer, options, progress);
    for Child { process, snapshot } in traced.children {
        let process: Arc<str> = own.shown(&process).into();
        // Its descriptors and threads have ended with it, and IPC objects are in the test's namespace.
        let child = explain(snapshot, symbolizer, options, progress);
        findings
            .extend(child.findings.into_iter().map(|it| Finding { process: Some(process.clone()), ..it }));
        let loss = |loss| Loss::Child { process: process.clone(), loss: Box::new(loss) };
        losses.extend(child.losses.into_iter().map(loss));
    }
    findings.sort_by_key(|finding| (finding.kind, Reverse(finding.measure)));
    // A program may have descriptors until it ends, as it may have blocks that it can still reach.
    let none = (test.window == Window::TestBody).then_some(0);
    let judge = *test.judge(&options.judge);
    let how = JudgeOptions { fds: judge.fds.or(none), children: judge.children.or(none), ..judge };
    let panics = test.should_panic;
    let memory = judge::judge(&test.budget, &outcome, panics, findings, left, losses, &how);
    let memory = Judged { files, ..memory };
    Ran { test, outcome, duration, output, recorded_by, memory }
}

/// What is known of one process.
struct Explained {
    findings: Vec<Finding<Vec<Frame>>>,
    left: Left<Vec<Frame>>,
    losses: Vec<Loss>,
}

fn explain(
    mut snapshot: Snapshot,
    symbolizer: &mut Symbolizer,
    options: &Options,
    progress: &Progress,
) -> Explained {
    let start = Instant::now();
    let findings = classify::classify(&snapshot);
    // The large part of it, which nobody needs any more.
    drop((std::mem::take(&mut snapshot.blocks), std::mem::take(&mut snapshot.references)));
    if options.report.timings {
        progress.print(&timings(snapshot.taken_in, start.elapsed()));
    }
    let left = symbolizer.explain_left(&snapshot);
    let findings = symbolizer.explain(&snapshot, findings);
    Explained { findings, left, losses: snapshot.losses }
}

/// How long a leak check took, in microseconds, and the most memory that the tool has had so far.
fn timings(harvest: Duration, classify: Duration) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    let (harvest, classify) = (harvest.as_micros(), classify.as_micros());
    format!("leak check: {harvest} us to harvest, {classify} us to classify, peak memory {peak}\n")
}

/// libtest lists `#[should_panic]` tests like all others, but says so when it runs one.
fn is_should_panic(test: &PlannedTest, stdout: &[u8]) -> bool {
    let TestName::Listed(name) = &test.name else { return false };
    let start = format!("test {name} - should panic");
    stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(start.as_bytes()))
}
