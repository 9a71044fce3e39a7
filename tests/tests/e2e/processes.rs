//! What a run leaves behind: processes and files.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Outcome;

/// A running process.
pub struct Process {
    /// Its id.
    pub id: i32,
    /// Its arguments, joined by blanks.
    pub command: String,
    /// Its executable.
    pub executable: String,
}

/// All processes that can be seen and are no zombies.
pub fn all() -> Vec<Process> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let (Ok(command), Ok(executable)) =
            (std::fs::read(entry.path().join("cmdline")), std::fs::read_link(entry.path().join("exe")))
        else {
            continue;
        };
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        processes.push(Process { id, command, executable: executable.to_string_lossy().into_owned() });
    }
    processes
}

/// Test processes of binaries below a folder.
pub fn below(folder: &Utf8Path) -> Vec<Process> {
    let inside = |process: &Process| {
        process.executable.starts_with(folder.as_str()) && process.executable.contains("/deps/")
    };
    all().into_iter().filter(inside).collect()
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Outcome {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return Err(format!("waited {limit:?} in vain for {what}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Ends the processes with an argument that only a fixture uses, and that a run with this temporary
/// folder has started; says which there were.
pub fn end_those_with(argument: &str, temporary: &Utf8Path) -> String {
    let mut text = String::new();
    // Tests have directories of their own in it.
    let variable = format!("TMPDIR={temporary}");
    let is_of_the_run = |id: i32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(variable.as_bytes()))
    };
    let left = |process: &Process| {
        process.executable.ends_with("/sleep")
            && process.command.contains(argument)
            && is_of_the_run(process.id)
    };
    for process in all().into_iter().filter(left) {
        text += &format!("left running: {} ({})\n", process.command, process.id);
        // It may have ended by itself in between.
        let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
    }
    text
}

/// IPC objects of the fixture `ipc` that are in everybody's namespace. Another run's are soon gone.
pub fn left_ipc() -> Outcome {
    let key = format!(" {} ", 0x6c65_616b);
    let found = || -> Vec<String> {
        let files = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let lists = ["shm", "sem", "msg"].map(|list| format!("/proc/sysvipc/{list}"));
        let lines = lists.iter().flat_map(|list| {
            std::fs::read_to_string(list).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>()
        });
        names
            .filter(|name| name.contains("leakcheck-fixture"))
            .chain(lines.filter(|line| line.contains(&key)))
            .collect()
    };
    wait_for("IPC objects to be removed", Duration::from_secs(5), || found().is_empty())
        .map_err(|problem| format!("{problem}: {:?}", found()))
}

/// Files in the temporary folder of a run that has ended.
pub fn left_files(folder: &Utf8Path) -> Outcome {
    let entries = folder.read_dir_utf8().map_err(|problem| format!("{folder}: {problem}"))?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_owned()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("temporary files were left: {}", names.join(", "))) }
}
