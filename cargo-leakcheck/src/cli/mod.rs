//! The command line: flags, and the environment variables that act like flags, become [`Options`].
//! Nothing below this module reads either. (What files set besides is for `config` to say.)

mod after_help;
mod args;
mod build;
mod choices;
mod given;
mod libtest;
mod other_args;
mod runner;
mod select_args;
mod surroundings;
mod table_args;
mod values;
mod written_args;

use std::ffi::OsString;
use std::num::NonZeroUsize;

use camino::Utf8PathBuf;
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser as _};

use self::args::{BaselineCommand, CargoArgs, Cli, Command, RunArgs, TestArgs};
use self::build::build;
use self::libtest::LibtestArgs;
use self::other_args::{
    DoctorArgs, ExplainArgs, ReportArgs, ReportCommand, RereadArgs, SetupArgs, ShowEnvArgs,
};
use self::select_args::{MessageFormatArg, RunIgnoredArg, SelectArgs};
pub use self::surroundings::Surroundings;
use self::surroundings::{color, github, has_unicode};
use crate::config::apply;
use crate::error::{Error, Result};
use crate::options::{
    AcceptOptions, Action, BuildOptions, ConfigOptions, DoctorOptions, Ignored, JudgeOptions, Options,
    Ratchet, ReportOptions, Selection, SetupAction, SetupOptions, TraceOptions,
};
use crate::plan::filterset::needs_dependencies;

/// The commands that can be taken for a test's name.
const COMMANDS: [&str; 11] = [
    "baseline",
    "doctor",
    "explain",
    "import",
    "list",
    "exec",
    "nextest",
    "setup",
    "show-config",
    "show-env",
    "report",
];

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Do something.
    Run(Box<Options>),
    /// Examine the machine.
    Examine(Box<DoctorOptions>),
    /// Set the tool up for this user.
    Setup(SetupOptions),
    /// Print suppressions of these files as rules.
    Import(Vec<Utf8PathBuf>),
    /// Print this text (`--help`, `--version`) and end with success. It holds ANSI styles, which are to
    /// be removed where they are not wanted.
    Print(String),
}

/// Reads the arguments, the program's own name first. Both `cargo-leakcheck leakcheck …`, as cargo calls
/// its subcommands, and `cargo-leakcheck …` are understood.
///
/// # Errors
/// [`Error::Usage`], with a text for the user, for anything that makes no sense.
pub fn parse(arguments: impl IntoIterator<Item = OsString>, surroundings: Surroundings) -> Result<Request> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|first| first == "leakcheck") {
        arguments.remove(1);
    }
    let parsed = Cli::command().try_get_matches_from(arguments).and_then(|matches| {
        let runner = matches.subcommand().map(|(_, given)| given.clone());
        Ok((Cli::from_arg_matches(&matches)?, runner))
    });
    match parsed {
        Ok((cli, given)) => resolve(cli, given.as_ref(), surroundings),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Request::Print(error.render().ansi().to_string()))
        }
        Err(error) => {
            let text = error.render().to_string();
            Err(Error::Usage(text.trim_start_matches("error: ").trim_end().to_owned()))
        }
    }
}

fn resolve(cli: Cli, given: Option<&ArgMatches>, surroundings: Surroundings) -> Result<Request> {
    let options = match cli.command {
        None => {
            // Behind other arguments, clap takes the name of a command for that of a test.
            if let Some(word) = cli.test.select.filters.iter().find(|word| COMMANDS.contains(&word.as_str()))
            {
                return Err(Error::Usage(format!(
                    "the command `{word}` comes first: `cargo leakcheck {word} …`; for tests of that name use `-- {word}`"
                )));
            }
            test(cli.test, surroundings, Action::Test)?
        }
        Some(Command::Baseline(command)) => {
            let (how, args) = match command {
                BaselineCommand::Write(args) => (Ratchet::Write, args),
                BaselineCommand::Update(args) => (Ratchet::Update, args),
            };
            if args.run.no_baseline {
                return Err(Error::Usage("--no-baseline leaves nothing to write".to_owned()));
            }
            let mut options = test(*args, surroundings, Action::Test)?;
            options.accept.ratchet = Some(how);
            options
        }
        Some(Command::Doctor(doctor)) => {
            return Ok(Request::Examine(Box::new(examine(doctor, surroundings))));
        }
        Some(Command::Setup(SetupArgs { remove, check })) => {
            let action = match (remove, check) {
                (true, _) => SetupAction::Remove,
                (_, true) => SetupAction::Check,
                _ => SetupAction::Install,
            };
            return Ok(Request::Setup(SetupOptions { action, executable: surroundings.executable }));
        }
        Some(Command::Import(import)) => return Ok(Request::Import(import.files)),
        Some(Command::Nextest(nextest)) => {
            let cargo = runner::cargo_args(&nextest.command);
            let start = start(cargo.place.manifest_path.as_ref(), &surroundings);
            let config = given::config(&nextest.run, jobs(&nextest.run), Some(start), &surroundings);
            let runner = given.map(|given| runner::options(given, &surroundings)).unwrap_or_default();
            let shared = run(&nextest.run, config, &surroundings);
            let build = build(cargo, None, surroundings);
            shared.with(Action::Nextest { build, runner, command: nextest.command }, false)
        }
        Some(Command::ShowEnv(show)) => {
            let ShowEnvArgs { place, export_prefix: export, run: args } = show;
            let shared = run(&args, given::config(&args, None, None, &surroundings), &surroundings);
            let runner = given.map(|given| runner::options(given, &surroundings)).unwrap_or_default();
            let cargo = CargoArgs { place, ..CargoArgs::default() };
            let build = build(cargo, None, surroundings);
            shared.with(Action::ShowEnv { build, runner, export }, false)
        }
        Some(Command::Explain(ExplainArgs { report, test, full_stacks, color })) => {
            let usual = RunArgs { color, ..usual() };
            let mut shared = run(&usual, ConfigOptions::default(), &surroundings);
            shared.report.full_stacks = full_stacks;
            shared.with(Action::Explain { report, test }, false)
        }
        Some(Command::Report(report)) => {
            let ReportArgs { command, again } = *report;
            let RereadArgs { reports, run: args } = match command {
                Some(ReportCommand::Merge(merge)) => merge,
                None => again,
            };
            let config = given::config(&args, None, None, &surroundings);
            run(&args, config, &surroundings).with(Action::Report(reports), false)
        }
        Some(Command::List(list)) => Options { sudo: false, ..test(*list, surroundings, Action::List)? },
        Some(Command::ShowConfig(show)) => {
            if show.select.message_format == MessageFormatArg::Json {
                return Err(Error::Usage("show-config has no form for machines".to_owned()));
            }
            let SelectArgs { filters, expressions, partition, run_ignored, libtest, .. } = &show.select;
            let selects = !(filters.is_empty() && expressions.is_empty() && libtest.is_empty());
            let selects = selects || partition.is_some() || run_ignored.is_some();
            let action = |build, selection| Action::ShowConfig(build, selects.then_some(selection));
            Options { sudo: false, ..test(*show, surroundings, action)? }
        }
        Some(Command::Exec(exec)) => runner::exec(*exec, surroundings)?,
    };
    Ok(Request::Run(Box::new(options)))
}

fn test(
    args: TestArgs,
    surroundings: Surroundings,
    action: impl FnOnce(BuildOptions, Selection) -> Action,
) -> Result<Options> {
    let stream = args.select.message_format == MessageFormatArg::Json;
    let (selection, threads) = selection(args.select)?;
    if let (Some(jobs), Some(threads)) = (args.run.jobs, threads)
        && jobs != threads
    {
        return Err(Error::Usage(format!("--jobs {jobs} contradicts `-- --test-threads {threads}`")));
    }
    let jobs = match threads {
        _ if selection.no_capture => Some((NonZeroUsize::MIN, "no-capture")),
        Some(threads) => Some((threads, "test-threads")),
        None => jobs(&args.run),
    };
    let start = start(args.cargo.place.manifest_path.as_ref(), &surroundings);
    let config = given::config(&args.run, jobs, Some(start), &surroundings);
    let mut shared = run(&args.run, config, &surroundings);
    let taken = shared.report.on_stdout().or(selection.no_capture.then_some("--no-capture"));
    if let Some(taken) = taken.filter(|_| stream) {
        return Err(Error::Usage(format!("--message-format json and {taken} both write to standard output")));
    }
    shared.report.stream = stream;
    let mut build = build(args.cargo, args.run.color, surroundings);
    build.with_dependencies = needs_dependencies(selection.expressions.iter().map(String::as_str));
    Ok(shared.with(action(build, selection), !args.run.no_sudo))
}

fn jobs(run: &RunArgs) -> Option<(NonZeroUsize, &'static str)> {
    run.jobs.map(|jobs| (jobs, "jobs"))
}

/// Where cargo looks for the workspace.
fn start(manifest: Option<&OsString>, surroundings: &Surroundings) -> Utf8PathBuf {
    let directory = given::directory(surroundings);
    let manifest = manifest.and_then(|path| path.to_str());
    manifest.map_or_else(|| directory.to_owned(), |path| directory.join(path))
}

/// As a run without options would trace.
fn examine(doctor: DoctorArgs, surroundings: Surroundings) -> DoctorOptions {
    let usual = RunArgs { color: doctor.color, ..usual() };
    let Shared { trace, report, .. } = run(&usual, ConfigOptions::default(), &surroundings);
    let program = |variable: &str, usual: &str| {
        surroundings.environment.get(std::ffi::OsStr::new(variable)).cloned().unwrap_or_else(|| usual.into())
    };
    let (cargo, rustc) = (program("CARGO", "cargo"), program("RUSTC", "rustc"));
    let Surroundings { environment, directory, executable, .. } = surroundings;
    let (json, sudo, color) = (doctor.json, !doctor.no_sudo, report.color);
    DoctorOptions { json, cargo, rustc, executable, directory, environment, trace, color, sudo }
}

fn usual() -> RunArgs {
    Cli::try_parse_from(["cargo-leakcheck"]).expect("no option is needed").test.run
}

fn selection(select: SelectArgs) -> Result<(Selection, Option<NonZeroUsize>)> {
    let libtest = LibtestArgs::read(&select.libtest)?;
    let threads = libtest.test_threads;
    let mut selection = libtest.selection(select.filters);
    selection.expressions = select.expressions;
    selection.partition = select.partition;
    selection.no_capture |= select.no_capture;
    if let Some(ignored) = select.run_ignored {
        if selection.ignored != Ignored::Skip {
            return Err(Error::Usage("--run-ignored contradicts what stands behind `--`".to_owned()));
        }
        selection.ignored = match ignored {
            RunIgnoredArg::Default => Ignored::Skip,
            RunIgnoredArg::Only => Ignored::Only,
            RunIgnoredArg::All => Ignored::Include,
        };
    }
    Ok((selection, threads))
}

/// What all actions have.
struct Shared {
    trace: TraceOptions,
    judge: JudgeOptions,
    accept: AcceptOptions,
    report: ReportOptions,
    config: ConfigOptions,
}

impl Shared {
    fn with(self, action: Action, sudo: bool) -> Options {
        let Self { trace, judge, accept, report, config } = self;
        Options { action, sudo, trace, judge, accept, report, config }
    }
}

/// The defaults, with what the command line sets.
fn run(run: &RunArgs, config: ConfigOptions, surroundings: &Surroundings) -> Shared {
    let mut trace = TraceOptions {
        jobs: surroundings.cpus,
        probe_at_entry: run.probe_at_entry,
        spare_only: run.spare_only,
        ..TraceOptions::default()
    };
    let mut judge = JudgeOptions::default();
    let mut report = ReportOptions {
        actions: github(surroundings),
        color: color(run.color, surroundings),
        unicode: has_unicode(surroundings),
        timings: run.timings,
        ..run.written.options()
    };
    apply::trace(&config.given, &mut trace);
    apply::judge(&config.given, &mut judge);
    apply::report(&config.given, &mut report);
    let baseline = run.baseline.as_ref().map(|path| given::directory(surroundings).join(path));
    let mut accept = AcceptOptions {
        must_be: baseline.is_some(),
        baseline,
        no_baseline: run.no_baseline,
        ratchet: None,
        suppressions: run.suppressions.iter().map(|path| given::directory(surroundings).join(path)).collect(),
        write_rules: run.write_rules,
        deny_unused_rules: false,
        today: surroundings.today,
    };
    apply::accept(&config.given, &mut accept);
    Shared { trace, judge, accept, report, config }
}

/// The variables are those that GitHub documents as its default ones.
#[cfg(test)]
mod tests;
