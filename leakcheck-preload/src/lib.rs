//! The ledger: a library that `cargo leakcheck` preloads into test processes. It takes the calls of
//! the allocator and writes down every block, with the call stack of those that count, in the
//! process's own memory, from where the tracer reads it when the process is at its end.
//!
//! The library itself is in the folder `ledger`; this crate carries it, compiled, and describes the
//! memory that both sides know.
#![cfg_attr(test, allow(dead_code, reason = "the hooks, which are not in the tests, use it"))]

// Its parts that are no hooks, to be tested.
#[cfg(test)]
#[path = "../ledger/account.rs"]
mod account;
#[cfg(test)]
#[path = "../ledger/by_stack.rs"]
mod by_stack;
#[cfg(test)]
#[path = "../ledger/frames.rs"]
mod frames;
#[cfg(test)]
#[path = "../ledger/ledger.rs"]
mod ledger;
#[cfg(test)]
#[path = "../ledger/memo.rs"]
mod memo;
#[cfg(test)]
#[path = "../ledger/next.rs"]
mod next;
#[cfg(test)]
#[path = "../ledger/pool.rs"]
mod pool;
#[cfg(test)]
#[path = "../ledger/sys.rs"]
mod sys;
#[cfg(test)]
#[path = "../ledger/table.rs"]
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../ledger/thread.rs"]
mod thread;

pub mod accounts;
pub mod layout;
pub mod stacks;
pub mod unwind;

/// The compiled library.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.so"));
