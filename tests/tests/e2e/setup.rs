//! A user who may use sudo once, and the tool with capabilities from then on.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use leakcheck_tests::tool::{Run, Workshop};
use leakcheck_tests::user::{Sudo, User};

use crate::raised::{checked, everything_is_the_users, verdicts};
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("setup::once", once),
    ("setup::password", password),
    ("setup::for_the_user_alone", for_the_user_alone),
    ("setup::other_version", other_version),
    ("setup::no_code_of_the_users", no_code_of_the_users),
    ("setup::no_effect", no_effect),
    ("setup::set_user_id", set_user_id),
    ("setup::no_probes_in_others_programs", no_probes_in_others_programs),
    ("setup::no_look_at_others", no_look_at_others),
];

/// A user for whom the tool is set up, and who may not use sudo any more. What is installed goes with it.
struct Ready {
    user: User,
    directory: Utf8PathBuf,
}

impl Ready {
    fn new(workshop: &Workshop, name: &str) -> Result<Self, String> {
        let ready = Self::unready(User::new(workshop, name, Sudo::Free)?)?;
        run(&ready.user, workshop.tool()?, &["setup"])?.expect(0, &[])?;
        ready.user.may(Sudo::Forbidden)?;
        Ok(ready)
    }

    fn unready(user: User) -> Result<Self, String> {
        let directory = Utf8Path::new("/opt/cargo-leakcheck").join(user.number()?.to_string());
        // What a run that was killed has left.
        let _ = fs::remove_dir_all(&directory);
        Ok(Self { user, directory })
    }

    fn helper(&self) -> Utf8PathBuf {
        self.directory.join("hand-on")
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
        let _ = fs::remove_dir("/opt/cargo-leakcheck");
    }
}

fn ended(mut command: Command) -> Result<Run, String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|problem| format!("{command:?}: {problem}"))?;
    Ok(Run::new(format!("{command:?}"), output))
}

/// `cargo leakcheck ARGS` as the user.
fn run(user: &User, tool: &Utf8Path, args: &[&str]) -> Result<Run, String> {
    let mut command = user.command(tool.as_str());
    command.arg("leakcheck").args(args);
    ended(command)
}

fn says(run: &Run, code: i32, text: &str) -> Outcome {
    match run.code == code && run.stdout.contains(text) {
        true => Ok(()),
        false => Err(format!("exit code {code} and `{text}` were expected\n{}", run.describe())),
    }
}

/// All that sudo without a password gives, without it; and nothing of it is left in the end.
fn once(workshop: &Workshop) -> Outcome {
    let tool = workshop.tool()?;
    let ready = Ready::unready(User::new(workshop, "once", Sudo::Free)?)?;
    let Ready { user, directory } = &ready;
    says(&run(user, tool, &["setup", "--check"])?, 10, "not set up")?;
    // Whatever the file mode mask is.
    let mut strict = user.command("sh");
    strict.args(["-c", "umask 077 && exec \"$0\" leakcheck setup", tool.as_str()]);
    says(&ended(strict)?, 0, directory.as_str())?;
    // Also a second time.
    says(&run(user, tool, &["setup"])?, 0, "set up")?;
    user.may(Sudo::Forbidden)?;
    says(&run(user, tool, &["setup", "--check"])?, 0, directory.as_str())?;
    let (tests, report) = checked(workshop, user, &["--require-ebpf"])?;
    tests.expect(2, &["`cargo leakcheck setup` has raised the tracer"])?;
    verdicts(&report, &tests, true)?;
    everything_is_the_users(user, &report)?;
    let (tests, report) = checked(workshop, user, &["--no-sudo"])?;
    tests.expect(2, &["eBPF is not available"])?;
    verdicts(&report, &tests, false)?;
    let doctor = run(user, tool, &["doctor"])?;
    says(&doctor, 0, "yes, raised by `cargo leakcheck setup` for the tracer only")?;
    // Who may not use sudo any more cannot take it back.
    run(user, tool, &["setup", "--remove"])?.expect(11, &["sudo"])?;
    user.may(Sudo::Free)?;
    says(&run(user, tool, &["setup", "--remove"])?, 0, "removed")?;
    if directory.exists() {
        return Err(format!("{directory} is still there"));
    }
    says(&run(user, tool, &["setup", "--remove"])?, 0, "nothing to remove")
}

/// sudo asks at the user's own terminal.
fn password(workshop: &Workshop) -> Outcome {
    let tool = workshop.tool()?;
    let ready = Ready::unready(User::new(workshop, "asked", Sudo::Password)?)?;
    ready.user.set_password("a secret")?;
    // Without a terminal it is an error, and nothing waits.
    run(&ready.user, tool, &["setup"])?.expect(11, &["sudo"])?;
    let mut terminal = ready.user.command("script");
    terminal.args(["--quiet", "--return", "--command", &format!("{tool} leakcheck setup"), "/dev/null"]);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().map_err(|problem| problem.to_string())?;
    let (mut input, mut output) = (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
    let (mut text, mut byte) = (Vec::new(), [0]);
    // What is typed before sudo asks is thrown away.
    while !text.ends_with(b"assword for leakcheck-asked: ")
        && output.read(&mut byte).is_ok_and(|read| read == 1)
    {
        text.push(byte[0]);
    }
    input.write_all(b"a secret\n").map_err(|problem| problem.to_string())?;
    let _ = output.read_to_end(&mut text);
    let status = terminal.wait().map_err(|problem| problem.to_string())?;
    if !status.success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&text)));
    }
    ready.user.may(Sudo::Forbidden)?;
    run(&ready.user, tool, &["exec", "--require-ebpf", "--", "/bin/true"])?.expect(0, &["setup` has raised"])
}

/// Nobody else gets anything by it, and root alone can change it.
fn for_the_user_alone(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "owner")?;
    let stranger = User::new(workshop, "stranger", Sudo::Forbidden)?;
    for program in [ready.helper(), ready.directory.join("cargo-leakcheck")] {
        let mut command = stranger.command(program.as_str());
        command.args(["__hand-on", "check"]);
        ended(command)?.expect(126, &["permission denied"])?;
    }
    for path in [&ready.directory, &ready.helper(), &ready.directory.join("cargo-leakcheck")] {
        let metadata = path.metadata().map_err(|problem| problem.to_string())?;
        // (The bits of the group are what the list may give at most.)
        if metadata.uid() != 0 || metadata.gid() != 0 || metadata.mode() & 0o22 != 0 {
            return Err(format!("{path}: {metadata:?}"));
        }
    }
    // A link to it elsewhere, which the kernel may allow, is of no use to another user.
    let linked = workshop.path().join("linked-helper");
    fs::hard_link(ready.helper(), &linked).map_err(|problem| problem.to_string())?;
    let mut command = stranger.command(linked.as_str());
    command.args(["__hand-on", "/dev/null"]);
    let run = ended(command)?;
    let by_link = run.expect(11, &["not a file of the user alone"]);
    fs::remove_file(&linked).map_err(|problem| problem.to_string())?;
    by_link?;
    // The helper does one thing, whatever its name and arguments are.
    let link = ready.user.home().join("leakcheck-runner");
    std::os::unix::fs::symlink(ready.helper(), &link).map_err(|problem| problem.to_string())?;
    for (program, args) in [
        (&link, &["leakcheck", "exec", "--", "/bin/true"][..]),
        (&ready.helper(), &["leakcheck", "exec", "--", "/bin/true"]),
        (&ready.helper(), &["__raise", "check"]),
        (&ready.helper(), &["__setup", "install"]),
    ] {
        let mut command = ready.user.command(program.as_str());
        command.args(args).env("SUDO_UID", "1").env("SUDO_GID", "1");
        ended(command)?.expect(11, &["hand them on; call `cargo leakcheck`"])?;
    }
    Ok(())
}

/// What was installed by another version is never used, and never passed over in silence.
fn other_version(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "version")?;
    let other = workshop.path().join("cargo-leakcheck-other");
    let mut bytes = fs::read(workshop.tool()?).map_err(|problem| problem.to_string())?;
    // Behind all that is loaded.
    bytes.push(0);
    fs::write(&other, bytes).map_err(|problem| problem.to_string())?;
    fs::set_permissions(&other, PermissionsExt::from_mode(0o755)).map_err(|problem| problem.to_string())?;
    let mends = "run `cargo leakcheck setup` again";
    run(&ready.user, &other, &["exec", "--", "/bin/true"])?.expect(0, &["eBPF is not available", mends])?;
    let required = run(&ready.user, &other, &["exec", "--require-ebpf", "--", "/bin/true"])?;
    required.expect(11, &["another version", mends])?;
    says(&run(&ready.user, &other, &["setup", "--check"])?, 10, "another version")?;
    says(&run(&ready.user, &other, &["doctor"])?, 10, "to mend it: cargo leakcheck setup")?;
    ready.user.may(Sudo::Free)?;
    says(&run(&ready.user, &other, &["setup"])?, 0, "set up")?;
    ready.user.may(Sudo::Forbidden)?;
    run(&ready.user, &other, &["exec", "--require-ebpf", "--", "/bin/true"])?
        .expect(0, &["setup` has raised"])
}

/// Libraries of the user's are loaded into the tests, and never into what has capabilities.
fn no_code_of_the_users(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "library")?;
    let library = workshop.compile("witness", &["-shared", "-fPIC"])?;
    ready.user.write("seen/by", "")?;
    let seen = ready.user.home().join("seen/by");
    let mut command = ready.user.command(workshop.tool()?.as_str());
    command.args(["leakcheck", "exec", "--require-ebpf", "--", "/bin/true"]);
    command.env("LD_PRELOAD", &library).env("WITNESS", &seen);
    ended(command)?.expect(0, &["setup` has raised"])?;
    let seen = fs::read_to_string(seen).map_err(|problem| problem.to_string())?;
    // (What comes before is these tests' own, as root.)
    let ours = |program: &str| matches!(program, "cargo-leakcheck" | "true");
    let programs: Vec<_> =
        seen.lines().filter_map(|line| line.split_once(' ')).filter(|(program, _)| ours(program)).collect();
    let nothing = "0000000000000000";
    // The tool as the user has started it, and the program; not the tool with capabilities, nor its helper.
    match programs == [("cargo-leakcheck", nothing), ("true", nothing)] {
        true => Ok(()),
        false => Err(format!("{programs:?}\n{seen}")),
    }
}

/// Where files have no capabilities the run says so and goes on.
fn no_effect(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "nosuid")?;
    let around = |script: &str, args: &[&str]| {
        let inner = ready.user.command(workshop.tool()?.as_str());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{script} && exec \"$@\""), "sh"]);
        command.arg(inner.get_program()).args(inner.get_args()).arg("leakcheck").args(args);
        let environment = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(environment).current_dir(ready.user.home());
        ended(command)
    };
    let nosuid = "mount --bind /opt /opt && mount -o remount,bind,nosuid /opt";
    let run = around(nosuid, &["exec", "--", "/bin/true"])?;
    run.expect(0, &["eBPF is not available", "`nosuid`", "CAP_BPF"])?;
    around(nosuid, &["exec", "--require-ebpf", "--", "/bin/true"])?.expect(11, &["`nosuid`"])?;
    ready.user.may(Sudo::Free)?;
    around(nosuid, &["setup"])?.expect(11, &["/opt/cargo-leakcheck", "`nosuid`"])?;
    // A file system without extended attributes.
    let bare = "mount -t ramfs ramfs /opt";
    around(bare, &["setup"])?.expect(11, &["/opt/cargo-leakcheck", "not supported"])?;
    // One that others may write to.
    let open = "mount -t tmpfs -o mode=1777 tmpfs /opt";
    around(open, &["setup"])?.expect(11, &["/opt may be changed by others"])
}

/// Programs that are set-user-id have no privileges under a tracer that is the user's.
fn set_user_id(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "setuid")?;
    let folder = workshop.path().join("set-user-id");
    fs::create_dir_all(&folder).map_err(|problem| problem.to_string())?;
    let program = folder.join("id");
    fs::copy("/usr/bin/id", &program).map_err(|problem| problem.to_string())?;
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755))
        .map_err(|problem| problem.to_string())?;
    let mut plain = ready.user.command(program.as_str());
    plain.arg("-u");
    says(&ended(plain)?, 0, "0\n")?;
    let traced =
        run(&ready.user, workshop.tool()?, &["exec", "--require-ebpf", "--", program.as_str(), "-u"])?;
    says(&traced, 10, &format!("{}\n", ready.user.number()?))
}

/// Everyone who executes a program meets the probes in it: the user's tracer has none to place in what is not his.
fn no_probes_in_others_programs(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "others")?;
    let roots = workshop.compile("many_open", &["-static"])?;
    let traced = |program: &Utf8Path| {
        let args = ["exec", "--require-ebpf", "--", program.as_str(), "0"];
        run(&ready.user, workshop.tool()?, &args)
    };
    traced(&roots)?.expect(10, &["belongs to another user", "--no-sudo"])?;
    let own = ready.user.home().join("own");
    ended({
        let mut copy = ready.user.command("cp");
        copy.args([&roots, &own]);
        copy
    })?
    .expect(0, &[])?;
    traced(&own)?.expect(0, &["it is statically linked"])?;
    // The same file by another way.
    let link = ready.user.home().join("link");
    std::os::unix::fs::symlink(&roots, &link).map_err(|problem| problem.to_string())?;
    traced(&link)?.expect(10, &["belongs to another user"])
}

/// A program of the user's may ask for the tool with capabilities, and names the files that it reads: it learns nothing of
/// other users' processes.
fn no_look_at_others(workshop: &Workshop) -> Outcome {
    let ready = Ready::new(workshop, "eyes")?;
    let read = |what: &str| {
        // As the tool hands it to its helper: mask, number of arguments, arguments.
        let words = ["18", "7", "x", "leakcheck", "exec", "--config-file", what, "--", "/bin/true"];
        let script = "umask 077 && printf '%s\\0' \"$@\" > state && exec \"$0\" __hand-on \"$PWD/state\"";
        let mut command = ready.user.command("sh");
        command.args(["-c", &format!("cd ~ && {script}"), ready.helper().as_str()]).args(words);
        ended(command)
    };
    let roots = std::process::id();
    for what in ["maps", "root/etc/hostname"] {
        read(&format!("/proc/{roots}/{what}"))?.expect(11, &["Permission denied"])?;
    }
    // It is the tool that has read it.
    ready.user.write("settings", "[profile.default]\n")?;
    read(ready.user.home().join("settings").as_str())?.expect(0, &["setup` has raised"])
}
