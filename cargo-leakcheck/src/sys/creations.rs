//! Who makes files in a directory (fanotify(7)). Only who does so pays for it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{Pid, read};

/// A watch on a directory.
pub struct Creations(OwnedFd);

/// Files that have got a name in the directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// By which process, and the name, in the order that it happened.
    pub files: Vec<(Pid, Vec<u8>)>,
    /// There was no room for all.
    pub lost: bool,
}

impl Creations {
    /// Watches a directory from now on.
    ///
    /// # Errors
    /// There is none, or the kernel refuses, mostly for missing privileges.
    pub fn watch(directory: &CStr) -> Result<Self, Errno> {
        // Only who has CAP_SYS_ADMIN is told which process it was. A queue without an end takes that as well: others are
        // refused here, and strangers' files do not use up the room for those of tests.
        let flags = libc::FAN_REPORT_DIR_FID
            | libc::FAN_REPORT_NAME
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK;
        // SAFETY: the call takes numbers only.
        let fd = Errno::result(unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) })?;
        // SAFETY: the kernel has just returned this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let events = libc::FAN_CREATE | libc::FAN_MOVED_TO;
        // SAFETY: the path ends with a zero.
        let marked = unsafe {
            libc::fanotify_mark(
                fd.as_raw_fd(),
                libc::FAN_MARK_ADD,
                events,
                libc::AT_FDCWD,
                directory.as_ptr(),
            )
        };
        Errno::result(marked)?;
        Ok(Self(fd))
    }

    /// What has happened since it was asked last.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self) -> io::Result<Made> {
        let (mut made, mut buffer) = (Made::default(), vec![0; 1 << 14]);
        loop {
            match read(&self.0, &mut buffer) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(made),
                Ok(length) => parse(&buffer[..length], &mut made),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Takes events: `struct fanotify_event_metadata`, and behind it records that begin with `struct
/// fanotify_event_info_header` (include/uapi/linux/fanotify.h).
fn parse(mut events: &[u8], made: &mut Made) {
    while let Some(length) = number::<4>(events, 0) {
        let Some((event, rest)) = events.split_at_checked(length as usize).filter(|_| length > 0) else {
            return;
        };
        events = rest;
        let (Some(head), Some(mask), Some(pid)) =
            (number::<2>(event, 6), number::<8>(event, 8), number::<4>(event, 20))
        else {
            return;
        };
        made.lost |= mask & libc::FAN_Q_OVERFLOW != 0;
        if let Some(name) = event.get(head as usize..).and_then(name) {
            made.files.push((Pid::from_raw(pid as i32), name.to_owned()));
        }
    }
}

/// The name in the records of an event.
fn name(mut records: &[u8]) -> Option<&[u8]> {
    loop {
        let length = number::<2>(records, 2).filter(|length| *length > 0)? as usize;
        let record = records.get(..length)?;
        if record[0] == libc::FAN_EVENT_INFO_TYPE_DFID_NAME {
            // Behind the head and the id of the file system there is the directory's handle: its size, type, bytes.
            let handle = number::<4>(record, 12)? as usize;
            return Some(CStr::from_bytes_until_nul(record.get(20 + handle..)?).ok()?.to_bytes());
        }
        records = &records[length..];
    }
}

/// A number of so many bytes.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..BYTES].copy_from_slice(bytes.get(at..at + BYTES)?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of process 0x4886 as the kernel has written it for a file `xx`.
    const EVENT: [u8; 60] = *b"<\x00\x00\x00\x03\x00\x18\x00\x00\x01\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x86H\x00\x00\
        \x02\x00$\x00M\x8b\xbf\x10j\xdf\x86\xb4\x0c\x00\x00\x00\x01\x00\x00\x00\x84}i\x0e\x01\x00\x00\x00\x00\x00\x00\x00xx\x00\x00";

    #[test]
    fn events_name_process_and_file() {
        let mut overflow = EVENT[..24].to_vec();
        (overflow[0], overflow[9]) = (24, 0x40);
        let mut made = Made::default();
        parse(&[&EVENT[..], &overflow, &EVENT].concat(), &mut made);
        let file = (Pid::from_raw(0x4886), b"xx".to_vec());
        assert_eq!(made, Made { files: vec![file.clone(), file], lost: true });
    }

    #[test]
    fn what_is_cut_off_is_no_event() {
        for end in 0..EVENT.len() {
            let mut made = Made::default();
            parse(&EVENT[..end], &mut made);
            assert_eq!(made, Made::default());
        }
    }
}
