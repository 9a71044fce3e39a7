//! What a process may have done before its program begins that one which is forked from there would not have, or would share
//! with others.

use std::collections::BTreeMap;
use std::io;

use leakcheck_preload::layout::WINDOW_FDS;
use nix::unistd::{Pid, getpgid, getsid};

use crate::harvest;
use crate::sys::{self, Held};

/// The window bits: the kernel side's, and the tracer's own.
const WINDOWS: [&str; 2] = ["anon_inode:bpf-map", "/memfd:leakcheck-window"];

/// Namespaces of a process, and where those are that its children will have.
const NAMESPACES: [(&str, &str); 2] = [("pid", "pid_for_children"), ("time", "time_for_children")];

/// The descriptors that a process has open, by their numbers: what they refer to, how they are open, and what it has locked.
pub type Open = BTreeMap<i32, String>;

/// Those of a process.
///
/// # Errors
/// It is gone.
pub fn descriptors(pid: Pid) -> io::Result<Open> {
    let numbers = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let describe = |number: i32| {
        let file = std::fs::read_link(format!("/proc/{pid}/fd/{number}"))?;
        let info = sys::text(&format!("/proc/{pid}/fdinfo/{number}"))?;
        Ok((number, format!("{}\n{}", file.display(), kept(&info))))
    };
    numbers.map(describe).collect()
}

/// The lines of `/proc/PID/fdinfo/NUMBER` that nobody else changes: its flags and its locks (Documentation/filesystems/proc.rst).
fn kept(info: &str) -> String {
    info.lines().filter(|line| ["flags:", "lock:"].iter().any(|name| line.starts_with(name))).collect()
}

/// Why nothing is to be forked from a process that is prepared for it. `inherited` are descriptors that it has had from its
/// start on, `sockets` those that it has been given since, `table` is the file that its ledger has mapped.
pub fn find(held: &Held, inherited: &Open, sockets: [i32; 2], table: &str) -> Option<String> {
    looked_at(held, inherited, sockets, table)
        .unwrap_or_else(|error| Some(format!("it cannot be looked at: {error}")))
}

fn looked_at(held: &Held, inherited: &Open, sockets: [i32; 2], table: &str) -> io::Result<Option<String>> {
    let pid = held.pid;
    if harvest::threads_of(pid).len() != 1 {
        return Ok(Some("it has started a thread".into()));
    }
    if let Some(reason) = of_descriptors(inherited, &descriptors(pid)?, sockets) {
        return Ok(Some(reason.into()));
    }
    if getpgid(Some(pid))? != pid || getsid(Some(pid))? != getsid(None)? {
        return Ok(Some("it has changed its process group or session".into()));
    }
    let namespace = |name: &str| std::fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
    if NAMESPACES.iter().any(|(own, children)| namespace(own) != namespace(children)) {
        return Ok(Some("its children get another namespace".into()));
    }
    if let Some(Ok(namespace)) = held.ipc()
        && harvest::has_ipc(namespace)?
    {
        return Ok(Some("it has made an IPC object".into()));
    }
    if let Some(reason) = of_status(&sys::text(&format!("/proc/{pid}/status"))?) {
        return Ok(Some(reason.into()));
    }
    if sys::text(&format!("/proc/{pid}/timers")).is_ok_and(|timers| !timers.is_empty()) {
        return Ok(Some("it has made a timer".into()));
    }
    Ok(of_mappings(&sys::text(&format!("/proc/{pid}/smaps"))?, table))
}

/// The same of its descriptors, as they were and as they are.
fn of_descriptors(inherited: &Open, open: &Open, sockets: [i32; 2]) -> Option<&'static str> {
    if open.keys().any(|number| !inherited.contains_key(number) && !sockets.contains(number)) {
        return Some("it has opened a descriptor");
    }
    for (number, was) in inherited {
        match open.get(number) {
            // That of the window bits is closed by the ledger.
            None if WINDOW_FDS.contains(number) => {}
            None => return Some("it has closed a descriptor"),
            Some(is) if is != was => return Some("it has changed a descriptor, or locked a file"),
            Some(_) => {}
        }
    }
    None
}

/// The same of its signals: `text` is `/proc/PID/status`.
fn of_status(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(":\t"));
    let is_pending = |(name, set): (&str, &str)| {
        ["SigPnd", "ShdPnd"].contains(&name) && set.bytes().any(|digit| digit != b'0')
    };
    lines.any(is_pending).then_some("a signal waits until it takes it")
}

/// The same of its mappings: `text` is `/proc/PID/smaps`.
fn of_mappings(text: &str, table: &str) -> Option<String> {
    let mut name = String::new();
    for line in text.lines() {
        if let Some(mapping) = harvest::mapping(line) {
            let is_ledgers =
                mapping.path == table || WINDOWS.iter().any(|window| mapping.path.starts_with(window));
            name = if mapping.path.is_empty() { "without a name".into() } else { mapping.path };
            let is_shared = line.split(' ').nth(1).is_some_and(|access| access.ends_with('s'));
            if is_shared && !is_ledgers {
                return Some(format!("it shares memory with others ({name})"));
            }
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            // Not for children, empty in children, kept in memory (Documentation/filesystems/proc.rst).
            if flags.split(' ').any(|flag| ["dc", "wf", "lo"].contains(&flag)) {
                return Some(format!("it has memory that its children do not get as it is ({name})"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(access: &str, flags: &str, path: &str) -> Option<String> {
        let text = format!(
            "7f00-7f10 r--p 00000000 fe:00 39 /lib/a.so\nSize: 4 kB\nVmFlags: rd mr mw me \n\
             8000-9000 {access} 00000000 00:00 0 {path}\nSize: 4 kB\nVmFlags: {flags} \n"
        );
        of_mappings(&text, "/t/frames")
    }

    #[test]
    fn what_children_do_not_have_alike_is_an_obstacle() {
        assert_eq!(found("rw-p", "rd wr mr mw me ac", "[heap]"), None);
        for (access, flags) in [("rw-s", "rd wr"), ("rw-p", "rd wf"), ("rw-p", "rd dc"), ("rw-p", "rd lo")] {
            let reason = found(access, flags, "").unwrap();
            assert!(reason.starts_with("it ") && reason.ends_with("(without a name)"), "{reason}");
        }
        for own in ["anon_inode:bpf-map", "/t/frames"] {
            assert_eq!(found("r--s", "rd mr me ms", own), None);
        }
    }

    #[test]
    fn descriptors_stay_what_they_are() {
        let open = |entries: &[(i32, &str)]| {
            entries.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
        };
        let was: Open = open(&[(0, "/dev/null"), (1, "pipe:[1]"), (WINDOW_FDS[0], "window")]);
        let found = |entries: &[(i32, &str)]| of_descriptors(&was, &open(entries), [5, 6]);
        assert_eq!(found(&[(0, "/dev/null"), (1, "pipe:[1]"), (5, "socket:[1]"), (6, "socket:[1]")]), None);
        assert!(found(&[(0, "/dev/null"), (1, "/tmp/log")]).unwrap().contains("changed"));
        assert!(found(&[(0, "/dev/null")]).unwrap().contains("closed"));
        assert!(found(&[(0, "/dev/null"), (1, "pipe:[1]"), (7, "x")]).unwrap().contains("opened"));
        // As proc(5) shows it: the position is anybody's who shares the open file.
        let info = "pos:\t7\nflags:\t0100002\nmnt_id:\t19\nino:\t4\nlock:\t1: POSIX  ADVISORY  READ 9 00:05:4 0 EOF\n";
        assert_eq!(kept(info), "flags:\t0100002lock:\t1: POSIX  ADVISORY  READ 9 00:05:4 0 EOF");
    }

    #[test]
    fn a_signal_that_waits_is_an_obstacle() {
        let status = |own: &str, shared: &str| {
            format!("Threads:\t1\nSigQ:\t1/9\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0200\n")
        };
        assert_eq!(of_status(&status("0000", "0000")), None);
        assert!(of_status(&status("0200", "0000")).is_some());
        assert!(of_status(&status("0000", "0200")).is_some());
    }
}
