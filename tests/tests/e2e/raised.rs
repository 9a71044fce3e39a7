//! Another user of the machine, and sudo.

use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;
use std::time::Duration;

use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop};
use leakcheck_tests::user::{Sudo, User};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{NamedTrial, Outcome, documents, processes};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("raised::only_the_tracer", only_the_tracer),
    ("raised::not_asked_for", not_asked_for),
    ("raised::password", password),
    ("raised::not_for_other_programs", not_for_other_programs),
    ("raised::interrupt", interrupt),
    ("raised::memory", memory),
];

const MANIFEST: &str = r#"
[package]
name = "plain"
edition = "2024"
build = "build.rs"
"#;

/// The build is the user's as well.
const BUILD: &str = r#"
fn main() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let out = std::env::var_os("OUT_DIR").unwrap();
    std::fs::write(std::path::Path::new(&out).join("status"), status).unwrap();
}
"#;

/// `EXPECTED` is what the user's own shell says.
const LIBRARY: &str = r#"
#[cfg(test)]
mod tests {
    fn of(status: &str) -> String {
        let names = ["Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:"];
        let lines = status.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        lines.map(|line| line.to_owned() + "\n").collect()
    }

    fn expected() -> String {
        std::fs::read_to_string("expected").unwrap()
    }

    #[test]
    fn is_the_users() {
        assert_eq!(of(&std::fs::read_to_string("/proc/self/status").unwrap()), expected());
        std::fs::write(std::env::temp_dir().join("written"), "").unwrap();
        std::fs::write("written", "").unwrap();
    }

    #[test]
    fn was_built_by_the_user() {
        assert_eq!(of(include_str!(concat!(env!("OUT_DIR"), "/status"))), expected());
    }

    #[test]
    fn has_the_environment() {
        let all: Vec<_> = std::env::vars().collect();
        assert!(!all.iter().any(|(name, _)| name.contains("SUDO")), "{all:?}");
        let has = |name: &str, value: &str| all.iter().any(|it| it.0 == name && it.1.contains(value));
        assert!(has("LD_LIBRARY_PATH", "/users/libraries") && has("OWN", "two words\nand a line"), "{all:?}");
        assert!(has("HOME", "/home/leakcheck-"), "{all:?}");
    }

    #[test]
    fn leaks() {
        std::mem::forget(vec![0_u8; 40]);
    }

    #[test]
    fn leaves_a_file_open() {
        std::mem::forget(std::fs::File::open("/dev/null").unwrap());
    }
}
"#;

/// A user with a package, and the tool's result on it.
pub(crate) fn checked(workshop: &Workshop, user: &User, options: &[&str]) -> Result<(Run, Report), String> {
    user.write("plain/Cargo.toml", MANIFEST)?;
    user.write("plain/build.rs", BUILD)?;
    user.write("plain/src/lib.rs", LIBRARY)?;
    user.write("plain/expected", &status(user)?)?;
    let json = user.home().join("report.json");
    let mut command = user.command(workshop.tool()?.as_str());
    command.args(["leakcheck", "--manifest-path", "plain/Cargo.toml", "--json", json.as_str()]).args(options);
    command.env("LD_LIBRARY_PATH", "/users/libraries").env("OWN", "two words\nand a line");
    let output = command.stdin(Stdio::null()).output().map_err(|problem| problem.to_string())?;
    let run = Run::new(format!("{command:?}"), output);
    let report = documents::json(&json).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    Ok((run, report))
}

/// Who the user is without the tool.
fn status(user: &User) -> Result<String, String> {
    let names = "^(Uid|Gid|Groups|Cap.*|NoNewPrivs):";
    let output = user.command("grep").args(["-E", names, "/proc/self/status"]).output();
    Ok(String::from_utf8_lossy(&output.map_err(|problem| problem.to_string())?.stdout).into_owned())
}

pub(crate) fn verdicts(report: &Report, run: &Run, descriptors: bool) -> Outcome {
    for test in &report.tests {
        let leaks = test.name.ends_with("leaks") || descriptors && test.name.ends_with("leaves_a_file_open");
        let expected = if leaks { "leaks" } else { "clean" };
        if test.outcome != "passed" || test.verdict != expected {
            return Err(format!("{test:?}\n{}", run.describe()));
        }
    }
    match report.tests.len() {
        5 => Ok(()),
        number => Err(format!("{number} tests\n{}", run.describe())),
    }
}

/// Everything that root's run checks is checked, and nothing but the tracer knows of it.
fn only_the_tracer(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "free", Sudo::Free)?;
    let (run, report) = checked(workshop, &user, &["--require-ebpf"])?;
    run.expect(2, &["sudo has raised the tracer"])?;
    verdicts(&report, &run, true)?;
    everything_is_the_users(&user, &report)
}

/// All that there is is checked, and what the run has written belongs to the user.
pub(crate) fn everything_is_the_users(user: &User, report: &Report) -> Outcome {
    if report.steering.by != "ebpf" || !report.steering.checks_off.is_empty() {
        return Err(format!("{:?}", report.steering));
    }
    let owner = user.home().metadata().map_err(|problem| problem.to_string())?.uid();
    let strangers = all_files(user.home())?.into_iter().filter(|(_, of)| *of != owner).collect::<Vec<_>>();
    if !strangers.is_empty() {
        return Err(format!("files of others than {owner}: {strangers:?}"));
    }
    let written = all_files(user.home())?.iter().any(|(path, _)| path.ends_with("plain/written"));
    if written { Ok(()) } else { Err("the test has written nothing".into()) }
}

fn all_files(folder: &camino::Utf8Path) -> Result<Vec<(camino::Utf8PathBuf, u32)>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir_utf8().map_err(|problem| format!("{folder}: {problem}"))?.flatten() {
            let metadata = entry.path().symlink_metadata().map_err(|problem| problem.to_string())?;
            if metadata.is_dir() {
                folders.push(entry.path().to_owned());
            }
            files.push((entry.into_path(), metadata.uid()));
        }
    }
    Ok(files)
}

fn not_asked_for(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "unasked", Sudo::Free)?;
    let (run, report) = checked(workshop, &user, &["--no-sudo"])?;
    run.expect(2, &["eBPF is not available"])?;
    if report.steering.by != "ptrace" || run.stderr.contains("sudo") {
        return Err(run.describe());
    }
    verdicts(&report, &run, false)
}

/// Nobody is asked for a password; what is off is said, or is an error where eBPF is required.
fn password(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "password", Sudo::Password)?;
    let (run, report) = checked(workshop, &user, &[])?;
    run.expect(
        2,
        &["eBPF is not available", "a password is required; `cargo leakcheck setup`", "not checked: "],
    )?;
    verdicts(&report, &run, false)?;
    let mut command = user.command(workshop.tool()?.as_str());
    command.args(["leakcheck", "exec", "--require-ebpf", "--", "/bin/true"]);
    let output = command.output().map_err(|problem| problem.to_string())?;
    let run = Run::new(format!("{command:?}"), output);
    run.expect(11, &["not allowed to load ebpf programs", "a password is required", "--require-ebpf"])
}

/// What is no test takes a runner's place, without sudo before it: sudo would be another process.
fn not_for_other_programs(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "runner", Sudo::Free)?;
    let mut command = user.command(workshop.tool()?.as_str());
    command.args(["leakcheck", "exec", "--runner", "--", "/bin/sh", "-c", "echo $$"]);
    let tool = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let tool = tool.map_err(|problem| problem.to_string())?;
    let id = tool.id();
    let output = tool.wait_with_output().map_err(|problem| problem.to_string())?;
    match String::from_utf8_lossy(&output.stdout).trim() == id.to_string() && output.stderr.is_empty() {
        true => Ok(()),
        false => Err(format!("process {id}: {output:?}")),
    }
}

/// sudo hands signals on, as the tool does to a program, whose end by one is a failure; nobody is left behind.
fn interrupt(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "interrupt", Sudo::Free)?;
    let mut command = user.command(workshop.tool()?.as_str());
    command.args(["leakcheck", "exec", "--", "/bin/sleep", "987"]);
    let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut tool = started.map_err(|problem| problem.to_string())?;
    let asleep = || processes::all().iter().any(|process| process.command.starts_with("/bin/sleep 987"));
    processes::wait_for("the program to run", Duration::from_secs(30), asleep)?;
    kill(Pid::from_raw(tool.id().cast_signed()), Signal::SIGINT).map_err(|errno| errno.to_string())?;
    let mut status = None;
    processes::wait_for("the tool to end", Duration::from_secs(30), || {
        status = tool.try_wait().ok().flatten();
        status.is_some()
    })?;
    let code = status.and_then(|status| status.code());
    match (code, asleep()) {
        (Some(1), false) => Ok(()),
        (code, asleep) => Err(format!("exit code {code:?} instead of 1; the program runs: {asleep}")),
    }
}

/// The tool may read what a test keeps from others of its user, and tests may not read the tool.
fn memory(workshop: &Workshop) -> Outcome {
    let user = User::new(workshop, "memory", Sudo::Free)?;
    let program = workshop.compile("closed", &["-pthread"])?;
    let look = "echo \"$PPID\"; ! cat /proc/$PPID/environ && ! head -c 1 /proc/$PPID/maps";
    for command in [&[program.as_str()][..], &["/bin/sh", "-c", look]] {
        let mut tool = user.command(workshop.tool()?.as_str());
        tool.args(["leakcheck", "exec", "--"]).args(command);
        let output = tool.output().map_err(|problem| problem.to_string())?;
        Run::new(format!("{tool:?}"), output).expect(0, &["sudo has raised", "1 clean"])?;
    }
    Ok(())
}
