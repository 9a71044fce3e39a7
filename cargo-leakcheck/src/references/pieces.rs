//! Memory that comes in pieces, without losing the words that lie across two of them.

use super::WORD;

/// What words of the next piece may begin in.
#[derive(Default)]
pub(super) struct Pieces {
    tail: Vec<u8>,
    /// Address behind the last byte read.
    end: u64,
}

impl Pieces {
    /// Calls `words` with memory such that every word of it is in exactly one call.
    pub(super) fn read(&mut self, address: u64, bytes: &[u8], mut words: impl FnMut(u64, &[u8])) {
        if address != self.end {
            self.tail.clear();
        }
        let start = address - self.tail.len() as u64;
        // Fewer bytes than a word's: all that begins there ends in this piece.
        let next = &bytes[..bytes.len().min(WORD - 1)];
        self.tail.extend_from_slice(next);
        words(start, &self.tail);
        words(address, bytes);
        if bytes.len() >= WORD - 1 {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - (WORD - 1)..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(WORD - 1));
        }
        self.end = address + bytes.len() as u64;
    }
}
