//! Sessions as a C library hands them out, and tests of which one leaks.

/// An open session.
pub struct Session {
    buffer: [u8; 4096],
}

/// Opens a session, to be closed by [`close`].
pub fn open() -> *mut Session {
    Box::into_raw(Box::new(Session { buffer: [0; 4096] }))
}

/// Closes a session.
///
/// # Safety
/// It comes from [`open`] and is not used any more.
pub unsafe fn close(session: *mut Session) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(session) });
}

/// How many bytes a session can hold.
pub fn capacity() -> usize {
    let session = open();
    // SAFETY: it has just been opened. And it is never closed: this is the leak.
    unsafe { (&raw const (*session).buffer).as_ref() }.map_or(0, |buffer| buffer.len())
}

/// Words that are set up once and kept.
pub fn dictionary(words: u64) -> &'static [u64] {
    Vec::leak((0..words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use leakcheck::leak_budget;

    #[test]
    fn closes_what_it_opens() {
        let session = open();
        assert!(!session.is_null());
        // SAFETY: it has just been opened.
        unsafe { close(session) };
    }

    #[test]
    fn knows_its_capacity() {
        assert_eq!(capacity(), 4096);
    }

    /// 500 words of 8 bytes are lost on purpose, and not a byte more.
    #[test]
    #[leak_budget(bytes = 4000)]
    fn sets_up_a_dictionary() {
        assert_eq!(dictionary(500).len(), 500);
    }
}
