//! The pipeline: one stage after the other.

mod again;
mod analyse;
mod baseline;
mod begin;
mod exec;
mod explain;
mod job;
mod nextest;
mod ratchet;
mod retry;
mod rules;
mod show;
mod untested;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{OnceLock, mpsc};
use std::time::Instant;

use crate::accept::Accepting;
use crate::error::{Error, Exit, Result};
use crate::model::{CheckedTest, NotChecked, OwnCode, Steered, count};
use crate::options::{Action, Options, Raised, TraceOptions};
use crate::progress::Progress;
use crate::report::{Run, Stream, Terminal, View};
use crate::symbolize::Symbolizer;
use crate::sys::{Interrupts, Signal};
use crate::trace::{self, Event};
use crate::{judge, report};

pub use begin::Begun;
use job::{Job, prepare, watched};
pub use rules::import;
use untested::untested;

/// Finished tests that may wait for their analysis before the next ones are held up.
const WAITING: usize = 16;

/// What the user should know of where privileges come from.
fn raised(raised: &Raised) -> Option<&'static str> {
    match raised {
        Raised::BySudo => Some("sudo has raised the tracer, and nothing else (--no-sudo: without)"),
        Raised::BySetup => {
            Some("`cargo leakcheck setup` has raised the tracer, and nothing else (--no-sudo: without)")
        }
        Raised::No | Raised::Refused(_) => None,
    }
}

/// Does what the options ask for; how it ended.
///
/// # Errors
/// The tool could not do its work; failing and leaking tests are no errors.
pub fn run(begun: Begun) -> Result<Exit> {
    let Begun { options, config, called } = begun;
    let options = &options;
    match &options.action {
        Action::ShowEnv { build, runner, export } => return nextest::show_env(build, runner, *export),
        Action::Report(paths) => return again::again(paths, options),
        Action::Explain { report, test } => return explain::explain(report, test, options),
        _ => {}
    }
    let handed_on: &[Signal] = if called.is_some() { &exec::HANDED_ON } else { &[] };
    let interrupts = Interrupts::new(handed_on)
        .map_err(|source| Error::System { call: "taking over the signals".to_owned(), source })?;
    if let Action::Nextest { build, runner, command } = &options.action {
        return nextest::nextest((build, &config), runner, command, options, &interrupts);
    }
    match &options.action {
        Action::ShowConfig(build, None) => {
            watched(&interrupts, || job::find(build, &[], &config, options))?;
            return show::config(&config);
        }
        Action::ShowConfig(build, Some(selection)) => {
            let (job, filters) = prepare(build, selection, &config, options, &interrupts)?;
            return show::tests(&job, &config, &filters);
        }
        Action::List(build, selection) => {
            let (mut job, filters) = prepare(build, selection, &config, options, &interrupts)?;
            filters.settle(&config, &mut job.tests, options);
            return show::list(&job, options);
        }
        _ => {}
    }
    // Only now: reports of another run must not be emptied for nothing.
    let files = report::open(&options.report)?;
    // What is in place for all tests, whatever the configuration says of some.
    let trace = &config.widest(&options.trace);
    let begin = || {
        let kernel = trace::load(trace)?;
        let (mut job, filters) = match (&options.action, called) {
            (Action::Test(build, selection), _) => prepare(build, selection, &config, options, &interrupts)?,
            (Action::Exec(exec), Some(called)) => exec::job(exec, called, &config, &interrupts)?,
            _ => unreachable!("every other action has its own way"),
        };
        filters.settle(&config, &mut job.tests, options);
        let (rules, notes) = rules::all(&config, &job.tests, options)?;
        job.notes.extend(notes);
        let accepting = Accepting::new(&options.accept, rules, job.own.clone())?;
        let view = view(job.own.clone(), options);
        let directory = options.report.results.as_deref().filter(|_| !job.tests.is_empty());
        let results = directory.map(|directory| {
            let recorder = options.trace.recorder;
            report::results::Results::begin(directory, &job.tests, &job.targets, recorder, &view)
        });
        Ok((kernel, job, accepting, view, results.transpose()?))
    };
    let (kernel, job, accepting, view, results) = match begin() {
        Ok(begun) => begun,
        Err(error) => return Err(untested(error, files, options)),
    };
    let mut progress = Progress::new(options.report.color);
    let voice = Voice {
        accepting,
        terminal: Terminal::new(view.clone()),
        stream: Stream::new(options.report.stream, view.clone()),
    };
    let brief = job.brief;
    let checked = check(&job, kernel, trace, options, &interrupts, &voice, &mut progress);
    let (mut run, mut failure) = match checked {
        Ok(checked) => checked,
        Err(error) => return Err(untested(error, files, options)),
    };
    if trace.retries > 0 && failure.is_none() {
        failure = retry::retry(&mut run, &job, trace, options, &interrupts, &voice, &mut progress);
    }
    let written = match failure {
        None => baseline::ratchet(&mut run, &job, options),
        Some(_) => Ok(String::new()),
    };
    let unused = rules::unused(&run, voice.accepting.rules(), job.is_whole, options);
    if !brief {
        show(&run, &view, options, &progress);
        for note in unused.iter().flatten() {
            progress.print(&format!("note: {note}\n"));
        }
        progress.print(written.as_deref().unwrap_or_default());
    } else {
        let details = voice.terminal.details(&run);
        progress.print(&details);
        if let Some(note) = run.steered.note().filter(|_| !details.is_empty()) {
            progress.print(&format!("note: {note}\n"));
        }
    }
    let said = voice.stream.run_finished(&run);
    files.write(&run, &view)?;
    results.map_or(Ok(()), |results| results.write(&run, &view))?;
    said?;
    written?;
    unused?;
    if options.accept.write_rules {
        rules::print(&rules::by_which_it_passes(&run, &voice.accepting, &view.own, config.profile()))?;
    }
    // What stopped the run comes last: what had been found before is not lost.
    failure.map_or(Ok(run.exit), Err)
}

fn view(own: OwnCode, options: &Options) -> View {
    View {
        own,
        full_stacks: options.report.full_stacks,
        files: options.report.files,
        count: options.judge.count,
        unicode: options.report.unicode,
        explain: false,
    }
}

/// Shows what is to be said at the end of a run.
fn show(run: &Run, view: &View, options: &Options, progress: &Progress) {
    let terminal = Terminal::new(view.clone());
    let details = terminal.details(run);
    let in_github = options.report.tells_github().is_some();
    progress.print(&if in_github { report::quoted(&details) } else { details });
    progress.print(&terminal.summary(run));
    annotate(run, view, options, progress);
}

/// Tells GitHub, if it is to be told.
fn annotate(run: &Run, view: &View, options: &Options, progress: &Progress) {
    if let Some(github) = options.report.tells_github() {
        progress.print(&report::annotations(run, view, &github.repository));
    }
}

/// How tests are looked at as they end, and who is told of them while they run.
struct Voice {
    accepting: Accepting,
    terminal: Terminal,
    stream: Stream,
}

/// Traces the tests on a thread of its own; analyses and shows each on this one as it ends. Also what
/// has stopped the run after some tests, if anything has.
fn check(
    job: &Job,
    kernel: trace::Loading,
    trace: &TraceOptions,
    options: &Options,
    interrupts: &Interrupts,
    Voice { accepting, terminal, stream }: &Voice,
    progress: &mut Progress,
) -> Result<(Run, Option<Error>)> {
    let brief = job.brief;
    let say = |progress: &Progress, text: &str| {
        if !brief {
            progress.print(text);
        }
    };
    let raised = raised(&options.trace.raised);
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
                let mut told = HashSet::new();
                trace::run(kernel, plan, executables, trace, interrupts, &mut |event| match event {
                    Event::Ready(how) => {
                        let note = how.note().map_or_else(String::new, |note| format!("note: {note}\n"));
                        say(progress, &note);
                        steered.get_or_init(|| how);
                    }
                    Event::ByUprobe { binary, because } => {
                        say(progress, &report::by_uprobe(own, &binary, &because));
                    }
                    Event::NotForked { binary, because } => {
                        say(progress, &report::not_forked(own, &binary, &because));
                    }
                    // One that could not be begun in one way is in another.
                    Event::Started { number } => {
                        if told.insert(number) {
                            stream.test_started(&plan[number]);
                            progress.running(plan[number].name.as_str());
                        }
                    }
                    Event::Followed(time) if options.report.timings => {
                        let (time, tests) = (time.as_micros(), count(plan.len() as u64, "test"));
                        say(progress, &format!("tracer: {time} us on a processor for {tests}\n"));
                    }
                    // If nobody receives, the analysis has panicked, and that is what shows.
                    event => drop(sender.send(event)),
                })
            });
            let how = (&job.own, accepting);
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
            tests = analyse::analyse(receiver, symbolizer, how, options, &finished, &weighing, progress);
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
    let exit = exit(job, &tests, interrupted, failure.is_some());
    let recorder = options.trace.recorder;
    let steered: Steered = steered.into_inner().unwrap_or_default();
    let mut not_checked = job.not_checked.clone();
    let left = job.tests.len() - tests.len();
    if interrupts.has_enough() && left > 0 {
        let reason = format!("not run after {} had failed or leaked", count(bad, "test"));
        not_checked.push(NotChecked { what: count(left as u64, "other test"), reason });
    }
    let (targets, duration) = (job.targets.clone(), start.elapsed());
    Ok((Run { tests, targets, not_checked, duration, recorder, steered, interrupted, exit }, failure))
}

/// How a run ends.
fn exit(job: &Job, tests: &[CheckedTest], interrupted: bool, has_failed: bool) -> Exit {
    match judge::exit(tests.iter()) {
        _ if has_failed => Exit::Tool,
        exit if interrupted => exit.max(Exit::Incomplete),
        Exit::NothingRan if job.may_be_empty => Exit::Clean,
        exit => exit,
    }
}
