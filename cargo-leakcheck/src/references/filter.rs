//! Passes over words that cannot be references: almost all of them.

use super::{ADDRESS, Candidate, LOW_TAG, WORD};
use crate::snapshot::Place;

/// Words that begin in one line of memory are looked at together.
const LINE: usize = 64;
/// The byte of a word by which they are: the highest that differs between addresses.
const BYTE: usize = 5;
/// The bytes that are looked at for a line: those of its words, and the two above the last.
const SEEN: usize = LINE + 2;

/// What an address of a block can look like. The C library has blocks far apart, at the program and at its mappings; between
/// lies what text looks like.
pub(super) struct Filter {
    low: Part,
    /// The blocks above the widest gap, where it is so wide that byte [`BYTE`] tells.
    high: Option<Part>,
}

/// Addresses that are not far apart.
#[derive(Clone, Copy)]
struct Part {
    /// The lowest.
    low: u64,
    /// How far the highest is above it, with room for a tag, plus 1.
    span: u64,
    /// The lowest byte [`BYTE`], and how far the highest is above it.
    byte: (u8, u8),
}

impl Part {
    fn new(places: &[Place]) -> Self {
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Self { low: 0, span: 0, byte: (0, 0) };
        };
        let high = last.end().max(last.start.saturating_add(1)).saturating_add(LOW_TAG);
        let (low, span) = (first.start, high - first.start);
        let part = |address: u64| address >> (BYTE * 8);
        let width = part(high) - part(low);
        // No process has such blocks; one that writes nonsense into its records says so.
        let byte = if width > 0xff || high > ADDRESS { (0, 0xff) } else { (part(low) as u8, width as u8) };
        Self { low, span, byte }
    }

    #[inline]
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.low) < self.span
    }

    #[inline]
    fn may_have(&self, byte: u8) -> u8 {
        u8::from(byte.wrapping_sub(self.byte.0) <= self.byte.1)
    }
}

impl Filter {
    /// For blocks that ascend.
    pub(super) fn new(places: &[Place]) -> Self {
        let gap = |after: &usize| places[*after].start.saturating_sub(places[*after - 1].end());
        let widest = (1..places.len()).max_by_key(gap).filter(|after| gap(after) >> (BYTE * 8) > 0);
        let (low, high) = places.split_at(widest.unwrap_or(places.len()));
        Self { low: Part::new(low), high: widest.map(|_| Part::new(high)) }
    }

    #[inline]
    fn is_near(&self, candidate: Candidate) -> bool {
        let address = candidate.address();
        self.low.has(address) || self.high.is_some_and(|high| high.has(address))
    }

    /// Calls `found` with all words in `bytes`, which are those at `address`, that may be references;
    /// in the order of their places.
    #[inline]
    pub(super) fn candidates(&self, address: u64, bytes: &[u8], mut found: impl FnMut(Candidate)) {
        let mut one = |place: usize| {
            if let Some(word) = bytes.get(place..).and_then(|bytes| bytes.first_chunk()) {
                let candidate = Candidate { place: address + place as u64, word: u64::from_le_bytes(*word) };
                if self.is_near(candidate) {
                    found(candidate);
                }
            }
        };
        let lead = (address.wrapping_neg() % WORD as u64) as usize;
        (0..lead.min(bytes.len())).for_each(&mut one);
        let mut place = lead;
        let refers_to_zero = [Some(self.low), self.high].into_iter().flatten().any(|part| part.byte.0 == 0);
        while let Some(line) = bytes.get(place + BYTE..).and_then(|bytes| bytes.first_chunk::<SEEN>()) {
            place += LINE;
            // Much memory has never been written to.
            if !refers_to_zero && line.iter().fold(0, |all, byte| all | byte) == 0 {
                continue;
            }
            let (aligned, unaligned) = match &self.high {
                None => may_have(line, |byte| self.low.may_have(byte)),
                Some(high) => may_have(line, |byte| self.low.may_have(byte) | high.may_have(byte)),
            };
            let place = place - LINE;
            if unaligned {
                (place..place + LINE).for_each(&mut one);
            } else if aligned {
                (place..place + LINE).step_by(WORD).for_each(&mut one);
            }
        }
        (place..bytes.len()).for_each(&mut one);
    }
}

/// Whether words that begin in a line may be references: aligned ones, and others. The line comes
/// from byte [`BYTE`] of its first word on; what that byte may be is asked. Written for the compiler to take many bytes at a time.
#[inline]
fn may_have(line: &[u8; SEEN], may_be: impl Fn(u8) -> u8) -> (bool, bool) {
    let (mut aligned, mut unaligned) = (0_u8, 0_u8);
    for place in 0..LINE {
        let is_address = may_be(line[place]);
        let is_plain = u8::from(line[place + 1] | line[place + 2] == 0);
        let is_aligned = u8::from(place % WORD == 0);
        aligned |= is_address & is_aligned;
        unaligned |= is_address & is_plain & (is_aligned ^ 1);
    }
    (aligned != 0, unaligned != 0)
}
