use super::Measure;

/// What a test has allocated in its window, whether it is still there or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// All blocks; each `realloc` is one.
    pub total: Measure,
    /// The most bytes of them that were alive at a time.
    pub peak: Peak,
}

/// A number of bytes, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// It is at least this.
    pub at_least: u64,
    /// It is at most this: the same where it is exact.
    pub at_most: u64,
}

impl Peak {
    /// One that is known.
    pub fn exactly(bytes: u64) -> Self {
        Self { at_least: bytes, at_most: bytes }
    }

    /// What it is, where that is known.
    pub fn exact(self) -> Option<u64> {
        (self.at_least == self.at_most).then_some(self.at_least)
    }
}

/// `1048576 B`, or `between 1024 B and 4096 B`.
impl std::fmt::Display for Peak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.exact() {
            Some(bytes) => write!(f, "{bytes} B"),
            None => write!(f, "between {} B and {} B", self.at_least, self.at_most),
        }
    }
}

/// Of two processes together: nobody knows whether their peaks were at the same time.
impl std::ops::Add for Heap {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (one, two) = (self.peak, other.peak);
        let peak = Peak {
            at_least: one.at_least.max(two.at_least),
            at_most: one.at_most.saturating_add(two.at_most),
        };
        Self { total: self.total + other.total, peak }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_of_two_processes_may_have_been_at_the_same_time_or_not() {
        let of = |bytes, blocks, peak| Heap { total: Measure { bytes, blocks }, peak: Peak::exactly(peak) };
        let both = of(100, 3, 60) + of(50, 2, 40);
        assert_eq!(both.total, Measure { bytes: 150, blocks: 5 });
        assert_eq!(both.peak, Peak { at_least: 60, at_most: 100 });
        assert_eq!(both.peak.to_string(), "between 60 B and 100 B");
        assert_eq!((of(1, 1, 1) + Heap::default()).peak.exact(), Some(1));
    }
}
