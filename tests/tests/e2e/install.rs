//! The packages, built and installed by a user who has nothing but Rust and a linker, and what the README says to try.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use leakcheck_tests::tool::{Run, Workshop, repository};
use leakcheck_tests::user::{Sudo, User};

use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[("install::by_a_new_user", by_a_new_user)];

/// What `cargo package` makes of this repository, in the order in which they depend on each other.
const PACKAGES: [&str; 5] =
    ["leakcheck-common", "leakcheck-preload", "leakcheck-macros", "leakcheck", "cargo-leakcheck"];

/// The folders that make up the workspace, and the example.
const CLONED: [&str; 8] = [
    "cargo-leakcheck",
    "examples/leaky",
    "leakcheck",
    "leakcheck-common",
    "leakcheck-macros",
    "leakcheck-preload",
    "tests",
    "xtask",
];

/// All that the user has besides cargo and rustc: the linker, with what it starts, and a shell.
const COMMANDS: [&str; 4] = ["as", "cc", "ld", "sh"];

fn failed(problem: impl std::fmt::Display) -> String {
    problem.to_string()
}

/// Root's cargo, which has the dependencies.
fn cargo(workshop: &Workshop, args: &[&str]) -> Result<Run, String> {
    let mut command = workshop.outside(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(args).stdin(Stdio::null()).current_dir(repository());
    let run = Run::new(format!("{command:?}"), command.output().map_err(failed)?);
    run.expect(0, &[]).map(|()| run)
}

/// A registry of exactly the versions of the lock files, in which the packages are published.
fn registry(workshop: &Workshop) -> Result<Utf8PathBuf, String> {
    let (folder, target) = (workshop.path().join("registry"), workshop.path().join("packages"));
    let example = repository().join("examples/leaky/Cargo.toml");
    let vendor = ["vendor", "--locked", "--versioned-dirs", "--sync", example.as_str(), folder.as_str()];
    cargo(workshop, &vendor)?;
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let package: Vec<&str> =
        ["package", "--no-verify", "--locked", "--allow-dirty", "--target-dir", target.as_str()]
            .into_iter()
            .chain(packages)
            .collect();
    cargo(workshop, &package)?;
    for package in PACKAGES {
        // Of one workspace, whose packages have one version.
        let name = format!("{package}-{}", env!("CARGO_PKG_VERSION"));
        let archive = target.join("package").join(format!("{name}.crate"));
        must(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
        let digest = must(Command::new("sha256sum").arg(&archive))?;
        let digest = digest.split(' ').next().unwrap_or_default();
        let checksum = format!("{{\"files\":{{}},\"package\":\"{digest}\"}}");
        fs::write(folder.join(name).join(".cargo-checksum.json"), checksum).map_err(failed)?;
    }
    must(Command::new("chmod").args(["-R", "a+rX"]).arg(&folder))?;
    Ok(folder)
}

fn must(command: &mut Command) -> Result<String, String> {
    let run = Run::new(format!("{command:?}"), command.output().map_err(failed)?);
    run.expect(0, &[]).map(|()| run.stdout)
}

/// A user with a registry and a clone of the repository.
struct Newcomer {
    user: User,
    path: String,
}

impl Newcomer {
    fn new(workshop: &Workshop) -> Result<Self, String> {
        let registry = registry(workshop)?;
        let user = User::new(workshop, "newcomer", Sudo::Password)?;
        let home = user.home();
        let commands = workshop.path().join("commands");
        fs::create_dir_all(&commands).map_err(failed)?;
        fs::set_permissions(&commands, PermissionsExt::from_mode(0o755)).map_err(failed)?;
        for name in COMMANDS {
            symlink(Utf8Path::new("/usr/bin").join(name), commands.join(name)).map_err(failed)?;
        }
        for name in CLONED {
            let to = home.join("clone").join(name);
            fs::create_dir_all(to.parent().expect("it is below the clone")).map_err(failed)?;
            must(
                Command::new("cp").args(["-r", "--no-preserve=mode"]).arg(repository().join(name)).arg(&to),
            )?;
            if to.join("target").exists() {
                fs::remove_dir_all(to.join("target")).map_err(failed)?;
            }
        }
        for name in ["Cargo.toml", "Cargo.lock", "README.md"] {
            fs::copy(repository().join(name), home.join("clone").join(name)).map_err(failed)?;
        }
        // The example again, as it is with the packages.
        let example = repository().join("examples/leaky");
        let manifest = fs::read_to_string(example.join("Cargo.toml")).map_err(failed)?;
        let published = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
        let manifest = manifest.replace("{ path = \"../../leakcheck\" }", &published);
        user.write("own/Cargo.toml", &manifest)?;
        user.write("own/src/lib.rs", &fs::read_to_string(example.join("src/lib.rs")).map_err(failed)?)?;
        let mut config = format!(
            "[source.crates-io]\nreplace-with = 'here'\n[source.here]\ndirectory = '{registry}'\n\
             [net]\noffline = true\n[build]\ntarget-dir = '{home}/built'\n"
        );
        // What is built is built soon; how fast it is does not matter here.
        let _ = write!(config, "[profile.release]\nopt-level = 0\ndebug = false\n");
        user.write(".cargo/config.toml", &config)?;
        let path = user.path();
        let toolchain = path.split(':').next().unwrap_or_default();
        let path = format!("{home}/.cargo/bin:{toolchain}:{commands}");
        Ok(Self { user, path })
    }

    /// Runs a script in a folder of the home.
    fn run(&self, folder: &str, script: &str) -> Result<Run, String> {
        let mut command = self.user.command("env");
        command.arg(format!("PATH={}", self.path)).args(["sh", "-c", script]).stdin(Stdio::null());
        let output = command.current_dir(self.user.home().join(folder)).output().map_err(failed)?;
        Ok(Run::new(format!("{script}: {command:?}"), output))
    }
}

/// The command of the README's that is to be tried first.
fn first_command() -> Result<String, String> {
    let readme = fs::read_to_string(repository().join("README.md")).map_err(failed)?;
    let line = readme.lines().find(|line| line.starts_with("cargo install"));
    line.map(str::to_owned).ok_or_else(|| "the README has no command to install".to_owned())
}

fn by_a_new_user(workshop: &Workshop) -> Outcome {
    let newcomer = Newcomer::new(workshop)?;
    newcomer.run("", "! command -v clang llvm-config bpf-linker rustup sudo")?.expect(0, &[])?;
    // The example as it is said to be.
    let found =
        ["LEAK leaky tests::knows_its_capacity", "4096 B definitely lost in 1 block", "src/lib.rs:10"];
    for options in ["--locked ", ""] {
        let install = format!("cargo install {options}cargo-leakcheck");
        newcomer.run("own", &install)?.expect(0, &["installed package `cargo-leakcheck"])?;
        newcomer.run("own", "cargo leakcheck")?.expect(2, &found)?;
        newcomer.run("", "cargo uninstall cargo-leakcheck")?.expect(0, &[])?;
        newcomer.run("own", "cargo leakcheck")?.expect(101, &["no such command"])?;
    }
    newcomer.run("clone", &first_command()?)?.expect(2, &found)
}
