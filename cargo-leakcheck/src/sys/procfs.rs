//! Files that the kernel makes up as they are read (proc(5)).

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _};

/// The contents of a file whose size the kernel does not tell: in few calls, since each may have it begin anew.
///
/// # Errors
/// It cannot be read.
pub fn contents(path: &str) -> io::Result<Vec<u8>> {
    /// More than most have.
    const ROOM: usize = 1 << 14;
    let mut contents = Vec::with_capacity(ROOM);
    // Limited, or `File` asks for the size.
    File::open(path)?.take(u64::MAX).read_to_end(&mut contents)?;
    Ok(contents)
}

/// The same as text.
///
/// # Errors
/// As above.
pub fn text(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&contents(path)?).into_owned())
}

/// What `/proc/ID/status` has under a name; none where there is no such process or line. `id` may be `self`.
pub fn status(id: impl Display, name: &str) -> Option<String> {
    let text = text(&format!("/proc/{id}/status")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    lines.next().map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_by_its_whole_name() {
        let own = std::process::id().to_string();
        assert_eq!(status("self", "Tgid"), Some(own.clone()));
        assert_eq!(status(own, "PPid"), Some(std::os::unix::process::parent_id().to_string()));
        assert_eq!(status("self", "PPi"), None);
        assert_eq!(status(0, "Tgid"), None);
    }
}
