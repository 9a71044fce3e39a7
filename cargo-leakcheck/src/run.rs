//! The pipeline: one stage after the other.

mod analyse;
mod exec;
mod merge;
mod nextest;
mod retry;

use std::cell::Cell;
use std::collections::HashSet;
use std::io::Write as _;
use std::sync::{OnceLock, mpsc};
use std::time::Instant;

use camino::Utf8PathBuf;

use crate::error::{Error, Exit, Result};
use crate::model::{CheckedTest, NotChecked, OwnCode, PlannedTest, Steered, count};
use crate::options::{Action, BuildOptions, Options, Raised, Selection};
use crate::progress::Progress;
use crate::report::{Run, Stream, Terminal, View};
use crate::symbolize::Symbolizer;
use crate::sys::{Interrupts, Signal};
use crate::trace::{self, Event};
use crate::{build, discover, judge, plan, report};

/// Finished tests that may wait for their analysis before the next ones are held up.
const WAITING: usize = 16;

/// What the user should know of `sudo`.
const RAISED: &str = "sudo has raised the tracer, and nothing else (--no-sudo: without)";

/// Returns unless all that the options come to is to put another program in this process's place, which needs no
/// privileges.
///
/// # Errors
/// There is no such program, or it is a test binary that is asked for something unknown.
pub fn stand_aside(options: &Options) -> Result<()> {
    match &options.action {
        Action::Exec(exec) => exec::called(exec, &options.report).map(drop),
        _ => Ok(()),
    }
}

/// Does what the options ask for; how it ended.
///
/// # Errors
/// The tool could not do its work; failing and leaking tests are no errors.
pub fn run(options: &Options) -> Result<Exit> {
    // A program that is none of ours must not meet what a run sets up.
    let called = match &options.action {
        Action::Exec(exec) => Some((exec, exec::called(exec, &options.report)?)),
        Action::ShowEnv { build, runner, export } => {
            return nextest::show_env(build, runner, *export);
        }
        Action::Merge(paths) => return merge::merge(paths, options),
        Action::Test(..) | Action::List(..) | Action::Nextest { .. } => None,
    };
    let handed_on: &[Signal] = if called.is_some() { &exec::HANDED_ON } else { &[] };
    let interrupts = Interrupts::new(handed_on)
        .map_err(|source| Error::System { call: "taking over the signals".to_owned(), source })?;
    if let Action::Nextest { build, runner, command } = &options.action {
        return nextest::nextest(build, runner, command, options, &interrupts);
    }
    let files = report::open(&options.report)?;
    let (job, kernel) = match (&options.action, called) {
        (Action::List(build, selection), _) => {
            return list(&prepare(build, selection, options, &interrupts)?, options);
        }
        (Action::Test(build, selection), _) => {
            let kernel = trace::load(&options.trace)?;
            (prepare(build, selection, options, &interrupts)?, kernel)
        }
        (_, Some((exec, called))) => (exec::job(exec, called, &interrupts)?, trace::load(&options.trace)?),
        (_, None) => unreachable!("every other action has its own way"),
    };
    let view = view(job.own.clone(), options);
    let directory = options.report.results.as_deref().filter(|_| !job.tests.is_empty());
    let results = directory.map(|directory| {
        report::results::Results::begin(directory, &job.tests, options.trace.recorder, &view)
    });
    let results = results.transpose()?;
    let mut progress = Progress::new(options.report.color);
    let voice = Voice {
        terminal: Terminal::new(view.clone()),
        stream: Stream::new(options.report.stream, view.clone()),
    };
    let brief = job.brief;
    let again = |tests| Job {
        tests,
        executables: job.executables.clone(),
        not_checked: Vec::new(),
        notes: Vec::new(),
        own: job.own.clone(),
        may_be_empty: false,
        brief: job.brief,
    };
    let (mut run, mut failure) = check(&job, kernel, options, &interrupts, &voice, &mut progress)?;
    if options.trace.retries > 0 && failure.is_none() {
        failure = retry::retry(&mut run, options, &interrupts, &voice, &mut progress, again)?;
    }
    if !brief {
        show(&run, &view, options, &progress);
    } else {
        let details = voice.terminal.details(&run);
        progress.print(&details);
        if let Some(note) = run.steered.note().filter(|_| !details.is_empty()) {
            progress.print(&format!("note: {note}\n"));
        }
    }
    voice.stream.run_finished(&run);
    files.write(&run, &view)?;
    results.map_or(Ok(()), |results| results.write(&run, &view))?;
    // What stopped the run comes last: what had been found before is not lost.
    failure.map_or(Ok(run.exit), Err)
}

fn view(own: OwnCode, options: &Options) -> View {
    View {
        own,
        full_stacks: options.report.full_stacks,
        files: options.report.files,
        count: options.judge.count,
    }
}

/// Shows what is to be said at the end of a run.
fn show(run: &Run, view: &View, options: &Options, progress: &Progress) {
    let terminal = Terminal::new(view.clone());
    let details = terminal.details(run);
    let in_github = options.report.github.is_some();
    progress.print(&if in_github { report::quoted(&details) } else { details });
    progress.print(&terminal.summary(run));
    annotate(run, view, options, progress);
}

/// Tells GitHub, if it is to be told.
fn annotate(run: &Run, view: &View, options: &Options, progress: &Progress) {
    if let Some(github) = &options.report.github {
        progress.print(&report::annotations(run, view, &github.repository));
    }
}

/// What is to be done.
struct Job {
    tests: Vec<PlannedTest>,
    /// What is followed where tests start it, if that is asked for.
    executables: Vec<Utf8PathBuf>,
    not_checked: Vec<NotChecked>,
    notes: Vec<String>,
    own: OwnCode,
    /// It is no failure when there are no tests: cargo starts its runner for every binary.
    may_be_empty: bool,
    /// Nothing is to be said but of tests that have findings, or do not pass.
    brief: bool,
}

/// Builds, and asks the binaries for their tests.
fn prepare(
    build: &BuildOptions,
    selection: &Selection,
    options: &Options,
    interrupts: &Interrupts,
) -> Result<Job> {
    let work = || {
        let mut built = build::build(build)?;
        let binaries = std::mem::take(&mut built.binaries);
        Ok((built, discover::discover(binaries, options.trace.jobs)))
    };
    let done = interrupts.watch(work);
    if interrupts.requested() {
        return Err(Error::Interrupted);
    }
    let (mut built, mut discovered) = done?;
    plan::filterset::retain(&mut discovered, &selection.expressions, &built.metadata)?;
    let plan = plan::plan(discovered, selection, plan::budgets::of_binary)?;
    let notes = std::mem::take(&mut built.notes).into_iter().chain(plan.notes).collect();
    let build::Built { executables, not_checked, own, .. } = built;
    Ok(Job { tests: plan.tests, executables, not_checked, notes, own, may_be_empty: false, brief: false })
}

fn list(job: &Job, options: &Options) -> Result<Exit> {
    if options.report.stream {
        let stream = Stream::new(true, view(job.own.clone(), options));
        job.tests.iter().for_each(|test| stream.test_listed(test));
    } else {
        let mut stdout = std::io::stdout().lock();
        plan::print(&job.tests, &mut stdout)
            .and_then(|()| stdout.flush())
            .map_err(|source| Error::System { call: "writing the list".to_owned(), source })?;
    }
    for note in &job.notes {
        anstream::eprintln!("note: {note}");
    }
    for NotChecked { what, reason } in &job.not_checked {
        anstream::eprintln!("note: {what} not checked: {reason}");
    }
    Ok(if job.tests.is_empty() { Exit::NothingRan } else { Exit::Clean })
}

/// Who is told of tests while they run.
struct Voice {
    terminal: Terminal,
    stream: Stream,
}

/// Traces the tests on a thread of its own; analyses and shows each on this one as it ends. Also what
/// has stopped the run after some tests, if anything has.
fn check(
    job: &Job,
    kernel: trace::Loading,
    options: &Options,
    interrupts: &Interrupts,
    Voice { terminal, stream }: &Voice,
    progress: &mut Progress,
) -> Result<(Run, Option<Error>)> {
    let brief = job.brief;
    let say = |progress: &Progress, text: &str| {
        if !brief {
            progress.print(text);
        }
    };
    let raised = (options.trace.raised == Raised::BySudo).then_some(RAISED);
    for note in raised.into_iter().chain(job.notes.iter().map(String::as_str)) {
        say(progress, &format!("note: {note}\n"));
    }
    let start = Instant::now();
    let binaries: HashSet<_> = job.tests.iter().map(|test| &test.binary.path).collect();
    say(progress, &terminal.checking(job.tests.len(), binaries.len()));
    stream.run_started(&job.tests, binaries.len());
    let mut tests = Vec::new();
    let mut interrupted = false;
    let mut failure = None;
    let steered = OnceLock::new();
    if !job.tests.is_empty() {
        trace::block_signals()?;
        if !brief {
            progress.start(job.tests.len());
        }
        let progress = &*progress;
        let (sender, receiver) = mpsc::sync_channel::<Event>(WAITING);
        let (plan, executables, own, steered) = (&job.tests, &job.executables, &job.own, &steered);
        let symbolizer = Symbolizer::new(job.own.clone());
        let traced = std::thread::scope(|scope| {
            let tracer = scope.spawn(move || {
                trace::run(kernel, plan, executables, &options.trace, interrupts, &mut |event| match event {
                    Event::Ready(how) => {
                        let note = how.note().map_or_else(String::new, |note| format!("note: {note}\n"));
                        say(progress, &note);
                        steered.get_or_init(|| how);
                    }
                    Event::ByUprobe { binary, because } => {
                        say(progress, &report::by_uprobe(own, &binary, &because));
                    }
                    Event::Started { number } => {
                        stream.test_started(&plan[number]);
                        progress.running(plan[number].name.as_str());
                    }
                    // If nobody receives, the analysis has panicked, and that is what shows.
                    event => drop(sender.send(event)),
                })
            });
            let own = &job.own;
            let failed = Cell::new(0);
            let finished = |test: &CheckedTest| {
                say(progress, &terminal.finished(test));
                stream.test_finished(test);
                failed.set(failed.get() + usize::from(judge::is_bad(test)));
                if options.trace.max_fail.is_some_and(|limit| failed.get() >= limit) {
                    interrupts.start_no_more();
                }
            };
            let weighing = |tests: usize| say(progress, &terminal.weighing(tests));
            tests = analyse::analyse(receiver, symbolizer, own, options, &finished, &weighing, progress);
            tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        progress.finish();
        match traced {
            Ok(was_interrupted) => interrupted = was_interrupted,
            Err(error) if tests.is_empty() => return Err(error),
            Err(error) => failure = Some(error),
        }
    }
    let bad = tests.iter().filter(|test| judge::is_bad(test)).count() as u64;
    let exit = match judge::exit(tests.iter()) {
        _ if failure.is_some() => Exit::Tool,
        exit if interrupted => exit.max(Exit::Incomplete),
        Exit::NothingRan if job.may_be_empty => Exit::Clean,
        exit => exit,
    };
    let recorder = options.trace.recorder;
    let steered: Steered = steered.into_inner().unwrap_or_default();
    let mut not_checked = job.not_checked.clone();
    let left = job.tests.len() - tests.len();
    if interrupts.has_enough() && left > 0 {
        let reason = format!("not run after {} had failed or leaked", count(bad, "test"));
        not_checked.push(NotChecked { what: count(left as u64, "other test"), reason });
    }
    let duration = start.elapsed();
    Ok((Run { tests, not_checked, duration, recorder, steered, interrupted, exit }, failure))
}
