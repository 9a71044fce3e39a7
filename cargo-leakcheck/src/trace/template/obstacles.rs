//! What a process may have done before its program begins that one which is forked from there would not have, or would share
//! with others.

use std::collections::BTreeSet;
use std::io;

use leakcheck_preload::layout::WINDOW_FDS;
use nix::unistd::Pid;

use crate::{harvest, sys};

/// The window bits: the kernel side's, and the tracer's own.
const WINDOWS: [&str; 2] = ["anon_inode:bpf-map", "/memfd:leakcheck-window"];

/// The descriptors that a process has open.
///
/// # Errors
/// It is gone.
pub fn descriptors(pid: Pid) -> io::Result<BTreeSet<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Why nothing is to be forked from a process that is prepared for it. `inherited` are descriptors that it has had from its
/// start on, `sockets` those that it has been given since, `table` is the file that its ledger has mapped.
pub fn find(pid: Pid, inherited: &BTreeSet<i32>, sockets: [i32; 2], table: &str) -> Option<String> {
    let failed = |error: io::Error| Some(format!("it cannot be looked at: {error}"));
    if harvest::threads_of(pid).len() != 1 {
        return Some("it has started a thread".into());
    }
    match descriptors(pid) {
        Ok(open) if open.iter().any(|number| !inherited.contains(number) && !sockets.contains(number)) => {
            return Some("it has opened a descriptor".into());
        }
        // That of the window bits is closed by the ledger.
        Ok(open) if inherited.iter().any(|number| !open.contains(number) && !WINDOW_FDS.contains(number)) => {
            return Some("it has closed a descriptor".into());
        }
        Ok(_) => {}
        Err(error) => return failed(error),
    }
    if sys::text(&format!("/proc/{pid}/timers")).is_ok_and(|timers| !timers.is_empty()) {
        return Some("it has made a timer".into());
    }
    match sys::text(&format!("/proc/{pid}/status")) {
        Ok(text) if has_pending(&text) => return Some("it has a signal that is pending".into()),
        Ok(_) => {}
        Err(error) => return failed(error),
    }
    match sys::text(&format!("/proc/{pid}/smaps")) {
        Ok(text) => of_mappings(&text, table),
        Err(error) => failed(error),
    }
}

/// Whether a signal waits until it is not blocked any more: `text` is `/proc/PID/status`. Children do not have it.
fn has_pending(text: &str) -> bool {
    let masks = text.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    masks.map(str::trim).any(|mask| mask.bytes().any(|digit| digit != b'0'))
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
    fn pending_signals_are_those_of_the_thread_and_of_the_process() {
        let text = |thread: &str, process: &str| {
            format!(
                "Name:\ta\nSigQ:\t1/9\nSigPnd:\t{thread}\nShdPnd:\t{process}\nSigBlk:\t0000000000000200\n"
            )
        };
        let none = "0000000000000000";
        assert!(!has_pending(&text(none, none)));
        assert!(has_pending(&text("0000000000000200", none)) && has_pending(&text(none, "8000000000000000")));
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
}
