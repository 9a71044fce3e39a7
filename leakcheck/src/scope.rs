use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

use crate::log::{self, Words, kind};

/// Words of a scope's entry: kind, name (address, length), limits.
const WORDS: usize = LIMITS + 5;
const LIMITS: usize = 3;
/// No limit.
const NONE: usize = usize::MAX;

/// Gives what this thread allocates a name, until the guard is dropped, and may give it a budget of its own.
///
/// What was allocated in a scope and is left when the test ends is reported with the scope's name. Scopes nest; the innermost
/// one counts. A scope with limits is judged by these alone, by the rules of [`leak_budget`](crate::leak_budget), and what was
/// allocated in it does not count for the test's budget. What was allocated in a scope without limits counts for the
/// scope that it was opened in, or else for the test. All scopes of a test that have one name are one, and the lowest of their limits
/// counts.
///
/// Other threads and tasks enter by a [`Handle`]. The guard stays on its thread, so the compiler refuses to keep it over an
/// `.await` of a task that may move to another one; use [`Handle::wrap`].
///
/// Without `cargo leakcheck` this reads one word and does nothing.
///
/// ```
/// # fn load() {}
/// {
///     let _scope = leakcheck::scope("load").bytes(1024).blocks(2);
///     load();
/// }
/// let tasks = leakcheck::scope("tasks").handle();
/// std::thread::spawn(move || tasks.run(load)).join().unwrap();
/// ```
#[inline]
pub fn scope(name: &'static str) -> Scope {
    let begun = if log::is_on() { begin(name) } else { None };
    let (number, words) = begun.unzip();
    Scope { words, entered: Entered { number, on_its_thread: PhantomData } }
}

fn begin(name: &'static str) -> Option<(usize, Words<WORDS>)> {
    log::add([kind::SCOPE, name.as_ptr().addr(), name.len(), NONE, NONE, NONE, NONE, NONE])
}

/// A scope that is open: see [`scope`].
#[must_use = "the scope ends where this is dropped"]
#[derive(Debug)]
pub struct Scope {
    words: Option<Words<WORDS>>,
    entered: Entered,
}

impl Scope {
    /// Limits bytes definitely and indirectly lost.
    #[inline]
    pub fn bytes(self, bytes: usize) -> Self {
        self.limit(0, bytes)
    }

    /// Limits blocks definitely and indirectly lost.
    #[inline]
    pub fn blocks(self, blocks: usize) -> Self {
        self.limit(1, blocks)
    }

    /// Limits bytes still reachable when the process ends.
    #[inline]
    pub fn reachable_bytes(self, bytes: usize) -> Self {
        self.limit(2, bytes)
    }

    /// Limits blocks still reachable when the process ends.
    #[inline]
    pub fn reachable_blocks(self, blocks: usize) -> Self {
        self.limit(3, blocks)
    }

    /// Limits bytes not freed when the process ends, whatever refers to them.
    #[inline]
    pub fn outstanding_bytes(self, bytes: usize) -> Self {
        self.limit(4, bytes)
    }

    #[inline]
    fn limit(self, which: usize, limit: usize) -> Self {
        if let Some(words) = self.words {
            words[LIMITS + which].store(limit.min(NONE - 1), Relaxed);
        }
        self
    }

    /// By which other threads and tasks enter the scope, also after this guard was dropped.
    #[inline]
    pub fn handle(&self) -> Handle {
        Handle { number: self.entered.number }
    }
}

/// A scope for other threads and for tasks.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    number: Option<usize>,
}

impl Handle {
    /// Enters the scope on this thread, until the guard is dropped.
    #[inline]
    pub fn enter(self) -> Entered {
        if let Some(number) = self.number {
            log::add([kind::ENTER, number]);
        }
        Entered { number: self.number, on_its_thread: PhantomData }
    }

    /// Does `work` in the scope.
    #[inline]
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// The future in the scope: it is entered whenever the future is polled, whichever thread does it. To drop a future that
    /// is not ready is not part of it.
    ///
    /// ```
    /// # async fn connect() {}
    /// # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
    /// let scope = leakcheck::scope("connect").handle();
    /// spawn(scope.wrap(connect()));
    /// ```
    pub async fn wrap<F: Future>(self, future: F) -> F::Output {
        let mut future = core::pin::pin!(future);
        core::future::poll_fn(|context| self.run(|| future.as_mut().poll(context))).await
    }
}

/// A scope that this thread has entered by a [`Handle`].
#[must_use = "the scope ends where this is dropped"]
#[derive(Debug)]
pub struct Entered {
    number: Option<usize>,
    /// Another thread must not leave it.
    on_its_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if let Some(number) = self.number {
            log::add([kind::LEAVE, number]);
        }
    }
}
