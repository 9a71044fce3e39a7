//! IPC objects and temporary files, beyond what the fixtures say: limits, and what is not looked at.

use std::process::Command;

use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::exec;
use crate::fixtures::Desk;
use crate::unprivileged::filtered;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("ipc::limit_for_all", limit_for_all),
    ("ipc::of_another_process", of_another_process),
    ("ipc::without_descriptors", without_descriptors),
    ("ipc::without_children", without_children),
    ("ipc::without_privileges", without_privileges),
    ("ipc::by_one_of_many_children", by_one_of_many_children),
    ("ipc::switched_off", switched_off),
    ("ipc::namespace_refused", namespace_refused),
    ("files::shown_where_asked_for", shown_where_asked_for),
    ("files::switched_off", files_switched_off),
    ("files::set_for_the_tests", set_for_the_tests),
];

/// Runs one test of a fixture.
fn one(
    workshop: &Workshop,
    package: &str,
    options: &[&str],
    name: &str,
) -> Result<(Run, Report, Test), String> {
    let arguments = [options, &[name, "--", "--exact"]].concat();
    let (run, report) = Desk::new(workshop, package)?.run(workshop, &arguments, &[])?;
    match &report.tests[..] {
        [test] => {
            let test = test.clone();
            Ok((run, report, test))
        }
        _ => Err(run.describe()),
    }
}

fn limit_for_all(workshop: &Workshop) -> Outcome {
    for (limit, code, line) in
        [("4", 0, "4 IPC objects left, within the budget"), ("3", 2, "4 IPC objects left (budget 3)")]
    {
        let (run, _, test) = one(workshop, "ipc", &["--ipc", limit], "private_ones_are_told_apart")?;
        run.expect(code, &[line, "id 6  1 B  made by shmget at ipc/src/lib.rs"])?;
        let kernel = &test.kernel.ipc;
        let bytes: u64 = kernel.iter().filter_map(|object| object.bytes).sum();
        if kernel.len() != 4 || bytes != 3 * 4096 + 1 || kernel.iter().any(|object| object.id.is_none()) {
            return Err(format!("{kernel:?}"));
        }
    }
    Ok(())
}

/// What was there before is not the test's, also if it would have made it; and it stays.
fn of_another_process(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("shared", &[])?;
    let name = format!("leakcheck-other-{}", std::process::id());
    let path = std::path::Path::new("/dev/shm").join(&name);
    let run = |expected: usize| {
        let (run, test) = exec(workshop, &[program.as_str(), &format!("/{name}")])?;
        let stays = path.exists();
        match test.kernel.ipc.len() == expected && stays == (expected == 0) {
            true => run.expect(if expected == 0 { 0 } else { 2 }, &[]),
            false => Err(format!("{:?}, and it is there: {stays}\n{}", test.kernel.ipc, run.describe())),
        }
    };
    std::fs::write(&path, "").map_err(|problem| problem.to_string())?;
    let there_before = run(0);
    let _ = std::fs::remove_file(&path);
    there_before?;
    run(1)
}

/// The window begins where the body is entered, whatever else is looked at.
fn without_descriptors(workshop: &Workshop) -> Outcome {
    for name in ["a_file_in_its_place", "a_file_before_a_library_is_unloaded"] {
        let (run, _, test) = one(workshop, "ipc", &["--no-fds"], name)?;
        run.expect(2, &["1 IPC object left"])?;
        if test.kernel.ipc.len() != 1 || test.kernel.ipc[0].kind != "POSIX shared memory" {
            return Err(format!("{:?}", test.kernel.ipc));
        }
    }
    Ok(())
}

/// What a child leaves is the test's, also where children that are left are nobody's matter.
fn without_children(workshop: &Workshop) -> Outcome {
    let name = "posix_memory_by_a_child";
    let (run, report, test) = one(workshop, "ipc", &["--no-children"], name)?;
    run.expect(2, &["1 IPC object left"])?;
    let off = &report.steering.checks_off;
    match (&test.kernel.ipc[..], &off[..]) {
        ([object], [off]) if object.kind == "POSIX shared memory" && off.starts_with("children") => Ok(()),
        left => Err(format!("{left:?}\n{}", run.describe())),
    }
}

/// Without `CAP_SYS_ADMIN` `fanotify` does not say who makes a file: another program does, or a note says that none does.
fn without_privileges(workshop: &Workshop) -> Outcome {
    let name = format!("/dev/shm/leakcheck-other-{}-alone", std::process::id());
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let json = folder.path().join("report.json").to_string_lossy().into_owned();
    let run = |option: &[&str]| {
        let options = ["leakcheck", "exec", "--json", json.as_str()];
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-sys_admin", "--bounding-set=-sys_admin", "--"]);
        command.arg(workshop.tool()?).args(options).args(option);
        command.args(["--", "sh", "-c", &format!(": > {name}")]).current_dir("/");
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        let run = Run::new(format!("{command:?}"), output);
        let report = documents::json(json.as_str().into()).map_err(|_| run.describe())?;
        let is_off = report.steering.checks_off.iter().any(|off| off.contains("POSIX shared memory"));
        Ok::<_, String>((run, is_off, report.tests[0].kernel.ipc.len()))
    };
    let (seen, unseen) = (run(&[]), run(&["--no-fds"]));
    // What is not seen is not removed.
    let _ = std::fs::remove_file(&name);
    let (seen, is_off, left) = seen?;
    seen.expect(2, &["made by open"])?;
    if is_off || left != 1 {
        return Err(seen.describe());
    }
    let (unseen, is_off, left) = unseen?;
    unseen.expect(0, &["the kernel does not tell who makes files in /dev/shm: EPERM"])?;
    if is_off && left == 0 { Ok(()) } else { Err(unseen.describe()) }
}

/// What the first child has left is not forgotten for all that came after it. Where there was no room for all, what the last one
/// has left is nobody's, and that is said.
fn by_one_of_many_children(workshop: &Workshop) -> Outcome {
    let name = format!("/dev/shm/leakcheck-other-{}-many", std::process::id());
    let make = format!("(: > {name})");
    // The kernel lets go of processes a little later than they end.
    let many = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do (:); (:); (:); (:); (:); done; \
                sleep 0.1; done";
    let full = "found no room, and somebody has left a file in /dev/shm; use --max-threads";
    let (first, last) = (format!("{make}; {many}"), format!("{many}; {make}; sleep 1"));
    for (entries, script, code, said) in [
        ("256", &first, 2, "1 IPC object left"),
        ("256", &last, 10, full),
        ("2048", &last, 2, "1 IPC object left"),
    ] {
        let options = ["exec", "--no-fds", "--max-threads", entries, "--", "sh", "-c", script];
        let run = workshop.run(&options, &[]);
        let _ = std::fs::remove_file(&name);
        run?.expect(code, &[said])?;
    }
    Ok(())
}

/// The reports say what was not looked at, and nothing else does.
fn switched_off(workshop: &Workshop) -> Outcome {
    let (run, report, _) = one(workshop, "ipc", &["--no-ipc"], "shared_memory_removed")?;
    run.expect(0, &[])?;
    let off = &report.steering.checks_off;
    if off.len() != 2 || !off[0].contains("System V IPC") || !off[1].contains("POSIX shared memory") {
        return Err(format!("{off:?}"));
    }
    if run.stderr.contains("not available") { Err(run.describe()) } else { Ok(()) }
}

/// Where namespaces are refused, one line says so; tests run, and all else is checked.
fn namespace_refused(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    let run = filtered(workshop, "unshare", &["--recorder", "ledger"], program.as_str())?;
    let note = "System V IPC and POSIX queues: not available: the kernel refuses a private IPC namespace";
    run.expect(2, &[note, "1100 B definitely lost"])?;
    if run.stderr.matches("not available").count() == 1 { Ok(()) } else { Err(run.describe()) }
}

fn shown_where_asked_for(workshop: &Workshop) -> Outcome {
    let line = "3 files (4 B) left in its TMPDIR, and removed: a.socket, empty, with/one/file";
    for (options, shown) in [(&[][..], false), (&["--files"], true)] {
        let (run, _, test) = one(workshop, "files", options, "directories_and_sockets")?;
        run.expect(0, &[])?;
        let files = test.temporary_files.ok_or_else(|| run.describe())?;
        if run.stderr.contains(line) != shown || files.bytes != 4 || files.paths.len() != 3 {
            return Err(format!("{files:?}\n{}", run.describe()));
        }
    }
    Ok(())
}

/// Then a test has the directory that all have.
fn files_switched_off(workshop: &Workshop) -> Outcome {
    let (run, _, test) = one(workshop, "files", &["--no-files"], "whoever_the_test_becomes_may_write")?;
    run.expect(1, &[])?;
    if test.temporary_files.is_none() { Ok(()) } else { Err(run.describe()) }
}

/// A directory that cargo's configuration names for the tests is theirs.
fn set_for_the_tests(workshop: &Workshop) -> Outcome {
    let folder = Desk::new(workshop, "files")?;
    let directory = folder.file("tmp");
    let setting = format!("env.TMPDIR.value=\"{directory}\"");
    let (run, _, test) = one(
        workshop,
        "files",
        &["--config", &setting, "--config", "env.TMPDIR.force=true"],
        "nothing_is_left",
    )?;
    run.expect(0, &[])?;
    if test.temporary_files.is_none() { Ok(()) } else { Err(run.describe()) }
}
