//! The ledger's tables, on this machine's memory.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::account::{Account, Shared};
use crate::accounts::{self, Accounts};
use crate::by_stack::ByStack;
use crate::layout::{account, block, by_stack, control, length, stack};
use crate::memo::{self, Slot};
use crate::pool::Pool;
use crate::stacks::at_peak;
use crate::table::{BLOCK_ROOTS, Blocks, STACK_ROOTS, Stacks};
use crate::thread::{CallStack, Read};

mod records;

/// Words that live for ever, as the ledger's do.
fn words(count: usize) -> &'static [AtomicU64] {
    (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn roots(count: usize) -> AtomicU64 {
    AtomicU64::new(words(count.div_ceil(2)).as_ptr().addr() as u64)
}

fn pool<const UNIT: usize, const FIRST: usize>() -> Pool<UNIT, FIRST> {
    let next = &words(1)[0];
    next.store(1, std::sync::atomic::Ordering::Relaxed);
    let pool = Pool::new(words(control::CHUNKS), next);
    pool.first_chunk();
    pool
}

fn blocks() -> &'static Blocks {
    Box::leak(Box::new(Blocks {
        pool: pool::<{ block::WORDS }, { block::FIRST }>(),
        roots: roots(BLOCK_ROOTS),
    }))
}

/// Threads that write at once into one trie: every address has a record of its own, and keeps it.
#[test]
fn addresses_have_records_of_their_own() {
    let blocks = blocks();
    // Side by side in pages, far apart, and closer than the smallest block of any allocator.
    let address = |thread: usize, n: usize| {
        0x7f00_0000_0000 + thread * 0x1000 + n * 32 + n / 100 * (1 << 30) + (n % 2) * 8
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..10_000 {
                    let record = blocks.find_or_make(address(thread * 50, n)).unwrap();
                    record.write(n as u64, 7, thread as u32, block::LIVE | (n as u64) << 32);
                }
            });
        }
    });
    for thread in 0..4 {
        for n in 0..10_000 {
            let record = blocks.find(address(thread * 50, n)).unwrap();
            assert_eq!(record.flags(), block::LIVE | (n as u64) << 32);
        }
    }
    assert!(blocks.find(0x1234).is_none());
    let again = blocks.find_or_make(address(0, 5)).unwrap();
    assert_eq!(again.flags() >> 32, 5, "an address that is known has its record still");
}

/// A `realloc` that lost its old address to another thread leaves the other's block alone.
#[test]
fn flags_are_replaced_only_where_nobody_else_has() {
    let record = blocks().find_or_make(0x1000).unwrap();
    let moving = block::LIVE | block::MOVING | 1 << 32;
    record.set_flags(moving);
    record.replace_flags(moving, 1 << 32);
    assert_eq!(record.flags(), 1 << 32);
    record.set_flags(block::LIVE | 2 << 32);
    record.replace_flags(moving, 1 << 32);
    assert_eq!(record.flags(), block::LIVE | 2 << 32);
}

/// Equal stacks have one number, from whichever thread; others have others, also those with one hash.
#[test]
fn stacks_are_told_by_their_frames() {
    let stacks: &Stacks =
        Box::leak(Box::new(Stacks { pool: pool::<1, { stack::FIRST }>(), roots: roots(STACK_ROOTS) }));
    let number = |n: u64, hash: u64| {
        let frames: Vec<u64> = (0..n % 127 + 1).map(|frame| frame * 3 + n).collect();
        stacks.number(CallStack { frames: &frames, hash }).unwrap()
    };
    let all = |hash: fn(u64) -> u64| -> Vec<u32> { (0..3000).map(|n| number(n, hash(n))).collect() };
    let lists: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| all(|n| n % 50))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(lists.iter().all(|list| *list == lists[0]));
    let different: HashSet<u32> = lists[0].iter().copied().collect();
    assert_eq!(different.len(), 3000);
}

/// A walk is found again where all that it has read says what it said, and nothing is read that it would not read.
#[test]
fn walks_are_remembered_by_what_they_read() {
    const STACK: u32 = 42;
    let pool: &memo::Words = Box::leak(Box::new(pool()));
    // Two frames, and a word beyond that is read alone; the words between them are not read.
    let memory = words(16);
    let place = |word: usize| memory[word].as_ptr().addr() as u64;
    let set = |word: usize, value: u64| memory[word].store(value, Relaxed);
    let get = |word: usize| memory[word].load(Relaxed);
    for (word, value) in [(0, place(4)), (1, 0x1000), (4, 5), (5, 0x2000), (7, 0x3000)] {
        set(word, value);
    }
    let frame = place(0) as usize;
    // SAFETY: two words are there.
    let slot = || unsafe { Slot::of(frame) };
    // SAFETY: all that is read is there, as long as it was reached.
    let found = || unsafe { slot().call_stack(frame, pool) };
    let keep = || {
        slot().keep(pool, STACK, 3, |note| {
            note(Read { place: place(0), first: get(0), second: Some(get(1)) });
            note(Read { place: place(4), first: get(4), second: Some(get(5)) });
            note(Read { place: place(7), first: get(7), second: None });
        });
    };
    let misses = || (1..).find(|_| slot().missed()).unwrap();
    assert_eq!((found(), misses()), (None, 9), "once it has not been found eight times");
    keep();
    assert_eq!(found(), Some(STACK));
    for word in [0, 1, 4, 5, 7] {
        let before = get(word);
        for bit in [0, 63] {
            set(word, before ^ 1 << bit);
            assert_eq!(found(), None, "word {word}");
            set(word, before);
        }
        assert_eq!(found(), Some(STACK));
    }
    for word in [2, 3, 6, 8] {
        set(word, 1);
    }
    assert_eq!(found(), Some(STACK));
    assert_eq!(misses(), 33, "four times as often for another one in its place");
    // At a place that is no word's, what is one word and what are two is not told apart.
    slot().keep(pool, STACK + 1, 2, |note| {
        note(Read { place: place(0), first: get(0), second: Some(get(1)) });
        note(Read { place: place(4) + 1, first: 0, second: Some(0) });
    });
    assert_eq!(found(), Some(STACK));
    // A walk that has read where nothing is any more, and leads elsewhere now.
    set(0, 8);
    slot().keep(pool, STACK, 2, |note| {
        note(Read { place: place(0), first: 8, second: Some(get(1)) });
        note(Read { place: 8, first: 0, second: Some(0) });
    });
    set(0, place(4));
    assert_eq!(found(), None);
}

/// A signal handler that interrupts a comparison may fork: in the child the rest of the record reads as zeros.
#[test]
fn no_place_of_a_wiped_record_is_read() {
    let pool: &memo::Words = Box::leak(Box::new(pool()));
    let memory = words(2);
    let frame = memory[0].as_ptr().addr();
    // SAFETY: two words are there.
    let slot = || unsafe { Slot::of(frame) };
    (1..).find(|_| slot().missed());
    slot().keep(pool, 42, 2, |note| {
        note(Read { place: frame as u64, first: 0, second: Some(0) });
        note(Read { place: 8, first: 0, second: Some(0) });
    });
    // The first record of the pool: the number of the call stack, and three words for each read.
    for word in 4..7 {
        // SAFETY: the second read.
        unsafe { (*pool.words(1).add(word)).store(0, Relaxed) };
    }
    // SAFETY: what is left of the record says that nothing else is read.
    assert!(unsafe { slot().call_stack(frame, pool) }.is_some());
}

/// No record lies in two chunks.
#[test]
fn records_stay_in_one_chunk() {
    let pool = pool::<1, 64>();
    for n in 0..2000 {
        let count = n % 60 + 1;
        let start = pool.take(count).unwrap() as usize;
        let chunk = |number| crate::layout::place(number, 64).0;
        assert_eq!(chunk(start), chunk(start + count - 1));
        // All of it can be written to.
        let words = pool.words(start as u32);
        for word in 0..count {
            // SAFETY: so many words were taken.
            unsafe { (*words.add(word)).store(1, std::sync::atomic::Ordering::Relaxed) };
        }
    }
}

/// Accounts of threads, which take turns, and what is true of them.
struct Threads {
    accounts: Vec<(&'static [AtomicU64], Account)>,
    shared: Shared,
    now: i64,
    peak: i64,
}

impl Threads {
    fn new(number: usize, slack: u64) -> Self {
        let account = |_| {
            let words = words(account::WORDS);
            // SAFETY: so many words, which live for ever.
            (words, unsafe { Account::at(words.as_ptr()) })
        };
        let [live, most] = [0, 1].map(|_| &words(1)[0]);
        let accounts = (0..number).map(account).collect();
        Self { accounts, shared: Shared { live, most, slack, by_stack: None }, now: 0, peak: 0 }
    }

    /// A thread allocates a block, and frees what counted with so many bytes.
    fn change(&mut self, thread: usize, new: Option<usize>, old: i64) {
        let account = self.accounts[thread].1;
        if let Some(size) = new {
            account.allocated(size);
        }
        let by = new.unwrap_or(0) as i64 - old;
        account.change(by, old as u64, || 0, || self.shared);
        self.now += by;
        self.peak = self.peak.max(self.now);
    }

    fn sum(&self) -> Accounts {
        let accounts = self.accounts.iter().map(|(words, _)| {
            let bytes = words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes());
            accounts::Account::of(&bytes.collect::<Vec<_>>().try_into().unwrap())
        });
        let word = |word: &AtomicU64| word.load(Relaxed) as i64;
        Accounts::of(&accounts.collect::<Vec<_>>(), word(self.shared.live), word(self.shared.most))
    }
}

/// Random numbers (Marsaglia's xorshift).
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// Threads allocate, free each other's blocks and change their sizes. The peak is within what the accounts say; it is that
/// if there is one thread, or if threads keep nothing for themselves.
#[test]
fn the_peak_is_what_the_accounts_say() {
    for (number, slack, exact) in
        [(1, 5000, true), (1, 0, true), (3, 0, true), (2, 5000, false), (4, 300, false)]
    {
        let mut state = 88_172_645_463_325_252 + number as u64;
        let mut threads = Threads::new(number, slack);
        let (mut blocks, mut total, mut calls) = (Vec::new(), 0, 0);
        for step in 0..20_000 {
            let thread = random(&mut state) % number;
            let size = random(&mut state) % if step % 100 == 0 { 20_000 } else { 400 };
            // More are allocated than freed, then fewer, and so on.
            let grows = random(&mut state) % 10 < if step / 2000 % 2 == 0 { 6 } else { 4 };
            let old = match blocks.len() {
                0 => None,
                count => Some(random(&mut state) % count),
            };
            match old {
                Some(old) if !grows => threads.change(thread, None, blocks.swap_remove(old)),
                Some(old) if size.is_multiple_of(3) => {
                    threads.change(thread, Some(size), blocks[old]);
                    blocks[old] = size as i64;
                    (total, calls) = (total + size, calls + 1);
                }
                _ => {
                    threads.change(thread, Some(size), 0);
                    blocks.push(size as i64);
                    (total, calls) = (total + size, calls + 1);
                }
            }
            if step % 500 == 0 || step < 100 {
                let sum = threads.sum();
                assert_eq!((sum.bytes, sum.blocks), (total as u64, calls));
                let peak = threads.peak as u64;
                assert!(sum.at_least <= peak && peak <= sum.at_most, "{peak} is not in {sum:?}");
                assert!(!exact || sum.at_least == sum.at_most, "{sum:?}");
                // Each thread keeps no more than the slack for itself.
                assert!(sum.at_most - sum.at_least <= 2 * slack * number as u64, "{sum:?}");
            }
        }
        assert!(threads.peak > 10_000, "{}", threads.peak);
    }
}

/// Two threads that have allocated little, each for itself: as much as one of them at least, and both at most.
#[test]
fn two_small_threads() {
    let mut threads = Threads::new(2, 64 << 10);
    threads.change(0, Some(1000), 0);
    threads.change(0, None, 1000);
    threads.change(1, Some(600), 0);
    let expected = Accounts { blocks: 2, bytes: 1600, at_least: 1000, at_most: 1600 };
    assert_eq!(threads.sum(), expected);
    assert_eq!(Accounts::of(&[], 0, 0), Accounts::default());
}

/// The shared word counts for threads that are at it at once.
#[test]
fn threads_hand_over_at_once() {
    let threads = Threads::new(4, 0);
    std::thread::scope(|scope| {
        for (words, _) in &threads.accounts {
            let shared = &threads.shared;
            scope.spawn(move || {
                // SAFETY: as above; only this thread writes to it.
                let account = unsafe { Account::at(words.as_ptr()) };
                for _ in 0..10_000 {
                    account.change(5, 0, || 0, || *shared);
                    account.change(-4, 4, || 0, || *shared);
                }
            });
        }
    });
    let sum = threads.sum();
    assert_eq!(threads.shared.live.load(Relaxed), 40_000);
    assert!((40_000..=40_000 + 4 * 5).contains(&threads.shared.most.load(Relaxed)), "{sum:?}");
}

/// What is alive by call stacks, and threads that have accounts of their own.
struct AtPeak {
    control: &'static [AtomicU64],
    stacks: &'static Stacks,
    shared: Shared,
}

impl AtPeak {
    fn new() -> Self {
        let control = words(control::WORDS);
        control[control::BY_STACK + by_stack::STATE].store(by_stack::ON, Relaxed);
        let stacks = Stacks { pool: pool::<1, { stack::FIRST }>(), roots: roots(STACK_ROOTS) };
        let (live, most) = (&control[control::SHARED], &control[control::SHARED + 1]);
        let shared = Shared { live, most, slack: 0, by_stack: None };
        Self { control, stacks: Box::leak(Box::new(stacks)), shared }
    }

    fn of_thread(&self, thread: u32) -> Shared {
        Shared { by_stack: ByStack::of(self.control, &self.stacks.pool, thread), ..self.shared }
    }

    /// The number of a call stack of some frames.
    fn stack(&self, stack: u64) -> u32 {
        let frames: Vec<u64> = (0..stack % 20 + 1).map(|frame| frame + stack).collect();
        self.stacks.number(CallStack { frames: &frames, hash: stack }).unwrap()
    }

    /// Bytes and blocks at the peak by the numbers of call stacks.
    fn found(&self) -> BTreeMap<u32, (u64, u64)> {
        let maxima = self.control[control::BY_STACK + by_stack::MAXIMA].load(Relaxed);
        let first = self.stacks.pool.words(0);
        // SAFETY: the words of the first chunk.
        let words = (0..length(0, stack::FIRST)).map(|word| unsafe { (*first.add(word)).load(Relaxed) });
        let words: Vec<u64> = words.collect();
        // Number 0 means none.
        let found = at_peak(&words[1..], maxima).map(|at| (at.place as u32 + 1, (at.bytes, at.blocks)));
        found.filter(|(_, measure)| *measure != (0, 0)).collect()
    }
}

/// An account of a thread, from which not even a change by nothing is kept.
fn account() -> Account {
    let words = words(account::WORDS);
    words[account::TOP].store(u64::MAX, Relaxed);
    // SAFETY: so many words, which live for ever.
    unsafe { Account::at(words.as_ptr()) }
}

/// Compared with copies of all that is alive, at each new maximum.
#[test]
fn what_is_alive_at_the_peak_is_known_by_call_stacks() {
    let at_peak = AtPeak::new();
    let accounts = [account(), account(), account()];
    let mut state = 88_172_645_463_325_252;
    let mut blocks: Vec<(u32, u64)> = Vec::new();
    let (mut most, mut copy) = (0, BTreeMap::new());
    for step in 0..20_000 {
        let thread = random(&mut state) % 3;
        // Some have no bytes.
        let size = (random(&mut state) % 50 * 8) as u64;
        let grows = random(&mut state) % 10 < if step / 1000 % 2 == 0 { 6 } else { 4 };
        let old = match blocks.len() {
            0 => None,
            count => Some(random(&mut state) % count),
        };
        let replaces = random(&mut state).is_multiple_of(4);
        // Of the same size, too.
        let size = old.filter(|_| replaces && size < 100).map_or(size, |old| blocks[old].1);
        let old = old.filter(|_| !grows || replaces).map(|old| blocks.swap_remove(old));
        let new = (grows || replaces).then(|| (at_peak.stack(random(&mut state) as u64 % 40), size));
        let ((from, less), (to, more)) = (old.unwrap_or_default(), new.unwrap_or_default());
        let stacks = u64::from(from) << 32 | u64::from(to);
        let shared = || at_peak.of_thread(thread as u32 + 1);
        accounts[thread].change(more as i64 - less as i64, less, || stacks, shared);
        blocks.extend(new);
        let now: u64 = blocks.iter().map(|(_, size)| size).sum();
        if now > most {
            most = now;
            copy.clear();
            for (stack, size) in &blocks {
                let (bytes, number) = copy.entry(*stack).or_insert((0, 0));
                (*bytes, *number) = (*bytes + size, *number + 1);
            }
        }
        if step % 500 == 0 || step < 100 {
            assert_eq!(at_peak.found(), copy, "step {step}");
        }
    }
    assert!(most > 10_000 && copy.len() > 20, "{most} {copy:?}");
}

/// Threads that are at it at once: their sum is the peak, whenever that was.
#[test]
fn threads_take_turns_at_call_stacks() {
    let at_peak = AtPeak::new();
    let stacks: Vec<u64> = (0..4).map(|stack| at_peak.stack(stack).into()).collect();
    std::thread::scope(|scope| {
        for thread in 1..=4_u32 {
            let (at_peak, stacks) = (&at_peak, &stacks);
            scope.spawn(move || {
                let account = account();
                for n in 0..20_000 {
                    let to = stacks[(n + thread as usize) % 4];
                    account.change(64, 0, || to, || at_peak.of_thread(thread));
                    if n % 3 != 0 {
                        account.change(-64, 64, || to << 32, || at_peak.of_thread(thread));
                    }
                }
            });
        }
    });
    let sum: u64 = at_peak.found().values().map(|(bytes, _)| bytes).sum();
    assert_eq!(sum, at_peak.shared.most.load(Relaxed));
    assert!(sum >= 4 * 6667 * 64, "{sum}");
}

/// A signal handler has interrupted its own thread, or a thread has no id: nobody waits, and it is not known any more.
#[test]
fn nobody_waits_for_himself() {
    for (holder, thread) in [(7, 7), (0, 0)] {
        let at_peak = AtPeak::new();
        let to = at_peak.stack(1).into();
        at_peak.control[control::BY_STACK + by_stack::HOLDER].store(holder, Relaxed);
        account().change(64, 0, || to, || at_peak.of_thread(thread));
        let state = at_peak.control[control::BY_STACK + by_stack::STATE].load(Relaxed);
        assert_eq!((state, at_peak.shared.most.load(Relaxed)), (by_stack::LOST, 64));
        assert!(at_peak.of_thread(8).by_stack.is_none());
    }
}

/// What was before is exact where there was one thread; from then on threads keep nothing.
#[test]
fn what_one_thread_had_before_is_exact() {
    let mut threads = Threads::new(2, 5000);
    threads.change(0, Some(4000), 0);
    threads.change(0, None, 1000);
    threads.shared.slack = 0;
    threads.accounts[0].1.settle(threads.shared);
    let exactly = |peak| Accounts { blocks: 1, bytes: 4000, at_least: peak, at_most: peak };
    assert_eq!(threads.sum(), exactly(4000));
    threads.change(1, Some(500), 0);
    assert_eq!(threads.sum(), Accounts { blocks: 2, bytes: 4500, ..exactly(4000) });
    threads.change(0, Some(2000), 0);
    assert_eq!(threads.sum(), Accounts { blocks: 3, bytes: 6500, ..exactly(5500) });
}
