//! Worlds as containers have them, made by namespaces and mounts: what works is found, what does not is said,
//! and never is a leak passed over.

use std::process::{Command, Stdio};

use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{Run, Workshop, open_to_all};

use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("containers::namespaces", namespaces),
    ("containers::foreign_proc", foreign_proc),
    ("containers::no_proc", no_proc),
    ("containers::hidden_processes", hidden_processes),
    ("containers::masked_sys", masked_sys),
    ("containers::lacking_types", lacking_types),
    ("containers::read_only", read_only),
    ("containers::no_capabilities", no_capabilities),
    ("containers::filtered", filtered),
    ("containers::required", required),
];

/// Process ids, mounts, IPC, host name of its own, as every container.
const CONTAINER: [&str; 6] = ["--pid", "--fork", "--mount", "--ipc", "--uts", "--kill-child"];

/// Runs the tool on the leaking program, where a shell script has been before.
fn inside(
    workshop: &Workshop,
    namespaces: &[&str],
    script: &str,
    options: &[&str],
) -> Result<(Run, Option<Report>), String> {
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let path = camino::Utf8Path::from_path(folder.path()).ok_or("the folder has no readable name")?;
    open_to_all(path)?;
    let (program, json) = (workshop.compile("leak", &[])?, path.join("report.json"));
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-ec", &format!("{script}\nexec \"$@\""), "sh"]);
    command.arg(workshop.tool()?).args(["leakcheck", "exec", "--json", json.as_str()]).args(options);
    command.arg("--").arg(&program).env("TMPDIR", path).current_dir(path).stdin(Stdio::null());
    let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
    Ok((Run::new(format!("{command:?}"), output), documents::json(&json).ok()))
}

/// The leak is found, whoever steers; what is said to be off has these words in it.
fn found((run, report): &(Run, Option<Report>), steering: &str, off: &[&str], said: &[&str]) -> Outcome {
    run.expect(2, said)?;
    let report = report.as_ref().ok_or_else(|| format!("there is no report\n{}", run.describe()))?;
    // Of programs that is looked at only where it is asked for.
    let asked = |off: &&String| *off != "what descriptors hold in the kernel";
    let checks_off: Vec<_> = report.steering.checks_off.iter().filter(asked).cloned().collect();
    let checks_off = checks_off.join(", ");
    let lost = report.tests[0].definitely_lost.bytes;
    if report.steering.by != steering || lost != 1100 || off.iter().any(|off| !checks_off.contains(off)) {
        return Err(format!("{lost} B lost, {:?}\n{}", report.steering, run.describe()));
    }
    match checks_off.is_empty() == off.is_empty() {
        true => Ok(()),
        false => Err(format!("{off:?} was expected: {:?}", report.steering)),
    }
}

/// Nothing is run, and nothing called clean.
fn refused((run, report): &(Run, Option<Report>), said: &[&str]) -> Outcome {
    run.expect(11, said)?;
    match report {
        Some(report) if report.exit_code != 11 || !report.tests.is_empty() => {
            Err(format!("the report has results\n{}", run.describe()))
        }
        // (Its folder may not be there to be written to.)
        _ => Ok(()),
    }
}

/// A container with all privileges is as good as none.
fn namespaces(workshop: &Workshop) -> Outcome {
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    found(&inside(workshop, &all, "", &[])?, "ebpf", &[], &[])?;
    found(&inside(workshop, &all, "", &["--recorder", "uprobe"])?, "ebpf", &[], &[])?;
    // No file system of the kernel's but /proc.
    let bare = "umount -R /sys/kernel/tracing /sys/kernel/debug /sys/fs/bpf 2>/dev/null || true";
    found(&inside(workshop, &all, bare, &[])?, "ebpf", &[], &[])
}

/// The numbers in such a /proc are those of other processes.
fn foreign_proc(workshop: &Workshop) -> Outcome {
    let run = inside(workshop, &CONTAINER, "", &[])?;
    refused(&run, &["another process id namespace", "cargo leakcheck doctor"])
}

fn no_proc(workshop: &Workshop) -> Outcome {
    let run = inside(workshop, &["--mount"], "mount -t tmpfs none /proc", &[])?;
    refused(&run, &["/proc"])
}

/// Nobody sees the processes of others; the tests are its own.
fn hidden_processes(workshop: &Workshop) -> Outcome {
    let script = "mount -t proc -o hidepid=2 proc /proc";
    found(&inside(workshop, &CONTAINER, script, &[])?, "ebpf", &[], &[])?;
    let user = "exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all -- \"$@\"";
    let run = inside(workshop, &CONTAINER, &format!("{script}\n{user}"), &[])?;
    found(&run, "ptrace", &["descriptors"], &["ebpf is not available"])
}

/// Without the kernel's types a part is off.
fn masked_sys(workshop: &Workshop) -> Outcome {
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    let run = inside(workshop, &all, "mount -t tmpfs -o ro none /sys", &[])?;
    found(&run, "ebpf", &["descriptors", "outlived"], &["/sys/kernel/btf/vmlinux cannot be read"])
}

/// What a kernel lacks takes away what needs it, with the reason, and nothing else.
fn lacking_types(workshop: &Workshop) -> Outcome {
    const DESCRIPTORS: &str = "descriptors that are left open";
    const HOLD: &str = "what descriptors hold in the kernel";
    const SHARED: &str = "POSIX shared memory and semaphores that are left behind";
    const ORPHANS: &str = "processes that have outlived the child that had started them";
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    for (name, off, said) in [
        (
            "bpf_iter_task_file",
            &[DESCRIPTORS, HOLD][..],
            "descriptors: not available: the kernel has no list of descriptors",
        ),
        (
            "f_op",
            &[DESCRIPTORS, HOLD],
            "descriptors: not available: the kernel's types (BTF) have no file.f_op",
        ),
        ("btf_trace_kmem_cache_alloc", &[DESCRIPTORS, HOLD], "the kernel has no tracepoint kmem_cache_alloc"),
        (
            "btf_trace_kfree",
            &[HOLD],
            "what they hold in the kernel: not available: the kernel has no tracepoint kfree",
        ),
        (
            "btf_trace_sched_process_free",
            &[SHARED, ORPHANS],
            "what children have left: not available: the kernel has no",
        ),
        ("thread_pid", &[SHARED, ORPHANS], "the kernel's types (BTF) have no task_struct.thread_pid"),
    ] {
        // A name of the same length that nobody asks for.
        let other = format!("{}_", &name[..name.len() - 1]);
        let script = format!(
            "LC_ALL=C sed 's/\\x00{name}\\x00/\\x00{other}\\x00/' /sys/kernel/btf/vmlinux > \"$TMPDIR/types\"\n\
             ! cmp -s \"$TMPDIR/types\" /sys/kernel/btf/vmlinux\n\
             mount --bind \"$TMPDIR/types\" /sys/kernel/btf/vmlinux"
        );
        let (run, report) = inside(workshop, &all, &script, &["--kernel-report"])?;
        run.expect(2, &["1100 B definitely lost", said])?;
        let report = report.ok_or_else(|| run.describe())?;
        if report.steering.by != "ebpf" || report.steering.checks_off != off {
            return Err(format!("without {name}: {:?}\n{}", report.steering, run.describe()));
        }
    }
    Ok(())
}

/// Where one directory can be written to, that is enough; without one there is no run.
fn read_only(workshop: &Workshop) -> Outcome {
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    let script = "mount --bind \"$TMPDIR\" \"$TMPDIR\"; mount --bind / /mnt; mount -o remount,bind,ro /; \
                  mount -o remount,bind,ro /mnt; ! touch /etc/written 2>/dev/null";
    found(&inside(workshop, &all, script, &[])?, "ebpf", &[], &[])?;
    let script = "export TMPDIR=/proc";
    refused(&inside(workshop, &all, script, &[])?, &[])
}

/// Root in a container that has given nothing.
fn no_capabilities(workshop: &Workshop) -> Outcome {
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    let drop = "exec setpriv --inh-caps=-all --bounding-set=-all -- \"$@\"";
    let run = inside(workshop, &all, drop, &[])?;
    found(&run, "ptrace", &["descriptors", "System V IPC"], &["ebpf is not available", "not permitted"])
}

/// The same, with a filter that refuses what those of container engines do.
fn filtered(workshop: &Workshop) -> Outcome {
    let filter = workshop.compile("filtered", &[])?;
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    let run = inside(workshop, &all, &format!("exec {filter} container \"$@\""), &[])?;
    found(&run, "ptrace", &["descriptors", "System V IPC"], &["ebpf is not available", "not permitted"])
}

/// What can be done without is an error where it is asked for.
fn required(workshop: &Workshop) -> Outcome {
    let all = [&CONTAINER[..], &["--mount-proc"]].concat();
    let required = ["--require-ebpf"];
    found(&inside(workshop, &all, "", &required)?, "ebpf", &[], &[])?;
    let drop = "exec setpriv --inh-caps=-all --bounding-set=-all -- \"$@\"";
    let run = inside(workshop, &all, drop, &required)?;
    refused(&run, &["not allowed to load ebpf programs", "--require-ebpf"])?;
    if run.1.as_ref().is_none_or(|report| report.steering.reason.is_none()) {
        return Err(format!("the report does not say why there was no eBPF\n{}", run.0.describe()));
    }
    let masked = "mount -t tmpfs -o ro none /sys";
    refused(&inside(workshop, &all, masked, &required)?, &["descriptors", "--require-ebpf"])?;
    let off = ["--require-ebpf", "--no-fds", "--no-children", "--no-ipc"];
    let (run, _) = inside(workshop, &all, masked, &off)?;
    run.expect(2, &["1100 B definitely lost"])
}
