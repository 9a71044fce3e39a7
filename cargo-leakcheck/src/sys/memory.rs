//! Memory for which the system may have no room.

use std::alloc::{Layout, alloc_zeroed};
use std::io;

/// So many zeros. Those that nobody writes over take no memory.
///
/// # Errors
/// There is no room for them.
pub fn zeros(bytes: usize) -> io::Result<Vec<u8>> {
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).map_err(io::Error::other)?;
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: it is from the global allocator with this layout, and all of it is initialized.
    Ok(unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_an_error() {
        assert_eq!(zeros(0).unwrap(), b"");
        assert_eq!(zeros(3).unwrap(), [0; 3]);
        // More than a process has addresses.
        assert_eq!(zeros(1 << 50).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert!(zeros(usize::MAX).is_err());
    }
}
