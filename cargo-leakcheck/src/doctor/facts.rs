//! What there is on this machine, for this user: plain data, looked up once.

use std::process::Command;

use crate::model::Steered;
use crate::options::{DoctorOptions, Raised};
use crate::raise::installed::Setup;
use crate::sys::{self, Capabilities};

/// Everything that the requirements are judged by. What could not be read is missing.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kernel's release, as `uname -r` has it.
    pub kernel: String,
    /// Whether the kernel's types can be read; why not.
    pub types: Result<(), String>,
    /// The effective user.
    pub user: u32,
    /// The capabilities in effect.
    pub capabilities: Capabilities,
    /// How privileges came, or why they did not.
    pub raised: Raised,
    /// What `cargo leakcheck setup` has installed for the user.
    pub setup: Setup,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<i64>,
    /// `kernel.yama.ptrace_scope`; none without Yama.
    pub ptrace_scope: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// System calls are filtered.
    pub seccomp: bool,
    /// Nothing that this process starts can raise privileges.
    pub no_new_privileges: bool,
    /// `RLIMIT_MEMLOCK`, as /proc has it.
    pub locked_memory: Option<String>,
    /// How the kernel is locked down (`none`, `integrity`, `confidentiality`); none without.
    pub lockdown: Option<String>,
    /// Whether `/proc` shows the processes of this process id namespace; why not.
    pub proc: Result<(), String>,
    /// `hidepid` of /proc, where it is set.
    pub hidepid: Option<String>,
    /// Process id namespaces around this process, as far as /proc shows them.
    pub pid_namespaces: usize,
    /// What `cargo --version` says.
    pub cargo: Result<String, String>,
    /// What `rustc --version` says.
    pub rustc: Result<String, String>,
    /// What self-tests have shown.
    pub trials: Vec<Trial>,
}

/// A self-test: a program that leaks and one that does not, traced by one recorder.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The recorder as the option names it.
    pub recorder: &'static str,
    /// What steered it, and what was available; none where tracing has not begun.
    pub steered: Option<Steered>,
    /// Whether the leak, and nothing else, was found in the one and nothing in the other; what else happened.
    pub result: Result<(), String>,
}

impl Facts {
    /// Looks all of them up but the self-tests.
    pub fn look_up(options: &DoctorOptions) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").ok();
        let types = std::fs::File::open("/sys/kernel/btf/vmlinux");
        Self {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            types: types.map(drop).map_err(|error| error.to_string()),
            user: sys::user(),
            capabilities: sys::permitted(),
            raised: options.trace.raised.clone(),
            setup: Setup::look_up(&options.executable),
            perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
            unprivileged_bpf_disabled: number("/proc/sys/kernel/unprivileged_bpf_disabled"),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
            kptr_restrict: number("/proc/sys/kernel/kptr_restrict"),
            seccomp: field(&status, "Seccomp:").is_some_and(|mode| mode != "0"),
            no_new_privileges: field(&status, "NoNewPrivs:").is_some_and(|set| set == "1"),
            locked_memory: field(&limits, "Max locked memory").map(str::to_owned),
            lockdown: lockdown.as_deref().and_then(chosen).map(str::to_owned),
            proc: sys::proc_is_own(),
            hidepid: hidepid(&mounts).map(str::to_owned),
            pid_namespaces: field(&status, "NSpid:").map_or(1, |ids| ids.split_whitespace().count()),
            cargo: version(options, &options.cargo),
            rustc: version(options, &options.rustc),
            trials: Vec::new(),
        }
    }
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    read(path)?.parse().ok()
}

/// What stands behind a word at the beginning of a line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The word in brackets: `[none] integrity confidentiality`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// The option of the topmost file system that is mounted at /proc, unless it hides nothing.
fn hidepid(mounts: &str) -> Option<&str> {
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let mode = line.split([' ', ',']).find_map(|option| option.strip_prefix("hidepid="))?;
    (!matches!(mode, "0" | "off")).then_some(mode)
}

fn version(options: &DoctorOptions, program: &std::ffi::OsStr) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").current_dir(&options.directory).env_clear().envs(&options.environment);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{}: {}", output.status, text(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc() {
        let status = "Name:\tx\nSeccomp:\t2\nNSpid:\t4711\t12\t1\n";
        assert_eq!(field(status, "Seccomp:"), Some("2"));
        assert_eq!(field(status, "NSpid:"), Some("4711\t12\t1"));
        assert_eq!(field(status, "NoNewPrivs:"), None);
    }

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(chosen("none"), None);
    }

    /// Lines as in the manual page proc_pid_mountinfo(5).
    #[test]
    fn what_is_mounted_last_hides_what_was_before() {
        let line = |target: &str, options: &str| format!("36 35 0:5 / {target} rw - proc proc rw{options}\n");
        assert_eq!(hidepid(&line("/proc", ",hidepid=2")), Some("2"));
        assert_eq!(hidepid(&line("/proc", ",gid=4,hidepid=invisible")), Some("invisible"));
        assert_eq!(hidepid(&line("/proc", "")), None);
        assert_eq!(hidepid(&line("/jail/proc", ",hidepid=2")), None);
        assert_eq!(hidepid(&(line("/proc", ",hidepid=2") + &line("/proc", ",hidepid=off"))), None);
    }
}
