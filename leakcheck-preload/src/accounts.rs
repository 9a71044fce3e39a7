//! What the accounts of a process's threads come to (see [`account`]).

use crate::layout::account;

/// What one thread has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account([i64; account::WORDS]);

/// What all threads have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Blocks allocated.
    pub blocks: u64,
    /// Their requested sizes.
    pub bytes: u64,
    /// The most bytes alive at a time are at least these.
    pub at_least: u64,
    /// And at most these.
    pub at_most: u64,
}

impl Account {
    /// From the bytes in the process.
    pub fn of(bytes: &[u8; account::WORDS * 8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        Self(std::array::from_fn(|word| i64::from_ne_bytes(words[word])))
    }

    /// The most that it ever had for itself.
    fn top(&self) -> i64 {
        self.0[account::TOP].max(self.0[account::OLD_TOP])
    }

    /// The least.
    fn bottom(&self) -> i64 {
        self.0[account::BOTTOM].min(self.0[account::OLD_BOTTOM])
    }
}

impl Accounts {
    /// Of all threads, and of what they have handed over: live bytes, and the most that those ever were.
    ///
    /// The bytes alive at a time are the shared ones then, and what each thread had for itself. Of a single thread it is
    /// known what it had when the shared ones were what they were. Of several it is not: then the peak is as far from the most
    /// of the shared ones as they had for themselves at most. Where threads may keep nothing for themselves, that is nothing.
    pub fn of(accounts: &[Account], live: i64, most: i64) -> Self {
        let number = |of: i64| u64::try_from(of).unwrap_or(0);
        // What a process has written may be anything.
        let sum = |of: &dyn Fn(&Account) -> i64| accounts.iter().map(of).fold(0, i64::saturating_add);
        let word = |word: usize| sum(&|it: &Account| it.0[word]);
        let (blocks, bytes) = (number(word(account::BLOCKS)), number(word(account::BYTES)));
        if let [Account(words)] = accounts {
            let peak = most.max(words[account::PEAK]).max(live.saturating_add(words[account::TOP]));
            return Self { blocks, bytes, at_least: number(peak), at_most: number(peak) };
        }
        let (tops, bottoms) = (sum(&Account::top), sum(&Account::bottom));
        let at_most = number(most.saturating_add(tops)).min(bytes);
        // What is alive now is alive at a time, too.
        let now = live.saturating_add(word(account::LIVE));
        let mut at_least = most.saturating_add(bottoms).max(now);
        if accounts.iter().all(|it| it.0[account::HANDED] == 0) {
            // Nothing was ever shared: when one had its most, the others had no less than their least.
            let one = accounts.iter().map(|it| it.top().saturating_add(bottoms.saturating_sub(it.bottom())));
            at_least = at_least.max(one.max().unwrap_or(0));
        }
        Self { blocks, bytes, at_least: number(at_least).min(at_most), at_most }
    }
}
