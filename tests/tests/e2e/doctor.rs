//! What the tool says of the machine it is on.

use std::collections::BTreeMap;
use std::process::Command;

use leakcheck_tests::tool::{Run, Workshop};
use serde::Deserialize;

use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("doctor::all_is_there", all_is_there),
    ("doctor::plain_user", plain_user),
    ("doctor::blind", blind),
    ("doctor::foreign_proc", foreign_proc),
    ("doctor::mended", mended),
];

#[derive(Deserialize)]
struct Document {
    format: String,
    exit_code: i32,
    requirements: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    name: String,
    state: String,
    found: String,
    needed_for: String,
    mend: Option<String>,
}

/// What is said where a command has been put in front of the tool.
fn examined(
    workshop: &Workshop,
    before: &[&str],
    code: i32,
) -> Result<BTreeMap<String, Requirement>, String> {
    let tool = workshop.command(&["doctor", "--json", "--no-sudo"])?;
    let mut command = Command::new("env");
    // Nobody may execute root's.
    command.args(["CARGO=/bin/true", "RUSTC=/bin/true"]).args(before);
    command.arg(tool.get_program()).args(tool.get_args()).current_dir("/");
    let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
    let run = Run::new(format!("{command:?}"), output);
    let document: Document =
        serde_json::from_str(&run.stdout).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    if document.format != "leakcheck-doctor/1" || document.exit_code != code || run.code != code {
        return Err(run.describe());
    }
    // A requirement says what it is for, and what mends it exactly where it does not hold.
    for one in &document.requirements {
        let explained = !one.found.is_empty() && !one.needed_for.is_empty();
        if !explained || (one.state == "met") != one.mend.is_none() {
            return Err(format!("{}: {}", one.name, run.describe()));
        }
    }
    Ok(document.requirements.into_iter().map(|one| (one.name.clone(), one)).collect())
}

fn expect(all: &BTreeMap<String, Requirement>, states: &[(&str, &str)]) -> Outcome {
    for (name, state) in states {
        match all.get(*name) {
            Some(one) if one.state == *state => {}
            Some(one) => return Err(format!("{name} is {} ({}) and not {state}", one.state, one.found)),
            None => return Err(format!("{name} is not among {:?}", all.keys())),
        }
    }
    Ok(())
}

fn all_is_there(workshop: &Workshop) -> Outcome {
    let all = examined(workshop, &[], 0)?;
    let machine = [
        "Linux 6.6 or later",
        "kernel types (BTF)",
        "/proc",
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_PTRACE",
        "CAP_SYS_ADMIN",
        "CAP_SYSLOG",
        "cargo leakcheck setup",
        "kernel.kptr_restrict",
        "kernel.perf_event_paranoid",
        "kernel.unprivileged_bpf_disabled",
        "kernel.yama.ptrace_scope",
        "seccomp",
        "RLIMIT_MEMLOCK",
        "kernel lockdown",
        "process id namespace",
        "eBPF programs",
        "cargo",
        "rustc",
        "self-test (ledger, steered by ebpf)",
        "self-test (uprobe recorder)",
    ];
    expect(&all, &machine.map(|name| (name, "met")))?;
    // What is there is what the machine says.
    for (name, path) in [
        ("Linux 6.6 or later", "/proc/sys/kernel/osrelease"),
        ("kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"),
        ("kernel.unprivileged_bpf_disabled", "/proc/sys/kernel/unprivileged_bpf_disabled"),
        ("kernel.kptr_restrict", "/proc/sys/kernel/kptr_restrict"),
    ] {
        let value = std::fs::read_to_string(path).map_or("not there".into(), |value| value.trim().to_owned());
        if all[name].found != value {
            return Err(format!("{name} is {value} and not {}", all[name].found));
        }
    }
    Ok(())
}

/// What is said to mend does.
fn mended(workshop: &Workshop) -> Outcome {
    let namespaces = ["unshare", "--pid", "--fork", "--mount"];
    let before = examined(workshop, &namespaces, 11)?;
    let mend = before["/proc"].mend.as_deref().ok_or("nothing mends /proc")?;
    let script = format!("{mend} && exec \"$@\"");
    examined(workshop, &[&namespaces[..], &["sh", "-c", &script, "sh"]].concat(), 0).map(drop)
}

/// It works by what any user may do.
fn plain_user(workshop: &Workshop) -> Outcome {
    let user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--"];
    let all = examined(workshop, &user, 10)?;
    let reduced = ["CAP_BPF", "CAP_SYS_PTRACE", "CAP_SYSLOG", "eBPF programs", "IPC namespaces"];
    expect(&all, &reduced.map(|name| (name, "reduced")))?;
    expect(&all, &[("self-test (ledger, steered by ptrace)", "met"), ("/proc", "met"), ("cargo", "met")])
}

/// The self-test does not pass where nothing can be traced.
fn blind(workshop: &Workshop) -> Outcome {
    let filter = workshop.compile("filtered", &[])?;
    let all = examined(workshop, &[filter.as_str(), "ptrace"], 11)?;
    let test = all.values().find(|one| one.name.starts_with("self-test (ledger"));
    match test {
        Some(test) if test.state == "missing" && test.found.contains("not allowed to trace") => Ok(()),
        test => Err(format!("{:?}", test.map(|test| (&test.state, &test.found)))),
    }
}

fn foreign_proc(workshop: &Workshop) -> Outcome {
    let all = examined(workshop, &["unshare", "--pid", "--fork"], 11)?;
    expect(&all, &[("/proc", "missing"), ("CAP_BPF", "met")])?;
    match all["/proc"].mend.as_deref() {
        Some("mount -t proc proc /proc") => Ok(()),
        mend => Err(format!("{mend:?}")),
    }
}
