//! The command line: flags, and the environment variables that act like flags, become [`Options`].
//! Nothing below this module reads either.

mod args;
mod build;
mod libtest;
mod other_args;
mod runner;
mod select_args;
mod values;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser as _};

use self::args::{CargoArgs, Cli, Command, CountArg, RecorderArg, RunArgs, TestArgs, WhenArg};
use self::build::build;
use self::libtest::LibtestArgs;
use self::other_args::{DoctorArgs, ReportCommand, ShowEnvArgs};
use self::select_args::{MessageFormatArg, RunIgnoredArg, SelectArgs};
use crate::error::{Error, Result};
use crate::options::{
    Action, BuildOptions, Color, Count, DoctorOptions, Environment, Github, Ignored, JudgeOptions,
    KernelBytes, Options, Raised, Recorder, ReportOptions, Selection, TraceOptions,
};
use crate::plan::filterset::needs_dependencies;

/// The commands that can be taken for a test's name.
const COMMANDS: [&str; 6] = ["doctor", "list", "exec", "nextest", "show-env", "report"];

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Do something.
    Run(Box<Options>),
    /// Examine the machine.
    Examine(Box<DoctorOptions>),
    /// Print this text (`--help`, `--version`) and end with success. It holds ANSI styles, which are to
    /// be removed where they are not wanted.
    Print(String),
}

/// What the process was started with, besides its arguments.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Its environment.
    pub environment: Environment,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its own executable.
    pub executable: PathBuf,
    /// How many CPUs it may use.
    pub cpus: usize,
}

impl Surroundings {
    /// Those of this process.
    pub fn current() -> Result<Self> {
        let system = |call: &str| {
            let call = call.to_owned();
            move |source| Error::System { call, source }
        };
        Ok(Self {
            environment: std::env::vars_os().collect(),
            directory: std::env::current_dir().map_err(system("reading the working directory"))?,
            executable: std::env::current_exe().map_err(system("finding the path of this program"))?,
            cpus: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(std::ffi::OsStr::new(name))?.to_str()
    }
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
        Some(Command::Doctor(doctor)) => {
            return Ok(Request::Examine(Box::new(examine(doctor, surroundings))));
        }
        Some(Command::Nextest(nextest)) => {
            let (trace, judge, report) = run(&nextest.run, None, &surroundings);
            let cargo = runner::cargo_args(&nextest.command);
            let build = build(cargo, None, surroundings);
            let runner = given.map(runner::options).unwrap_or_default();
            let action = Action::Nextest { build, runner, command: nextest.command };
            Options { action, sudo: false, trace, judge, report }
        }
        Some(Command::ShowEnv(show)) => {
            let (trace, judge, report) = run(&show.run, None, &surroundings);
            let ShowEnvArgs { place, export_prefix: export, .. } = show;
            let cargo = CargoArgs { place, ..CargoArgs::default() };
            let build = build(cargo, None, surroundings);
            let runner = given.map(runner::options).unwrap_or_default();
            let action = Action::ShowEnv { build, runner, export };
            Options { action, sudo: false, trace, judge, report }
        }
        Some(Command::Report(ReportCommand::Merge(merge))) => {
            let (trace, judge, report) = run(&merge.run, None, &surroundings);
            Options { action: Action::Merge(merge.reports), sudo: false, trace, judge, report }
        }
        Some(Command::List(list)) => Options { sudo: false, ..test(*list, surroundings, Action::List)? },
        Some(Command::Exec(exec)) => runner::exec(*exec, surroundings)?,
    };
    Ok(Request::Run(Box::new(options)))
}

fn test(
    args: TestArgs,
    surroundings: Surroundings,
    action: fn(BuildOptions, Selection) -> Action,
) -> Result<Options> {
    let stream = args.select.message_format == MessageFormatArg::Json;
    let (selection, threads) = selection(args.select)?;
    let taken = match args.run.json.as_deref() {
        Some(path) if path == "-" => Some("--json -"),
        _ => selection.no_capture.then_some("--no-capture"),
    };
    if let Some(taken) = taken.filter(|_| stream) {
        return Err(Error::Usage(format!("--message-format json and {taken} both write to standard output")));
    }
    if let (Some(jobs), Some(threads)) = (args.run.jobs, threads)
        && jobs != threads
    {
        return Err(Error::Usage(format!("--jobs {jobs} contradicts `-- --test-threads {threads}`")));
    }
    let (mut trace, judge, mut report) = run(&args.run, threads, &surroundings);
    report.stream = stream;
    if selection.no_capture {
        trace.jobs = 1;
    }
    let sudo = !args.run.no_sudo;
    let mut build = build(args.cargo, args.run.color, surroundings);
    build.with_dependencies = needs_dependencies(&selection.expressions);
    Ok(Options { action: action(build, selection), sudo, trace, judge, report })
}

/// As a run without options would trace.
fn examine(doctor: DoctorArgs, surroundings: Surroundings) -> DoctorOptions {
    let usual = Cli::try_parse_from(["cargo-leakcheck"]).expect("no option is needed").test.run;
    let usual = RunArgs { color: doctor.color, ..usual };
    let (trace, _, report) = run(&usual, None, &surroundings);
    let program = |variable: &str, usual: &str| {
        surroundings.environment.get(std::ffi::OsStr::new(variable)).cloned().unwrap_or_else(|| usual.into())
    };
    let (cargo, rustc) = (program("CARGO", "cargo"), program("RUSTC", "rustc"));
    let Surroundings { environment, directory, executable, .. } = surroundings;
    let (json, sudo, color) = (doctor.json, !doctor.no_sudo, report.color);
    DoctorOptions { json, cargo, rustc, executable, directory, environment, trace, color, sudo }
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

fn run(
    run: &RunArgs,
    threads: Option<NonZeroUsize>,
    surroundings: &Surroundings,
) -> (TraceOptions, JudgeOptions, ReportOptions) {
    let trace = TraceOptions {
        require_ebpf: run.require_ebpf,
        raised: Raised::No,
        recorder: match run.recorder {
            RecorderArg::Auto => Recorder::Auto,
            RecorderArg::Ledger => Recorder::Ledger,
            RecorderArg::Uprobe => Recorder::Uprobe,
        },
        jobs: run.jobs.or(threads).map_or(surroundings.cpus, NonZeroUsize::get),
        timeout: run.timeout,
        retries: run.retries,
        max_fail: run.max_fail.map(NonZeroUsize::get).or(run.fail_fast.then_some(1)),
        follow_children: run.follow_children,
        free_stacks: run.free_stacks,
        descriptors: !run.no_fds,
        kernel_bytes: match run.kernel_bytes {
            _ if run.no_kernel_bytes || run.no_fds => KernelBytes::Off,
            None if !run.kernel_report => KernelBytes::IfLeft,
            _ => KernelBytes::Always,
        },
        kernel_report: run.kernel_report,
        ipc: !run.no_ipc,
        files: !run.no_files,
        children: !run.no_children,
        mappings: !run.no_mappings,
        max_blocks: run.max_blocks,
        max_stacks: run.max_stacks,
        max_threads: run.max_threads,
        max_bad_frees: run.max_bad_frees,
        max_files: run.max_files,
        probe_at_entry: run.probe_at_entry,
    };
    let judge = JudgeOptions {
        count: match run.count {
            CountArg::Lost => Count::Lost,
            CountArg::Outstanding => Count::Outstanding,
        },
        count_failed: run.count_failed,
        count_should_panic: run.count_should_panic,
        count_bad_frees: run.deny_bad_frees,
        fds: run.fds,
        kernel_bytes: run.kernel_bytes,
        ipc: run.ipc,
        children: run.children,
        threads: run.threads,
        mapped_bytes: run.mapped_bytes,
    };
    let report = ReportOptions {
        junit: run.junit.clone(),
        json: run.json.clone(),
        results: None,
        stream: false,
        github: github(run.github, surroundings),
        full_stacks: run.full_stacks,
        files: run.files,
        color: color(run.color, surroundings),
        timings: run.timings,
    };
    (trace, judge, report)
}

/// The variables are those that GitHub documents as its default ones.
fn github(when: WhenArg, surroundings: &Surroundings) -> Option<Github> {
    let there = surroundings.variable("GITHUB_ACTIONS") == Some("true");
    if when == WhenArg::Never || when == WhenArg::Auto && !there {
        return None;
    }
    let path = |variable| surroundings.variable(variable).filter(|path| !path.is_empty());
    let here = surroundings.directory.to_str().unwrap_or_default();
    let repository = path("GITHUB_WORKSPACE").unwrap_or(here).into();
    Some(Github { repository, summary: path("GITHUB_STEP_SUMMARY").map(Into::into) })
}

/// The option first, then cargo's variable, then the one that all programs share.
fn color(option: Option<WhenArg>, surroundings: &Surroundings) -> Color {
    match (option, surroundings.variable("CARGO_TERM_COLOR")) {
        (Some(WhenArg::Always), _) | (None, Some("always")) => Color::Always,
        (Some(WhenArg::Never), _) | (None, Some("never")) => Color::Never,
        (Some(WhenArg::Auto), _) => Color::Auto,
        (None, _) if surroundings.variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => Color::Never,
        (None, _) => Color::Auto,
    }
}

#[cfg(test)]
mod tests;
