//! What a test writes: read as it comes, so that the test never waits for us, and kept up to a
//! limit.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::model::Stdio;
use crate::sys::Patient;

/// Bytes kept of the beginning and of the end of a stream, each.
const KEPT: usize = 256 << 10;

/// One captured stream.
pub struct Capture {
    pipe: Option<File>,
    /// Where what comes goes on to.
    onward: Option<Patient<OwnedFd>>,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    /// Makes the pipe; its other end is for the child.
    pub fn new() -> Result<(Self, OwnedFd), Errno> {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((Self { pipe: Some(read.into()), ..Self::none() }, write))
    }

    /// Captures nothing.
    pub fn none() -> Self {
        Self { pipe: None, onward: None, head: Vec::new(), tail: VecDeque::new(), dropped: 0 }
    }

    /// The pipe to wait for, until the other end is closed.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there, 1 MiB at most, so that a test that writes without end cannot keep us; how many bytes that was.
    pub fn read(&mut self) -> usize {
        const MOST: usize = 1 << 20;
        let mut piece = [0; 16 << 10];
        let mut done = 0;
        while done < MOST
            && let Some(pipe) = &mut self.pipe
        {
            match pipe.read(&mut piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    done += count;
                    self.hand_on(&piece[..count]);
                    self.keep(&piece[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
        done
    }

    /// Waits, where the other end is slow.
    fn hand_on(&mut self, bytes: &[u8]) {
        let Some(onward) = &mut self.onward else { return };
        if onward.write_all(bytes).is_err() {
            // Nobody is listening any more.
            self.onward = None;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// What was kept, and the number of bytes dropped from the middle.
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        self.read();
        if self.dropped > 0 {
            self.head.extend_from_slice(format!("\n[{} bytes dropped]\n", self.dropped).as_bytes());
        }
        self.head.extend(self.tail);
        (self.head, self.dropped)
    }
}

/// The captures of standard output and error, and the three streams for the child.
///
/// # Errors
/// The system has no room for another descriptor.
pub fn streams(stdio: Stdio, null: &Arc<OwnedFd>) -> io::Result<([Capture; 2], [Arc<OwnedFd>; 3])> {
    let own = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(Arc::new);
    let stdin = || {
        let stdin = io::stdin();
        if stdin.is_terminal() { Ok(null.clone()) } else { own(stdin.as_fd()) }
    };
    if matches!(stdio, Stdio::Captured | Stdio::Forwarded) {
        let (mut stdout, write_out) = Capture::new()?;
        let (mut stderr, write_err) = Capture::new()?;
        let mut input = null.clone();
        if stdio == Stdio::Forwarded {
            input = stdin()?;
            stdout.onward = Some(Patient(io::stdout().as_fd().try_clone_to_owned()?));
            stderr.onward = Some(Patient(io::stderr().as_fd().try_clone_to_owned()?));
        }
        return Ok(([stdout, stderr], [input, Arc::new(write_out), Arc::new(write_err)]));
    }
    let stdin = stdin()?;
    let stderr = own(io::stderr().as_fd())?;
    let stdout = match stdio {
        Stdio::PassedToStderr => stderr.clone(),
        _ => own(io::stdout().as_fd())?,
    };
    Ok(([Capture::none(), Capture::none()], [stdin, stdout, stderr]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_too_much_is_dropped() {
        let (mut capture, _write) = Capture::new().unwrap();
        capture.keep(&vec![b'a'; KEPT]);
        capture.keep(&vec![b'b'; 1000]);
        capture.keep(&vec![b'c'; KEPT]);
        let (bytes, dropped) = capture.finish();
        assert_eq!(dropped, 1000);
        let note = b"\n[1000 bytes dropped]\n";
        assert_eq!(bytes.len(), 2 * KEPT + note.len());
        assert!(bytes.starts_with(b"aaa") && bytes.ends_with(b"ccc"));
        assert_eq!(&bytes[KEPT..][..note.len()], note);
    }
}
