//! Writing to whoever may not read: a pipe that is full must not keep a run from its end.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use super::interrupt::asked_to_end_for;

/// What can be written to a pipe that has room, without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;
/// How long after the user has asked for the run's end there may be no room.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is asked whether he has.
const PAUSE: u8 = 50;

/// Writes past all buffers, and waits for room as long as the user has not asked for the end of the run. From then on it
/// is an error of the kind [`io::ErrorKind::TimedOut`] where nobody reads.
pub struct Patient<F>(pub F);

impl<F: AsFd> Write for Patient<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !has_room(&self.0) {
            if asked_to_end_for().is_some_and(|time| time >= PATIENCE) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
            }
        }
        Ok(nix::unistd::write(&self.0, &bytes[..bytes.len().min(PIECE)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether there is, or will never be any (which writing tells).
fn has_room(file: impl AsFd) -> bool {
    let mut files = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    poll(&mut files, PAUSE) != Ok(0) && files[0].any() != Some(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn who_reads_slowly_gets_everything() {
        let (mut reader, writer) = io::pipe().unwrap();
        // More than a pipe holds.
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let sent = bytes.clone();
        let writing = std::thread::spawn(move || Patient(writer).write_all(&sent));
        std::thread::sleep(Duration::from_millis(200));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap().unwrap();
        assert!(read == bytes);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(Patient(writer).write_all(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(Patient(full).write_all(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
