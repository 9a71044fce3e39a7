//! The same work on many things, some of them at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What `work` makes of each of `items`, in their order; `jobs` of them at a time, at least one.
pub fn map<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if jobs <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(items.len())).map(|_| scope.spawn(worker)).collect();
        let finished = workers.into_iter().map(|worker| worker.join());
        finished.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What two pieces of work come to; both at a time where that is worth a thread.
pub fn both<A: Send, B>(is_worth: bool, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if !is_worth {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [0, 1, 7, 1000] {
            let doubled = map(&items, jobs, |item| {
                // The first ones end last.
                std::thread::sleep(std::time::Duration::from_micros(u64::from(100 - item)));
                item * 2
            });
            assert_eq!(doubled, (0..100).map(|item| item * 2).collect::<Vec<_>>(), "{jobs} jobs");
        }
        assert!(map(&[], 4, |item: &u32| *item).is_empty());
    }

    #[test]
    fn both_are_done() {
        for is_worth in [false, true] {
            assert_eq!(both(is_worth, || 1, || "two"), (1, "two"));
        }
    }
}
