//! POSIX timers of a process.

use nix::unistd::Pid;

use crate::model::LeftTimer;
use crate::sys;

/// Those that it has not deleted.
pub fn of(process: Pid) -> Vec<LeftTimer> {
    // Kernels without checkpoints have no such list.
    parse(&sys::text(&format!("/proc/{process}/timers")).unwrap_or_default())
}

/// Four lines a timer (proc(5)): `ID: 1`, `signal: 60/00007fff86e452a8`, `notify: signal/pid.2634`, `ClockID: 0`.
/// Kernels may add others.
fn parse(text: &str) -> Vec<LeftTimer> {
    let mut timers: Vec<LeftTimer> = Vec::new();
    let mut signal = "";
    for (key, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        match (key, value.trim(), timers.last_mut()) {
            ("ID", id, _) => {
                let id = id.parse().unwrap_or(0);
                timers.push(LeftTimer { id, clock: String::new(), notify: String::new() });
            }
            ("signal", value, _) => signal = value.split('/').next().unwrap_or_default(),
            ("notify", value, Some(timer)) => {
                timer.notify = match value.split(['/', '.']).next().unwrap_or_default() {
                    "signal" => format!("signal {signal}"),
                    other => other.to_owned(),
                };
            }
            ("ClockID", value, Some(timer)) => timer.clock = clock(value),
            _ => {}
        }
    }
    timers
}

/// The name of a clock (clock_gettime(2)).
fn clock(number: &str) -> String {
    let name = match number {
        "0" => "CLOCK_REALTIME",
        "1" => "CLOCK_MONOTONIC",
        "2" => "CLOCK_PROCESS_CPUTIME_ID",
        "3" => "CLOCK_THREAD_CPUTIME_ID",
        "7" => "CLOCK_BOOTTIME",
        "8" => "CLOCK_REALTIME_ALARM",
        "9" => "CLOCK_BOOTTIME_ALARM",
        "11" => "CLOCK_TAI",
        number => return format!("clock {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of proc(5).
    #[test]
    fn the_list_of_the_manual_page() {
        let text = "ID: 1\nsignal: 60/00007fff86e452a8\nnotify: signal/pid.2634\nClockID: 0\n\
            ID: 0\nsignal: 60/00007fff86e452a8\nnotify: signal/pid.2634\nClockID: 1\n";
        let timer = |id, clock: &str| LeftTimer { id, clock: clock.into(), notify: "signal 60".into() };
        assert_eq!(parse(text), [timer(1, "CLOCK_REALTIME"), timer(0, "CLOCK_MONOTONIC")]);
        let none = parse("ID: 2\nsignal: 0/0\nnotify: none/pid.1\nClockID: -6\n");
        assert_eq!((none[0].notify.as_str(), none[0].clock.as_str()), ("none", "clock -6"));
        assert_eq!(parse(""), []);
    }
}
