//! Which block records a thread uses.

use std::collections::{BTreeMap, HashSet};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::pool;
use crate::layout::block;
use crate::pool::Pool;
use crate::thread;

type BlockPool = Pool<{ block::WORDS }, { block::FIRST }>;

/// A pool whose number 1 stays unused, as in the ledger.
fn block_pool() -> &'static BlockPool {
    let pool = Box::leak(Box::new(pool()));
    pool.take(1);
    pool
}

/// The running thread's next record of a pool.
fn record(pool: &BlockPool) -> u32 {
    thread::current().record(|count| pool.take(count)).unwrap()
}

/// No two threads use the same record, or two that are side by side in a pair; what is taken and not used is little.
#[test]
fn records_are_a_threads_own() {
    let pool = block_pool();
    let numbers = |count: usize| -> Vec<u32> { (0..count).map(|_| record(pool)).collect() };
    let lists: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || numbers(10_000 + thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut pairs = BTreeMap::new();
    for (thread, list) in lists.iter().enumerate() {
        assert_eq!(list.iter().collect::<HashSet<_>>().len(), list.len());
        for number in list {
            assert_eq!(*pairs.entry(number / 2).or_insert(thread), thread, "{number}");
        }
    }
    let before = pool.take(2).unwrap();
    std::thread::scope(|scope| scope.spawn(|| numbers(17)).join().unwrap());
    assert!(pool.take(2).unwrap() - before <= 2 + 2 * 17);
}

static INTERRUPTED: OnceLock<&'static BlockPool> = OnceLock::new();
static BY_HANDLER: [AtomicU64; 2000] = [const { AtomicU64::new(0) }; 2000];
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_: c_int) {
    if let (Some(pool), Some(place)) = (INTERRUPTED.get(), BY_HANDLER.get(HANDLED.load(Relaxed))) {
        place.store(record(pool).into(), Relaxed);
        HANDLED.fetch_add(1, Relaxed);
    }
}

unsafe extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, number: c_int) -> c_int;
}

/// A signal handler that interrupts a thread anywhere as it takes records has others than the thread.
#[test]
fn records_of_signal_handlers_are_others() {
    const SIGURG: c_int = 23;
    let pool = *INTERRUPTED.get_or_init(block_pool);
    let is_done = || HANDLED.load(Relaxed) == BY_HANDLER.len();
    // SAFETY: the handler does what the ledger does in one.
    unsafe { signal(SIGURG, handle) };
    let (mut all, own) = std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let busy = scope.spawn(move || {
            // SAFETY: asks for the thread's own name.
            send.send(unsafe { pthread_self() }).unwrap();
            let mut numbers = Vec::with_capacity(1 << 24);
            while !is_done() && numbers.len() < numbers.capacity() {
                numbers.push(u64::from(record(pool)));
            }
            numbers
        });
        let name = receive.recv().unwrap();
        while !is_done() && !busy.is_finished() {
            let seen = HANDLED.load(Relaxed);
            // SAFETY: the thread has not been joined.
            unsafe { pthread_kill(name, SIGURG) };
            while HANDLED.load(Relaxed) == seen && !busy.is_finished() {
                std::hint::spin_loop();
            }
        }
        let own = busy.join().unwrap();
        (own.iter().copied().collect::<HashSet<_>>(), own.len())
    });
    let handled = HANDLED.load(Relaxed);
    assert!(handled > 100, "{handled} signals are too few");
    all.extend(BY_HANDLER[..handled].iter().map(|number| number.load(Relaxed)));
    assert_eq!(all.len(), own + handled);
}
