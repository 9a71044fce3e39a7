//! Programs that go to namespaces of their own, and ids that somebody else gets.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use leakcheck_tests::tool::Workshop;

use crate::exec::exec_with;
use crate::processes;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("isolated::in_namespaces_of_its_own", in_namespaces_of_its_own),
    ("isolated::id_of_a_stranger", id_of_a_stranger),
];

/// In a user, process id, mount and network namespace of its own a program leaves what it leaves elsewhere.
fn in_namespaces_of_its_own(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("namespaces", &[])?;
    let name = format!("/leakcheck-other-{}-isolated", std::process::id());
    let sleeps = format!("31557600.{}", std::process::id());
    for recorder in ["ledger", "uprobe"] {
        let options =
            ["--recorder", recorder, "--fds", "0", "--ipc", "0", "--children", "0", "--mapped-bytes", "0"];
        let run = |leaves: &str| exec_with(workshop, &options, &[program.as_str(), leaves, &name, &sleeps]);
        let (closed, test) = run("closes")?;
        closed.expect(0, &[])?;
        if test.verdict != "clean" {
            return Err(format!("{test:?}\n{}", closed.describe()));
        }
        let (left, test) = run("leaves")?;
        left.expect(
            2,
            &[
                "555 B definitely lost in 1 block",
                "2 descriptors left open",
                "\"/mnt/file\"  opened at ",
                "tcp 0.0.0.0:4567  opened at ",
                "2 IPC objects left",
                "made by shmget at ",
                &format!("\"{name}\"  0 B  made by shm_open at "),
                // The grandchild too, which has another parent by then.
                "2 children left",
                "8192 B left mapped in 1 mapping",
            ],
        )?;
        if test.kernel.children.iter().any(|child| child.stack.is_none()) {
            return Err(format!("{test:?}\n{}", left.describe()));
        }
        let runs = processes::all().iter().any(|process| process.command.contains(&sleeps));
        if runs || Path::new("/dev/shm").join(&name[1..]).exists() {
            return Err(format!("something is left on the machine\n{}", left.describe()));
        }
    }
    Ok(())
}

/// A stranger that has got the id of a process which a test had started and waited for is not the test's, and lives.
fn id_of_a_stranger(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("reused", &[])?;
    let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let (id, end) = (folder.path().join("id"), folder.path().join("end"));
    let mut arguments = vec![program.as_str()];
    arguments.extend([&id, &end].map(|path| path.to_str().expect("its name is readable")));
    let (found, stranger) = std::thread::scope(|scope| {
        let found = scope.spawn(|| exec_with(workshop, &["--children", "0"], &arguments));
        let stranger = with_the_id_in(&id);
        // Whatever has become of it, the program is to end.
        let ended = std::fs::write(&end, "").map_err(|problem| problem.to_string());
        (found.join().expect("it does not panic"), ended.and(stranger))
    });
    let mut stranger = stranger?;
    let lives = matches!(stranger.try_wait(), Ok(None));
    // It may have been ended.
    let _ = stranger.kill();
    let _ = stranger.wait();
    let (run, test) = found?;
    run.expect(0, &[])?;
    match lives && test.kernel.children.is_empty() {
        true => Ok(()),
        false => Err(format!("the stranger lives: {lives}; {test:?}\n{}", run.describe())),
    }
}

/// Starts a process with the id that is written in a file.
fn with_the_id_in(file: &Path) -> Result<Child, String> {
    let written = || std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse::<u32>().ok();
    processes::wait_for("the id", Duration::from_secs(20), || written().is_some())?;
    let id = written().ok_or("the id is gone")?;
    // Others start processes as well.
    for _ in 0..1000 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).map_err(|it| it.to_string())?;
        let mut child = Command::new("sleep").arg("1000").spawn().map_err(|problem| problem.to_string())?;
        if child.id() == id {
            return Ok(child);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    Err(format!("nobody got the id {id}"))
}
