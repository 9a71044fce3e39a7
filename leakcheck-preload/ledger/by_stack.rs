//! What is alive by call stacks, and what that was at the peak, where that is asked for.
//!
//! A copy of all of it at each new maximum would cost as much as there are call stacks. So each has two numbers, and is looked
//! after only where it changes: as long as it has not, what is alive of it is what was alive at the last maximum. Maxima are
//! numbered. The first change after one puts aside what was alive then, under its number.
//!
//! Here threads take turns, and nowhere else: what is alive by call stacks has to be what is alive in all, at every maximum.
//! A signal handler that interrupts its own thread here, and a thread that ends here, leave things as they are: it is not
//! known any more, and nobody waits for it.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{by_stack, control, stack};
use crate::pool::Pool;
use crate::sys;

/// Ticks of the time stamp counter after which the thread that is waited for has ended: some seconds.
const PATIENCE: u64 = 1 << 33;
/// How often a thread looks before it lets others run.
const SPINS: u32 = 64;

/// What all threads share.
#[derive(Clone, Copy)]
pub struct ByStack {
    words: &'static [AtomicU64],
    stacks: &'static Pool<1, { stack::FIRST }>,
    /// The running thread.
    thread: u32,
}

impl ByStack {
    /// None where it is not asked for, or not known any more.
    pub fn of(
        control: &'static [AtomicU64],
        stacks: &'static Pool<1, { stack::FIRST }>,
        thread: u32,
    ) -> Option<Self> {
        let words = control.split_at(control::BY_STACK).1;
        (words[by_stack::STATE].load(Ordering::Relaxed) == by_stack::ON).then_some(Self {
            words,
            stacks,
            thread,
        })
    }

    /// The bytes alive change by so many: `old` of them are gone. `stacks` are as in `Account::change`. `change` does it, and
    /// says whether there was never more alive.
    pub fn change(self, by: i64, old: u64, stacks: u64, change: impl FnOnce() -> bool) {
        if !self.enter() {
            self.words[by_stack::STATE].store(by_stack::LOST, Ordering::Relaxed);
            change();
            return;
        }
        let (new, gone) = (stacks as u32, (stacks >> 32) as u32);
        let last = self.words[by_stack::MAXIMA].load(Ordering::Relaxed);
        self.add(gone, last, 0_u64.wrapping_sub(old), u64::MAX);
        self.add(new, last, old.wrapping_add(by as u64), 1);
        if change() {
            self.words[by_stack::MAXIMA].store(last + 1, Ordering::Relaxed);
        }
        self.words[by_stack::HOLDER].store(0, Ordering::Release);
    }

    /// Waits for the running thread's turn; whether it has come.
    fn enter(self) -> bool {
        let holder = &self.words[by_stack::HOLDER];
        let me = u64::from(self.thread);
        let (mut since, mut tries) = (0, 0);
        // Without an id it cannot be told from others.
        while me != 0 && self.words[by_stack::STATE].load(Ordering::Relaxed) == by_stack::ON {
            match holder.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) if other == me => return false,
                Err(_) => {}
            }
            tries += 1;
            if tries < SPINS {
                core::hint::spin_loop();
                continue;
            }
            match sys::time() {
                now if since == 0 => since = now,
                now if now.wrapping_sub(since) > PATIENCE => return false,
                _ => {}
            }
            sys::give_way();
        }
        false
    }

    /// Adds to what is alive of a call stack, `last` being the last maximum.
    fn add(self, number: u32, last: u64, bytes: u64, blocks: u64) {
        if number == 0 {
            return;
        }
        let record = self.stacks.words(number);
        // SAFETY: a record of a call stack, with its frames and the words behind them.
        let word = |word: usize| unsafe { &*record.add(word) };
        let behind = stack::FRAMES + word(stack::COUNT).load(Ordering::Relaxed) as usize;
        let get = |at: usize| word(behind + at).load(Ordering::Relaxed);
        // In this order: whoever looks at it in between finds one or the other whole.
        let set = |at: usize, value| word(behind + at).store(value, Ordering::Release);
        if get(stack::MAXIMUM) != last {
            set(stack::OLD_BYTES, get(stack::BYTES));
            set(stack::OLD_BLOCKS, get(stack::BLOCKS));
            set(stack::MAXIMUM, last);
        }
        set(stack::BYTES, get(stack::BYTES).wrapping_add(bytes));
        set(stack::BLOCKS, get(stack::BLOCKS).wrapping_add(blocks));
    }
}
