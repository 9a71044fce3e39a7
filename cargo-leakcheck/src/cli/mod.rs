//! The command line: flags, and the environment variables that act like flags, become [`Options`].
//! Nothing below this module reads either.

mod args;
mod given;
mod libtest;
mod values;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use camino::Utf8Path;
use clap::Parser as _;
use clap::error::ErrorKind;

use self::args::{CargoArgs, Cli, ColorArg, Command, CountArg, RecorderArg, RunArgs, SelectArgs, TestArgs};
use self::libtest::LibtestArgs;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::options::{
    Action, BuildOptions, Color, ConfigOptions, Count, Environment, ExecOptions, Ignored, JudgeOptions,
    Options, Recorder, ReportOptions, Selection, TraceOptions,
};

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Do something.
    Run(Box<Options>),
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
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(Request::Run(Box::new(resolve(cli, surroundings)?))),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Request::Print(error.render().ansi().to_string()))
        }
        Err(error) => {
            let text = error.render().to_string();
            Err(Error::Usage(text.trim_start_matches("error: ").trim_end().to_owned()))
        }
    }
}

fn resolve(cli: Cli, surroundings: Surroundings) -> Result<Options> {
    match cli.command {
        None => {
            // Behind other arguments, clap takes the name of a command for that of a test.
            if let Some(word) = cli
                .test
                .select
                .filters
                .iter()
                .find(|word| ["list", "exec", "show-config"].contains(&word.as_str()))
            {
                return Err(Error::Usage(format!(
                    "the command `{word}` comes first: `cargo leakcheck {word} …`; for tests of that name use `-- {word}`"
                )));
            }
            test(cli.test, surroundings, Action::Test)
        }
        Some(Command::List(list)) => test(*list, surroundings, Action::List),
        Some(Command::ShowConfig(show)) => {
            let selects = |select: &SelectArgs| {
                !(select.filters.is_empty() && select.expressions.is_empty() && select.libtest.is_empty())
            };
            let selects = selects(&show.select);
            test(*show, surroundings, move |build, selection| {
                Action::ShowConfig(build, selects.then_some(selection))
            })
        }
        Some(Command::Exec(exec)) => {
            let mut config = config(&exec.run, None, &surroundings);
            // A variable that is meant for the workspace's tests.
            if config.file.is_none() {
                config.profile = exec.run.leakcheck_profile.clone();
            }
            let (trace, judge, report) = run(&exec.run, None, &surroundings);
            let Surroundings { environment, directory, .. } = surroundings;
            let exec = ExecOptions { command: exec.command, directory, environment };
            Ok(Options { action: Action::Exec(exec), trace, judge, report, config })
        }
    }
}

fn test(
    args: TestArgs,
    surroundings: Surroundings,
    action: impl FnOnce(BuildOptions, Selection) -> Action,
) -> Result<Options> {
    let (selection, threads) = selection(args.select)?;
    if let (Some(jobs), Some(threads)) = (args.run.jobs, threads)
        && jobs != threads
    {
        return Err(Error::Usage(format!("--jobs {jobs} contradicts `-- --test-threads {threads}`")));
    }
    let config = config(&args.run, threads, &surroundings);
    let (trace, judge, report) = run(&args.run, threads, &surroundings);
    let build = build(args.cargo, args.run.color, surroundings);
    Ok(Options { action: action(build, selection), trace, judge, report, config })
}

fn config(run: &RunArgs, threads: Option<NonZeroUsize>, surroundings: &Surroundings) -> ConfigOptions {
    let directory = Utf8Path::from_path(&surroundings.directory).unwrap_or("".into());
    let by_variable = surroundings.variable("LEAKCHECK_PROFILE").filter(|name| !name.is_empty());
    ConfigOptions {
        given: given::layer(run, run.jobs.or(threads)),
        file: run.config_file.as_ref().map(|file| directory.join(file)),
        profile: run.leakcheck_profile.clone().or(by_variable.map(str::to_owned)),
    }
}

fn selection(select: SelectArgs) -> Result<(Selection, Option<NonZeroUsize>)> {
    let libtest = LibtestArgs::read(&select.libtest)?;
    let ignored = match (libtest.ignored, libtest.include_ignored) {
        (true, _) => Ignored::Only,
        (false, true) => Ignored::Include,
        (false, false) => Ignored::Skip,
    };
    let expressions = select
        .expressions
        .iter()
        .map(|source| Filter::parse(source).map_err(|error| Error::Usage(format!("--filterset: {error}"))));
    let expressions = expressions.collect::<Result<_>>()?;
    let filters = select.filters.into_iter().chain(libtest.filters).collect();
    let (skip, exact) = (libtest.skip, libtest.exact);
    Ok((Selection { filters, skip, exact, ignored, expressions }, libtest.test_threads))
}

fn run(
    run: &RunArgs,
    threads: Option<NonZeroUsize>,
    surroundings: &Surroundings,
) -> (TraceOptions, JudgeOptions, ReportOptions) {
    let trace = TraceOptions {
        recorder: match run.recorder {
            None | Some(RecorderArg::Auto) => Recorder::Auto,
            Some(RecorderArg::Ledger) => Recorder::Ledger,
            Some(RecorderArg::Uprobe) => Recorder::Uprobe,
        },
        jobs: run.jobs.or(threads).map_or(surroundings.cpus, NonZeroUsize::get),
        timeout: run.timeout,
        follow_children: run.follow_children,
        free_stacks: run.free_stacks,
        descriptors: !run.no_fds,
        ipc: !run.no_ipc,
        files: !run.no_files,
        children: !run.no_children,
        max_blocks: run.max_blocks.unwrap_or(2_097_152),
        max_stacks: run.max_stacks.unwrap_or(65_536),
        max_threads: run.max_threads.unwrap_or(16_384),
        max_bad_frees: run.max_bad_frees.unwrap_or(16_384),
        max_files: run.max_files.unwrap_or(16_384),
        probe_at_entry: run.probe_at_entry,
    };
    let judge = JudgeOptions {
        count: match run.count {
            None | Some(CountArg::Lost) => Count::Lost,
            Some(CountArg::Outstanding) => Count::Outstanding,
        },
        count_failed: run.count_failed,
        count_should_panic: run.count_should_panic,
        count_bad_frees: run.deny_bad_frees,
        fds: run.fds,
        ipc: run.ipc.unwrap_or(0),
        children: run.children,
        threads: run.threads,
    };
    let report = ReportOptions {
        junit: run.junit.clone(),
        json: run.json.clone(),
        full_stacks: run.full_stacks,
        files: run.files,
        color: color(run.color, surroundings),
        timings: run.timings,
    };
    (trace, judge, report)
}

/// The option first, then cargo's variable, then the one that all programs share.
fn color(option: Option<ColorArg>, surroundings: &Surroundings) -> Color {
    match (option, surroundings.variable("CARGO_TERM_COLOR")) {
        (Some(ColorArg::Always), _) | (None, Some("always")) => Color::Always,
        (Some(ColorArg::Never), _) | (None, Some("never")) => Color::Never,
        (Some(ColorArg::Auto), _) => Color::Auto,
        (None, _) if surroundings.variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => Color::Never,
        (None, _) => Color::Auto,
    }
}

fn build(cargo: CargoArgs, color: Option<ColorArg>, surroundings: Surroundings) -> BuildOptions {
    let mut shared = Vec::new();
    let pair = |flag: &str, value: OsString| [OsString::from(flag), value];
    shared.extend(cargo.manifest_path.map(|path| pair("--manifest-path", path)).into_iter().flatten());
    shared.extend(cargo.config.iter().flat_map(|value| pair("--config", value.into())));
    shared.extend(cargo.unstable.into_iter().flat_map(|value| pair("-Z", value)));
    for (given, flag) in
        [(cargo.locked, "--locked"), (cargo.offline, "--offline"), (cargo.frozen, "--frozen")]
    {
        shared.extend(given.then(|| flag.into()));
    }

    let mut all = shared.clone();
    for (given, flag) in [
        (cargo.workspace, "--workspace"),
        (cargo.lib, "--lib"),
        (cargo.bins, "--bins"),
        (cargo.tests, "--tests"),
        (cargo.examples, "--examples"),
        (cargo.benches, "--benches"),
        (cargo.all_targets, "--all-targets"),
        (cargo.all_features, "--all-features"),
        (cargo.no_default_features, "--no-default-features"),
        (cargo.release, "--release"),
        (cargo.ignore_rust_version, "--ignore-rust-version"),
        (cargo.quiet, "--quiet"),
    ] {
        all.extend(given.then(|| flag.into()));
    }
    for (values, flag) in [
        (cargo.package, "--package"),
        (cargo.exclude, "--exclude"),
        (cargo.bin, "--bin"),
        (cargo.test, "--test"),
        (cargo.example, "--example"),
        (cargo.bench, "--bench"),
        (cargo.features, "--features"),
        (cargo.target.iter().map(OsString::from).collect(), "--target"),
        (cargo.profile.into_iter().collect(), "--profile"),
        (cargo.build_jobs.into_iter().collect(), "--jobs"),
    ] {
        all.extend(values.into_iter().flat_map(|value| pair(flag, value)));
    }
    all.extend((0..cargo.verbose).map(|_| "--verbose".into()));
    let color = color.map(|color| match color {
        ColorArg::Auto => "auto",
        ColorArg::Always => "always",
        ColorArg::Never => "never",
    });
    all.extend(color.into_iter().flat_map(|when| pair("--color", when.into())));

    let Surroundings { environment, directory, executable, .. } = surroundings;
    BuildOptions {
        cargo: environment.get(std::ffi::OsStr::new("CARGO")).cloned().unwrap_or_else(|| "cargo".into()),
        executable,
        directory,
        environment,
        cargo_args: all,
        metadata_args: shared,
        target_dir: cargo.target_dir,
        targets: cargo.target,
        configs: cargo.config,
    }
}

#[cfg(test)]
mod tests;
