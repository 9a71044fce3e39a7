//! Builds the tool, copies fixtures to where they may be written to, and runs the one on the other.

use std::env;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tempfile::TempDir;

/// The repository.
pub fn repository() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository")
}

/// Folders of the fixture crates.
pub fn fixture_folders() -> Vec<Utf8PathBuf> {
    let fixtures = repository().join("fixtures");
    let mut folders: Vec<_> = fixtures
        .read_dir_utf8()
        .unwrap_or_else(|problem| panic!("{fixtures}: {problem}"))
        .filter_map(|entry| entry.ok().map(camino::Utf8DirEntry::into_path))
        .filter(|path| path.join("Cargo.toml").exists())
        .collect();
    folders.sort();
    folders
}

/// Recorder names of these tests for the ledger without eBPF: as root without capabilities, as in a
/// container, in a user namespace (with others of its own), and as a plain user. Another user's cargo would need a toolchain of its own: where the
/// tool builds, that user may read and write what is root's.
pub const UNPRIVILEGED: [&str; 3] = ["container", "user", "user-namespace"];

/// The recorder name for the ledger with all privileges, in a process id and a mount namespace of its own.
pub const IN_NAMESPACES: &str = "namespaces";

/// The same, with so few process ids that they are given out again and again within a run. Before Linux 6.14 their number
/// is that of the whole machine.
pub const FEW_IDS: &str = "few-ids";

/// The recorder name for the uprobe recorder whose kernel side has never memory at hand, so that its spare tables have to do.
pub const SPARE: &str = "spare";

/// The recorder name for the ledger in processes that are forked.
pub const FORKED: &str = "forked";

/// Where the trials of one run have their files. Removed at the end.
#[derive(Clone)]
pub struct Workshop {
    folder: Arc<TempDir>,
    tool: Arc<OnceLock<Result<Utf8PathBuf, String>>>,
    recorder: Option<String>,
}

impl Workshop {
    /// A fresh folder with a copy of the fixtures.
    pub fn open() -> Result<Self, String> {
        let folder =
            tempfile::Builder::new().prefix("e2e-").tempdir().map_err(|problem| problem.to_string())?;
        let recorder = env::var("LEAKCHECK_E2E_RECORDER").ok();
        let workshop = Self { folder: Arc::new(folder), tool: Arc::default(), recorder };
        copy(&repository().join("fixtures"), &workshop.fixtures())?;
        // An unprivileged run must be able to read them, and to write its own files.
        set_mode(workshop.path(), 0o777)?;
        Ok(workshop)
    }

    /// The same, where runs have another recorder unless they name one.
    pub fn recorded_by(&self, recorder: &str) -> Self {
        Self { recorder: Some(recorder.to_owned()), ..self.clone() }
    }

    /// The folder.
    pub fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).expect("the temporary folder has a readable name")
    }

    /// The copy of the fixtures.
    pub fn fixtures(&self) -> Utf8PathBuf {
        self.path().join("fixtures")
    }

    /// Where fixtures are built, kept from run to run.
    pub fn target_dir(&self) -> Utf8PathBuf {
        match env::var("CARGO_TARGET_DIR") {
            Ok(folder) => Utf8PathBuf::from(folder).join("fixtures"),
            Err(_) => repository().join("target/fixtures"),
        }
    }

    /// A copy that everyone may execute of the tool: `LEAKCHECK_BIN`, or built now, once.
    pub fn tool(&self) -> Result<&Utf8Path, String> {
        let copy = || {
            let built = match env::var("LEAKCHECK_BIN") {
                Ok(path) => path.into(),
                Err(_) => build()?,
            };
            let path = self.path().join("cargo-leakcheck");
            // By another process: a file that this one has open to write, in a child that a trial beside
            // is just starting, cannot be executed.
            let copied = Command::new("install").args(["-m", "755"]).args([&built, &path]).status();
            match copied {
                Ok(status) if status.success() => Ok(path),
                other => Err(format!("cannot copy {built}: {other:?}")),
            }
        };
        self.tool.get_or_init(copy).as_deref().map_err(Clone::clone)
    }

    /// A command `cargo-leakcheck leakcheck ARGS`, outside of any cargo.
    pub fn command(&self, args: &[&str]) -> Result<Command, String> {
        let (name, rest) = args.split_at(args.iter().take_while(|arg| **arg == "exec").count().min(1));
        let mut rest = rest.to_vec();
        let named = rest.iter().position(|arg| *arg == "--recorder");
        let named = named.map(|place| rest.drain(place..place + 2).nth(1).expect("--recorder has a value"));
        let recorder = named.or(self.recorder.as_deref()).filter(|_| args.first() != Some(&"list"));
        let (inside, recorder) = match recorder {
            Some(recorder)
                if [IN_NAMESPACES, FEW_IDS].contains(&recorder) || UNPRIVILEGED.contains(&recorder) =>
            {
                (Some(recorder), None)
            }
            recorder => (None, recorder),
        };
        if recorder == Some(SPARE) {
            rest.splice(0..0, ["--recorder", "uprobe", "--spare-only"]);
        } else if recorder == Some(FORKED) {
            rest.splice(0..0, ["--recorder", "ledger", "--spawn", "fork"]);
        } else {
            rest.splice(0..0, recorder.into_iter().flat_map(|recorder| ["--recorder", recorder]));
        }
        // Whoever runs these tests in the background has its children ignore an interrupt.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP,TERM,QUIT,USR1,USR2");
        command.args(inside.map(|who| surroundings(who, name.is_empty())).unwrap_or_default());
        command
            .arg(self.tool()?)
            .arg("leakcheck")
            .args(name)
            .args(rest)
            .stdin(Stdio::null())
            .current_dir(self.path());
        clean_environment(&mut command);
        Ok(command)
    }

    /// A command with the environment that a user's shell has.
    pub fn outside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        clean_environment(&mut command);
        command
    }

    /// Runs `cargo ARGS` on the fixtures, with more variables.
    pub fn cargo(&self, args: &[&str], variables: &[(&str, &str)]) -> Result<Run, String> {
        let mut command = self.outside(env::var_os("CARGO").unwrap_or("cargo".into()));
        command.args(args).stdin(Stdio::null()).current_dir(self.fixtures());
        command.env("CARGO_TARGET_DIR", self.target_dir().join("plain")).envs(variables.iter().copied());
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        Ok(Run::new(format!("{command:?}"), output))
    }

    /// Runs the tool to its end.
    pub fn run(&self, args: &[&str], variables: &[(String, String)]) -> Result<Run, String> {
        let mut command = self.command(args)?;
        command.envs(variables.iter().cloned());
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        Ok(Run::new(format!("{command:?}"), output))
    }

    /// Compiles a program of `fixtures/programs` with the C compiler, each time in a folder of its
    /// own: trials run side by side.
    pub fn compile(&self, name: &str, flags: &[&str]) -> Result<Utf8PathBuf, String> {
        self.compile_by("cc", name, flags)
    }

    /// The same by a compiler of that name.
    pub fn compile_by(&self, compiler: &str, name: &str, flags: &[&str]) -> Result<Utf8PathBuf, String> {
        static PROGRAMS: AtomicUsize = AtomicUsize::new(0);
        let number = PROGRAMS.fetch_add(1, Ordering::Relaxed);
        let directory = self.path().join("bin").join(number.to_string());
        fs::create_dir_all(&directory).map_err(|problem| problem.to_string())?;
        let program = directory.join(name);
        let source = self.fixtures().join("programs").join(format!("{name}.c"));
        let mut command = Command::new(compiler);
        command.args(["-g", "-O0", "-fno-omit-frame-pointer"]);
        // What a library is needed for comes before it.
        command.arg(&source).args(flags).arg("-o").arg(&program);
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        if !output.status.success() {
            return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(program)
    }
}

/// How a run of the tool ended.
pub struct Run {
    /// The command, to be shown.
    pub command: String,
    /// Its exit code; a signal is -1.
    pub code: i32,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote for people.
    pub stderr: String,
}

impl Run {
    /// Of a command that has ended.
    pub fn new(command: String, output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Self { command, code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Everything about the run, for a failing trial. Long output is cut.
    pub fn describe(&self) -> String {
        let tail = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        let Self { command, code, stdout, stderr } = self;
        format!("{command}\nexit code {code}\n--- stdout\n{}\n--- stderr\n{}\n", tail(stdout), tail(stderr))
    }

    /// Fails unless the exit code is this and standard error contains the texts (in any case of letters).
    pub fn expect(&self, code: i32, texts: &[&str]) -> Result<(), String> {
        if self.code != code {
            return Err(format!("exit code {code} was expected\n{}", self.describe()));
        }
        let stderr = self.stderr.to_lowercase();
        match texts.iter().find(|text| !stderr.contains(&text.to_lowercase())) {
            Some(text) => Err(format!("`{text}` was expected in the message\n{}", self.describe())),
            None => Ok(()),
        }
    }
}

/// Takes out what the cargo that runs these tests has put in: it is not what a user's shell has.
fn clean_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let cargos = text.starts_with("CARGO") && text != "CARGO_HOME"
            || text.starts_with("RUST")
            || text.starts_with("LEAKCHECK")
            || text.starts_with("GITHUB_");
        // rustup's are the machine's: without `RUSTUP_AUTO_INSTALL=0`, a dependency's `rust-toolchain.toml` can have
        // it install and update toolchains in the middle of a build.
        if cargos && !text.starts_with("RUSTUP_") || text == "LD_LIBRARY_PATH" {
            command.env_remove(&name);
        }
    }
}

fn build() -> Result<Utf8PathBuf, String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args([
        "build",
        "--release",
        "--package",
        "cargo-leakcheck",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = command
        .current_dir(repository())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|problem| format!("{command:?}: {problem}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = message.get("executable")?.as_str()?;
        path.ends_with("/cargo-leakcheck").then(|| path.into())
    });
    executable.filter(|_| output.status.success()).ok_or_else(|| format!("{command:?} failed"))
}

/// Copies a folder without build output; manifests that point out of the fixtures point to the
/// repository afterwards.
fn copy(from: &Utf8Path, to: &Utf8Path) -> Result<(), String> {
    let failed = |problem: std::io::Error| problem.to_string();
    fs::create_dir_all(to).map_err(failed)?;
    set_mode(to, 0o755)?;
    for entry in from.read_dir_utf8().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        match (entry.path().is_dir(), entry.file_name()) {
            (true, "target") => {}
            (true, _) => copy(entry.path(), &target)?,
            (false, "Cargo.toml") => {
                let text = fs::read_to_string(entry.path()).map_err(failed)?;
                fs::write(&target, text.replace("\"../../", &format!("\"{}/", repository())))
                    .map_err(failed)?;
            }
            (false, _) => drop(fs::copy(entry.path(), &target).map_err(failed)?),
        }
    }
    Ok(())
}

/// The command that runs another one without privileges, or in namespaces of its own.
fn surroundings(who: &str, builds: bool) -> Vec<&'static str> {
    // What is left in them when the command has ended is ended, too.
    const NAMESPACES: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if who == IN_NAMESPACES {
        return [&NAMESPACES[..], &["--"]].concat();
    }
    if who == FEW_IDS {
        let few = "echo 400 > /proc/sys/kernel/pid_max && exec \"$@\"";
        return [&NAMESPACES[..], &["--", "sh", "-c", few, "sh"]].concat();
    }
    if who == "user-namespace" {
        return [&NAMESPACES[..], &["--user", "--map-root-user", "--mount", "--net", "--"]].concat();
    }
    let mut command = vec!["setpriv"];
    match (who, builds) {
        ("user", false) => command.extend(USER.into_iter().chain(["--inh-caps=-all"])),
        ("user", true) => {
            command.extend(USER.into_iter().chain(["--inh-caps=-all,+dac_override"]));
            command.push("--ambient-caps=-all,+dac_override");
        }
        _ => command.extend(["--inh-caps=-all", "--bounding-set=-all"]),
    }
    command.push("--");
    command
}

/// Nobody.
const USER: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// Lets everyone write to a folder or file.
pub fn open_to_all(path: &Utf8Path) -> Result<(), String> {
    set_mode(path, 0o777)
}

fn set_mode(path: &Utf8Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(|problem| problem.to_string())
}
