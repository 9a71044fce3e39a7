//! What is said where eBPF, or more than that, is not allowed.

use std::process::Command;

use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::exec;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("unprivileged::said_once", said_once),
    ("unprivileged::uprobe_recorder", uprobe_recorder),
    ("unprivileged::kernel_lacks_something", kernel_lacks_something),
    ("unprivileged::no_ptrace", no_ptrace),
    ("unprivileged::closed_to_the_tracer", closed_to_the_tracer),
];

/// One line says why, and what takes its place; with privileges none does.
fn said_once(workshop: &Workshop) -> Outcome {
    for recorder in ["user", "container"] {
        let run = workshop.run(&["exec", "--recorder", recorder, "--", "/bin/true"], &[])?;
        run.expect(0, &["ebpf is not available", "not permitted", "ptrace", "not checked"])?;
        if run.stderr.matches("eBPF").count() != 1 {
            return Err(run.describe());
        }
    }
    let run = workshop.run(&["exec", "--recorder", "ledger", "--", "/bin/true"], &[])?;
    if run.stderr.contains("eBPF") { Err(run.describe()) } else { Ok(()) }
}

/// The message names what is missing and how to get it, or how to do without.
fn uprobe_recorder(workshop: &Workshop) -> Outcome {
    let run = filtered(workshop, "bpf", &["--recorder", "uprobe"], "/bin/true")?;
    run.expect(11, &["the kernel cannot trace", "not implemented"])?;
    let tool = workshop.tool()?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--"]);
    command.args([tool.as_str(), "leakcheck", "exec", "--recorder", "uprobe", "--", "/bin/true"]);
    ended(command)?.expect(11, &["not allowed to load", "root", "cap_bpf", "--recorder ledger"])
}

/// A kernel that lacks something is as good as missing privileges, whenever that shows.
fn kernel_lacks_something(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    for (what, error) in [("bpf", "not implemented"), ("link", "not supported")] {
        let run = filtered(workshop, what, &["--recorder", "ledger"], program.as_str())?;
        run.expect(2, &["eBPF is not available", error, "1100 B definitely lost"])?;
    }
    Ok(())
}

/// A container whose filter forbids tracing.
fn no_ptrace(workshop: &Workshop) -> Outcome {
    let run = filtered(workshop, "ptrace", &["--recorder", "container"], "/bin/true")?;
    run.expect(11, &["not allowed to trace", "not permitted", "--cap-add"])
}

/// Runs the tool on a program where a system call is refused.
pub fn filtered(workshop: &Workshop, what: &str, options: &[&str], program: &str) -> Result<Run, String> {
    let filter = workshop.compile("filtered", &[])?;
    let tool = workshop.command(&[&["exec"], options, &["--", program]].concat())?;
    let mut command = Command::new(&filter);
    command.arg(what).arg(tool.get_program()).args(tool.get_args());
    ended(command)
}

fn ended(mut command: Command) -> Result<Run, String> {
    let output = command.current_dir("/").output().map_err(|problem| format!("{command:?}: {problem}"))?;
    Ok(Run::new(format!("{command:?}"), output))
}

/// A process that closes its memory, before a breakpoint is met in it, has no verdict and takes no harm.
fn closed_to_the_tracer(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("closed", &["-pthread"])?;
    let user = workshop.recorded_by("user");
    for arguments in [&[program.as_str()][..], &[program.as_str(), "again"]] {
        let (run, test) = exec(&user, arguments)?;
        if test.outcome != "passed" {
            return Err(format!("{test:?}\n{}", run.describe()));
        }
        run.expect(10, &["cannot be read"])?;
    }
    Ok(())
}
