//! Runs a test binary to list its tests, and trusts it with nothing: not with time, not with the
//! amount it prints, not with the processes it leaves behind.

use std::ffi::OsStr;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::model::TestBinary;

/// Longest time that a listing may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Most bytes that a listing may have.
const SIZE_LIMIT: u64 = 64 << 20;
/// Bytes of standard error that are kept for the reason of a failure.
const ERROR_LIMIT: u64 = 2048;

/// Runs the binary and returns its standard output, or why there is none to go by.
pub fn output(
    binary: &TestBinary,
    arguments: &[impl AsRef<OsStr>],
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let files = || -> std::io::Result<_> { Ok((tempfile::tempfile()?, tempfile::tempfile()?)) };
    let (mut stdout, mut stderr) =
        files().map_err(|error| format!("cannot create a temporary file: {error}"))?;
    let spawn = || {
        Command::new(&binary.path)
            .args(arguments)
            .current_dir(&binary.directory)
            .env_clear()
            .envs(binary.environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            // Files, not pipes: whoever else holds them cannot make us wait.
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()
    };
    let mut child = spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let size = || stdout.metadata().map_or(0, |metadata| metadata.len());
    let ended = wait(&mut child, limit, size);
    // The group holds whatever the binary has started and not waited for.
    if let Ok(id) = child.id().try_into() {
        // An empty group is what we want.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
    let status = match ended {
        Ok(status) => status,
        Err(reason) => {
            let _ = child.wait();
            return Err(reason);
        }
    };
    let read = |file: &mut std::fs::File, limit| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.take(limit).read_to_end(&mut bytes)).map(|_| bytes)
    };
    if !status.success() {
        let text = read(&mut stderr, ERROR_LIMIT).unwrap_or_default();
        return Err(failure(status, &String::from_utf8_lossy(&text)));
    }
    read(&mut stdout, SIZE_LIMIT).map_err(|error| format!("its output cannot be read: {error}"))
}

fn wait(child: &mut Child, limit: Duration, size: impl Fn() -> u64) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() >= deadline => {
                return Err(format!("did not end within {} s", limit.as_secs_f32()));
            }
            Ok(None) if size() > SIZE_LIMIT => {
                return Err(format!("printed more than {} MiB", SIZE_LIMIT >> 20));
            }
            Ok(None) => std::thread::sleep(pause),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn failure(status: ExitStatus, stderr: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended with {status}"),
    };
    match stderr.lines().rfind(|line| !line.trim().is_empty()) {
        // It is shown on a terminal, which a test binary has no business to steer.
        Some(line) => format!("{how} ({})", line.trim().replace(char::is_control, "\u{fffd}")),
        None => how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TargetKind;

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        let binary = TestBinary {
            package: String::new(),
            target: "sh".to_owned(),
            kind: TargetKind::Program,
            path: "/bin/sh".into(),
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        output(&binary, &["-c", script], limit).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn environment_and_directory_are_the_binarys() {
        assert_eq!(shell("echo $PATH $HOME; pwd", TIME_LIMIT), Ok("/usr/bin:/bin\n/\n".to_owned()));
    }

    #[test]
    fn failures_say_how() {
        assert_eq!(
            shell("echo one; echo two >&2; exit 3", TIME_LIMIT),
            Err("ended with exit code 3 (two)".to_owned())
        );
        assert_eq!(shell("kill -9 $$", TIME_LIMIT), Err("was ended by signal 9".to_owned()));
        let colours = shell("printf 'a\\033[2Jb' >&2; exit 1", TIME_LIMIT);
        assert_eq!(colours, Err("ended with exit code 1 (a\u{fffd}[2Jb)".to_owned()));
    }

    #[test]
    fn hanging_ends_with_everything_it_started() {
        let marker = tempfile::tempdir().unwrap();
        let path = marker.path().join("alive");
        let script = format!("(sleep 1; touch {}) & sleep 60", path.display());
        let start = Instant::now();
        let reason = shell(&script, Duration::from_millis(200)).unwrap_err();
        assert!(reason.contains("did not end within 0.2 s"), "{reason}");
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(1300));
        assert!(!path.exists(), "its child lives on");
    }

    #[test]
    fn background_processes_hold_nothing_up() {
        let start = Instant::now();
        assert_eq!(shell("sleep 60 & echo done", TIME_LIMIT), Ok("done\n".to_owned()));
        assert!(start.elapsed() < TIME_LIMIT);
    }

    #[test]
    fn endless_output_is_cut() {
        let reason = shell("yes", TIME_LIMIT).unwrap_err();
        assert!(reason.contains("printed more than 64 MiB"), "{reason}");
    }
}
