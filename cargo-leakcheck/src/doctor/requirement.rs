//! What the tool needs, judged by the facts. Pure.

use serde::Serialize;

use super::advice;
use super::facts::{Facts, Trial};
use crate::error::Exit;
use crate::model::Availability;
use crate::raise::installed::Setup;
use crate::sys::Capability;

/// Something that the tool needs, or could use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// What it is.
    pub name: String,
    /// Whether it is there.
    pub state: State,
    /// What is there.
    pub found: String,
    /// What it is for.
    pub needed_for: &'static str,
    /// One command that mends it, or what to do where no command can; none where nothing is to be done.
    pub mend: Option<String>,
}

/// Whether a requirement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Met,
    /// It does not, and something is not checked without.
    Reduced,
    /// It does not, and nothing can be checked without.
    Missing,
}

/// How the examination ends: by the worst.
pub fn exit(requirements: &[Requirement]) -> Exit {
    match requirements.iter().map(|requirement| requirement.state).max() {
        None | Some(State::Met) => Exit::Clean,
        Some(State::Reduced) => Exit::Incomplete,
        Some(State::Missing) => Exit::Tool,
    }
}

/// All of them, in the order in which to mend them.
pub fn requirements(facts: &Facts) -> Vec<Requirement> {
    let mut all = vec![kernel(facts), types(facts), proc(facts)];
    all.extend(Capability::ALL.map(|one| capability(facts, one)));
    all.push(setup(facts));
    all.extend([pointers(facts), perf(facts), unprivileged(facts), yama(facts), seccomp(facts)]);
    all.extend([memory(facts), lockdown(facts), pid_namespace(facts)]);
    all.extend(ebpf(facts));
    all.push(program("cargo", &facts.cargo, "building the tests"));
    all.push(program("rustc", &facts.rustc, "building the tests"));
    all.extend(facts.trials.iter().map(|trial| self_test(facts, trial)));
    all
}

fn row(name: &str, state: State, found: impl Into<String>, needed_for: &'static str) -> Requirement {
    Requirement { name: name.into(), state, found: found.into(), needed_for, mend: None }
}

impl Requirement {
    /// Where it does not hold, what mends it.
    fn or(self, mend: impl Into<String>) -> Self {
        let mend = (self.state != State::Met).then(|| mend.into());
        Self { mend, ..self }
    }
}

fn reduced_unless(holds: bool) -> State {
    if holds { State::Met } else { State::Reduced }
}

/// The first kernel with `uprobe_multi` links.
const KERNEL: (u32, u32) = (6, 6);

fn kernel(facts: &Facts) -> Requirement {
    let mut numbers = facts.kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    let state = reduced_unless(version.is_some_and(|version| version >= KERNEL));
    row("Linux 6.6 or later", state, &facts.kernel, "eBPF; without, ptrace and hardware breakpoints do")
        .or("install a later kernel")
}

fn types(facts: &Facts) -> Requirement {
    let found = match &facts.types {
        Ok(()) => "/sys/kernel/btf/vmlinux".to_owned(),
        Err(reason) => format!("/sys/kernel/btf/vmlinux: {reason}"),
    };
    row("kernel types (BTF)", reduced_unless(facts.types.is_ok()), found, "descriptors, children")
        .or("mount -t sysfs sysfs /sys (a kernel with CONFIG_DEBUG_INFO_BTF=y is needed)")
}

fn proc(facts: &Facts) -> Requirement {
    let (state, found) = match (&facts.proc, &facts.hidepid) {
        (Err(reason), _) => (State::Missing, reason.clone()),
        (Ok(()), None) => (State::Met, "of this namespace".to_owned()),
        // A user's own processes are shown in any case.
        (Ok(()), Some(mode)) => (State::Met, format!("of this namespace (hidepid={mode})")),
    };
    row("/proc", state, found, "looking at test processes").or("mount -t proc proc /proc")
}

fn capability(facts: &Facts, capability: Capability) -> Requirement {
    let needed_for = match capability {
        Capability::Bpf => "loading eBPF programs",
        Capability::Perfmon => "eBPF programs that read call stacks",
        Capability::SysPtrace => "tests that make their memory unreadable",
        Capability::SysAdmin => "IPC namespaces of tests",
        Capability::Syslog => "addresses of kernel functions, for descriptors",
    };
    let holds = facts.capabilities.has(capability);
    // Also others may see addresses, if the kernel is told so.
    let needed = capability != Capability::Syslog || !shows_addresses_to_all(facts);
    let found = match (holds, needed) {
        (true, _) => advice::whose(facts),
        (false, true) => "no".to_owned(),
        (false, false) => "no; kernel.kptr_restrict and kernel.perf_event_paranoid do without".to_owned(),
    };
    row(capability.name(), reduced_unless(holds || !needed), found, needed_for)
        .or(advice::capability(facts, capability))
}

fn setup(facts: &Facts) -> Requirement {
    let (state, found) = match &facts.setup {
        Setup::No => (State::Met, "not used"),
        Setup::Works => (State::Met, "installed, and it works"),
        Setup::Refused(reason) => (State::Reduced, reason.as_str()),
    };
    row("cargo leakcheck setup", state, found, "these capabilities, where sudo asks for a password")
        .or(advice::setup(facts))
}

/// As the kernel has it (`kallsyms_show_value`).
fn shows_addresses_to_all(facts: &Facts) -> bool {
    facts.kptr_restrict == Some(0) && facts.perf_event_paranoid.is_some_and(|level| level <= 1)
}

fn pointers(facts: &Facts) -> Requirement {
    let holds = facts.kptr_restrict.is_none_or(|value| value < 2);
    let found = value(facts.kptr_restrict);
    row(
        "kernel.kptr_restrict",
        reduced_unless(holds),
        found,
        "addresses of kernel functions, for descriptors",
    )
    .or("sudo sysctl kernel.kptr_restrict=1")
}

fn perf(facts: &Facts) -> Requirement {
    let found = value(facts.perf_event_paranoid);
    row(
        "kernel.perf_event_paranoid",
        State::Met,
        found,
        "nothing: no perf event is opened, any value will do",
    )
}

fn unprivileged(facts: &Facts) -> Requirement {
    let found = value(facts.unprivileged_bpf_disabled);
    let needed_for = "nothing: the capabilities are needed anyway, any value will do";
    row("kernel.unprivileged_bpf_disabled", State::Met, found, needed_for)
}

fn yama(facts: &Facts) -> Requirement {
    let state = match facts.ptrace_scope {
        None | Some(..=1) => State::Met,
        Some(2) if facts.capabilities.has(Capability::SysPtrace) => State::Met,
        Some(_) => State::Missing,
    };
    let found = facts.ptrace_scope.map_or("no Yama".into(), |value| value.to_string());
    let mend = match facts.ptrace_scope {
        Some(3) => "boot with kernel.yama.ptrace_scope=1 in /etc/sysctl.d (3 cannot be taken back)",
        _ => "sudo sysctl kernel.yama.ptrace_scope=1",
    };
    row("kernel.yama.ptrace_scope", state, found, "tracing test processes").or(mend)
}

/// A filter shows by what it refuses only: by the self-tests.
fn seccomp(facts: &Facts) -> Requirement {
    let refuses = |trial: &Trial| trial.steered.as_ref().is_none_or(|how| how.without_ebpf.is_some());
    let has = |one| facts.capabilities.has(one);
    let suspect = facts.seccomp && has(Capability::Bpf) && has(Capability::Perfmon);
    let (state, found) = match (facts.seccomp, suspect && facts.trials.iter().any(refuses)) {
        (false, _) => (State::Met, "no filter"),
        (true, false) => (State::Met, "a filter"),
        (true, true) => (State::Reduced, "a filter, which may be what refuses eBPF or ptrace"),
    };
    row("seccomp", state, found, "the system calls bpf and ptrace")
        .or("docker run --security-opt seccomp=unconfined …")
}

fn memory(facts: &Facts) -> Requirement {
    let found = facts.locked_memory.as_deref().unwrap_or("unknown");
    let found = found.split_whitespace().next().unwrap_or(found);
    row("RLIMIT_MEMLOCK", State::Met, found, "nothing: eBPF tables are not counted since Linux 5.11")
}

fn lockdown(facts: &Facts) -> Requirement {
    let holds = facts.lockdown.as_deref() != Some("confidentiality");
    let found = facts.lockdown.as_deref().unwrap_or("none");
    row("kernel lockdown", reduced_unless(holds), found, "eBPF programs that read memory")
        .or("boot with lockdown=integrity")
}

fn pid_namespace(facts: &Facts) -> Requirement {
    let found = match facts.pid_namespaces {
        0 | 1 => "outermost that is visible".to_owned(),
        depth => format!("{depth} deep"),
    };
    row("process id namespace", State::Met, found, "nothing: test processes are found in any")
}

/// What the self-tests have met of the kernel side.
fn ebpf(facts: &Facts) -> Vec<Requirement> {
    let Some(steered) = facts.trials.iter().find_map(|trial| trial.steered.as_ref()) else {
        return Vec::new();
    };
    let (state, found) = match &steered.without_ebpf {
        None => (State::Met, "loaded".to_owned()),
        Some(reason) => (State::Reduced, reason.clone()),
    };
    let programs = row("eBPF programs", state, found, "descriptors, processes, --recorder uprobe")
        .or(advice::ebpf(facts));
    let breakpoints = match &steered.without_ebpf {
        None => "not needed: eBPF steers",
        // If they do not work, neither does the self-test.
        Some(_) => "in use",
    };
    let breakpoints = row("hardware breakpoints", State::Met, breakpoints, "steering where eBPF is missing");
    let parts = [
        ("open descriptors", &steered.descriptors, "finding descriptors that are left open"),
        ("IPC namespaces", &steered.ipc, "finding IPC objects that are left behind"),
        ("IPC calls", &steered.ipc_calls, "saying where IPC objects were made"),
        ("started processes", &steered.children, "finding processes that are left"),
    ];
    let parts = parts.into_iter().filter_map(|(name, availability, needed_for)| {
        let (state, found) = match availability {
            Availability::Checked => (State::Met, "available".to_owned()),
            Availability::Unavailable { reason } => (State::Reduced, reason.clone()),
            // Without eBPF, which has a line of its own.
            Availability::Off => return None,
        };
        Some(row(name, state, found, needed_for).or(advice::part(facts)))
    });
    [programs, breakpoints].into_iter().chain(parts).collect()
}

fn program(name: &str, found: &Result<String, String>, needed_for: &'static str) -> Requirement {
    let (state, found) = match found {
        Ok(version) => (State::Met, version.clone()),
        Err(reason) => (State::Missing, reason.clone()),
    };
    row(name, state, found, needed_for).or("curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh")
}

fn self_test(facts: &Facts, trial: &Trial) -> Requirement {
    let by = match (trial.recorder, &trial.steered) {
        ("uprobe", _) => "uprobe recorder".to_owned(),
        (_, Some(steered)) => format!("ledger, steered by {}", steered.by()),
        (_, None) => "ledger".to_owned(),
    };
    let (state, found) = match &trial.result {
        Ok(()) => (State::Met, "a planted leak is found, and nothing where there is none".to_owned()),
        Err(reason) if trial.recorder == "uprobe" => (State::Reduced, reason.clone()),
        Err(reason) => (State::Missing, reason.clone()),
    };
    row(&format!("self-test ({by})"), state, found, "every verdict").or(advice::self_test(facts))
}

fn value(value: Option<i64>) -> String {
    value.map_or_else(|| "not there".to_owned(), |value| value.to_string())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
