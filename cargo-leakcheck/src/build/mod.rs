//! Builds the test binaries with cargo and finds out how cargo would run them.

mod apart;
pub mod capture;
mod command;
mod config;
mod flags;
pub mod runner;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::process::Stdio;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_config2::Config;
use cargo_metadata::{Artifact, Message, MetadataCommand, TargetKind as CargoKind};

use self::capture::{Capture, Captures};
use self::command::CargoCommand;
use crate::error::{Error, Result};
use crate::model::{NotChecked, OwnCode, TargetKind, TestBinary};
use crate::options::{BuildOptions, Environment};

/// What was built.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The executables that `cargo test` would run, in its order.
    pub binaries: Vec<TestBinary>,
    /// Everything that was built and can be executed.
    pub executables: Vec<Utf8PathBuf>,
    /// How it would test the examples in documentation, a library each.
    pub doctests: Vec<Doctests>,
    /// What else it would test.
    pub not_checked: Vec<NotChecked>,
    /// What the user should know about differences from `cargo test`.
    pub notes: Vec<String>,
    /// Where the workspace and its packages are.
    pub own: OwnCode,
}

struct Directories {
    /// The arguments that make cargo build in directories of our own.
    arguments: Vec<OsString>,
    /// The first of them.
    target: Utf8PathBuf,
    /// Where the sources are.
    own: OwnCode,
    /// What `cargo metadata` says.
    metadata: String,
}

/// How cargo would start rustdoc to test the examples in a library's documentation.
#[derive(Clone, Debug)]
pub struct Doctests {
    /// rustdoc, and how it is to be started.
    pub rustdoc: TestBinary,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where what is known of them may be kept, as long as the library is as it is.
    pub known: Utf8PathBuf,
}

/// What is known of a workspace before anything is built.
pub struct Workspace {
    config: Config,
    /// Flags for rustc that keep functions apart.
    apart: Vec<String>,
    directories: Directories,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// [`Error::Build`] when cargo ends without success; [`Error::Usage`] when its configuration cannot be
    /// read; [`Error::Command`] when cargo cannot be called.
    pub fn find(options: &BuildOptions) -> Result<Self> {
        // Both wait for a program that they start.
        let (config, directories) = std::thread::scope(|scope| {
            let directories = scope.spawn(|| directories(options));
            let config = config::load(options).map(|(config, libraries)| {
                (config, libraries.map(|libraries| apart::flags(&libraries)).unwrap_or_default())
            });
            (config, directories.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (config, apart) = config?;
        Ok(Self { config, apart, directories: directories? })
    }

    /// Its root directory.
    pub fn root(&self) -> &Utf8Path {
        &self.directories.own.root
    }

    /// What `cargo metadata` says of it.
    pub fn metadata(&self) -> &str {
        &self.directories.metadata
    }
}

/// Builds. Cargo's own output goes to standard error as it comes.
///
/// # Errors
/// [`Error::Build`] when cargo ends without success; [`Error::Usage`] when its configuration cannot be
/// kept; [`Error::Command`] when cargo cannot be called.
pub fn build(options: &BuildOptions, workspace: Workspace) -> Result<Built> {
    let Workspace { config, apart, directories } = workspace;
    let Directories { arguments: directories, target, own, .. } = directories;
    let targets = config::targets(options, &config)?;
    let host = config
        .host_triple()
        .map_err(|error| Error::Usage(format!("cannot find the host's target: {error}")))?;
    let mut changes = flags::variables(options, &config, &targets, &apart)?;
    let captures = Captures::new(&options.executable)?;
    changes.insert("RUSTDOC".into(), captures.rustdoc().into());
    for triple in targets.iter().map(|target| target.triple()).chain([host]) {
        // The host's runner counts too: proc-macro crates are tested there whatever the target.
        changes.insert(config::runner_variable(triple).into(), captures.runner().into());
    }
    let artifacts = compile(options, &directories, &changes)?;

    let executables = artifacts.iter().filter_map(|artifact| artifact.executable.clone()).collect();
    let tests = artifacts.into_iter().filter(|artifact| artifact.profile.test).collect();
    let rustdoc = rustdoc(options, &config);
    let known = target.join("doctests");
    let mut built = assemble(tests, captures.read()?, &rustdoc, &known)?;
    built.executables = executables;
    built.own = own;
    let rustdocs = built.doctests.iter_mut().map(|doctests| &mut doctests.rustdoc);
    for binary in built.binaries.iter_mut().chain(rustdocs) {
        restore(&mut binary.environment, &changes, options, &config);
    }
    for target in &targets {
        if let Ok(Some(runner)) = config.runner(target) {
            let runner = runner.path.display();
            built.notes.push(format!("the runner `{runner}` is not used: tests are started directly"));
        }
    }
    for (name, value) in &config.env {
        if value.force && changes.contains_key(OsStr::new(name)) {
            built.notes.push(format!(
                "cargo's configuration forces {name}: C code may lack frame pointers and lines"
            ));
        }
    }
    Ok(built)
}

fn directories(options: &BuildOptions) -> Result<Directories> {
    let mut command = CargoCommand::new(options, "metadata");
    let dependencies = (!options.with_dependencies).then_some("--no-deps");
    command.args(["--format-version=1"]).args(dependencies).args(&options.metadata_args);
    let output =
        command.command().stderr(Stdio::inherit()).output().map_err(|error| command.not_started(&error))?;
    if !output.status.success() {
        return Err(command.failed(output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let metadata = MetadataCommand::parse(&text).map_err(|error| command.unexpected(error))?;
    let target = options.target_dir.as_deref().unwrap_or(&metadata.target_directory).join("leakcheck");
    let mut arguments = vec!["--target-dir".into(), target.clone().into_os_string()];
    // A build directory of the user's choice is not below the target directory.
    if let Some(build) = metadata.build_directory.filter(|build| *build != metadata.target_directory) {
        let build = serde_json::Value::from(build.join("leakcheck").as_str());
        arguments.extend(["--config".into(), format!("build.build-dir={build}").into()]);
    }
    let members = metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id));
    let manifests = members.filter_map(|package| package.manifest_path.parent());
    let own =
        OwnCode { root: metadata.workspace_root, packages: manifests.map(Utf8Path::to_owned).collect() };
    Ok(Directories { arguments, target, own, metadata: text.into_owned() })
}

/// Builds everything, has cargo start this program in place of everything that it would test, and returns
/// the executables.
fn compile(options: &BuildOptions, directories: &[OsString], changes: &Environment) -> Result<Vec<Artifact>> {
    let mut command = CargoCommand::new(options, "test");
    command
        .args(["--no-fail-fast", "--message-format=json-render-diagnostics"])
        .args(&options.cargo_args)
        .args(directories)
        .envs(changes.clone());
    let mut child = command
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| command.not_started(&error))?;
    let mut artifacts = Vec::new();
    let messages =
        child.stdout.take().into_iter().flat_map(|stdout| Message::parse_stream(BufReader::new(stdout)));
    for message in messages {
        if let Message::CompilerArtifact(artifact) = message.map_err(|error| command.unexpected(error))?
            && artifact.executable.is_some()
        {
            artifacts.push(artifact);
        }
    }
    let status = child.wait().map_err(|error| command.unexpected(error))?;
    if status.success() { Ok(artifacts) } else { Err(command.failed(status)) }
}

/// Puts together what cargo has built and what it has started.
fn assemble(
    artifacts: Vec<Artifact>,
    captures: Vec<Capture>,
    rustdoc: &Utf8Path,
    known: &Utf8Path,
) -> Result<Built> {
    let mut artifacts: HashMap<Utf8PathBuf, Artifact> = artifacts
        .into_iter()
        .filter_map(|artifact| artifact.executable.clone().map(|executable| (executable, artifact)))
        .collect();
    let mut built = Built::default();
    for capture in captures {
        let package =
            capture.environment.get(OsStr::new("CARGO_PKG_NAME")).map(|name| name.display().to_string());
        if capture.rustdoc {
            built.doctests.push(Doctests {
                rustdoc: TestBinary {
                    target: crate_name(&capture.arguments).unwrap_or_default(),
                    package: package.unwrap_or_default(),
                    kind: TargetKind::Lib,
                    path: rustdoc.to_owned(),
                    directory: utf8(capture.directory.into_os_string())?,
                    environment: capture.environment.into_iter().collect(),
                },
                arguments: without_runner(capture.arguments),
                known: known.to_owned(),
            });
            continue;
        }
        let executable = capture.arguments.first().map(|path| Utf8PathBuf::from(path.display().to_string()));
        let artifact = executable.as_ref().and_then(|path| artifacts.remove(path));
        let (Some(path), Some(artifact)) = (executable.clone(), artifact) else {
            let reason = "cargo starts it as a test and has not reported to have built it".to_owned();
            return Err(Error::Format { path: executable.unwrap_or_default(), reason });
        };
        built.binaries.push(TestBinary {
            package: package.unwrap_or_default(),
            kind: kind(&artifact.target.kind),
            target: artifact.target.name,
            directory: utf8(capture.directory.into_os_string())?,
            environment: capture.environment.into_iter().collect(),
            path,
        });
    }
    let mut rest: Vec<_> = artifacts.into_keys().collect();
    rest.sort();
    built.not_checked.extend(rest.iter().map(|path| NotChecked {
        what: format!("test binary {path}"),
        reason: "cargo builds it and does not run it".to_owned(),
    }));
    Ok(built)
}

/// Takes what we set for cargo out of a test's environment.
fn restore(
    environment: &mut Vec<(OsString, OsString)>,
    changes: &Environment,
    options: &BuildOptions,
    config: &Config,
) {
    environment.retain(|(name, _)| !changes.contains_key(name));
    for name in changes.keys() {
        if let Some(value) = flags::user_value(options, config, name) {
            environment.push((name.clone(), value));
        }
    }
}

/// The rustdoc that cargo would call.
fn rustdoc(options: &BuildOptions, config: &Config) -> Utf8PathBuf {
    let by_variable = options.environment.get(OsStr::new("RUSTDOC")).map(Into::into);
    let path = by_variable.or_else(|| config.build.rustdoc.clone()).unwrap_or_else(|| "rustdoc".into());
    // One without such a name cannot be called, and that is said.
    Utf8PathBuf::from(path.to_string_lossy().into_owned())
}

/// Arguments of rustdoc without our runner, which would be started in place of the examples.
fn without_runner(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--test-runtool" || argument == "--test-runtool-arg" {
            arguments.next();
        } else {
            kept.push(argument);
        }
    }
    kept
}

/// The name of the library that rustdoc is to look at.
fn crate_name(arguments: &[OsString]) -> Option<String> {
    let place = arguments.iter().position(|argument| argument == "--crate-name")?;
    arguments.get(place + 1)?.to_str().map(str::to_owned)
}

fn kind(kinds: &[CargoKind]) -> TargetKind {
    match kinds.first() {
        Some(CargoKind::Bin) => TargetKind::Bin,
        Some(CargoKind::Test) => TargetKind::Test,
        Some(CargoKind::Example) => TargetKind::Example,
        Some(CargoKind::Bench) => TargetKind::Bench,
        Some(CargoKind::ProcMacro) => TargetKind::ProcMacro,
        _ => TargetKind::Lib,
    }
}

fn utf8(path: OsString) -> Result<Utf8PathBuf> {
    match Utf8Path::from_path(path.as_ref()) {
        Some(path) => Ok(path.to_owned()),
        None => Err(Error::Usage(format!("{}: paths that are not UTF-8 are not supported", path.display()))),
    }
}
