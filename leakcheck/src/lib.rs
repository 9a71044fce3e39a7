//! Memory budgets for tests.
//!
//! `cargo leakcheck` runs every test of a workspace under a tracer and fails those that lose memory. A
//! test that needs other limits than the default says so with [`leak_budget`]. Add this crate to
//! `[dev-dependencies]`; under plain `cargo test` it changes nothing.
//!
//! ```
//! use leakcheck::leak_budget;
//!
//! // Fails when more than 4096 bytes are lost, or more than one block.
//! #[test]
//! #[leak_budget(bytes = "4 KiB", blocks = 1)]
//! fn keeps_its_table() {
//!     Box::leak(vec![0_u8; 4096].into_boxed_slice());
//! }
//!
//! #[test]
//! #[leak_budget(ignore = "the parser's arena is never freed by design")]
//! fn parses() {}
//! ```
//!
//! Within a test, [`ignore`] excuses one leak, and [`scope()`] gives a part of the test a name and a budget of its own.
#![no_std]
#![forbid(unsafe_code)]
#![allow(clippy::test_attr_in_doctest, reason = "the example shows tests")]

extern crate alloc;

mod ignore;
mod log;
mod scope;

pub use ignore::ignore;
pub use scope::{Entered, Handle, Scope, scope};

/// Sets the memory budget that `cargo leakcheck` judges this test by.
///
/// Without it a test may lose 0 bytes. With it the given limits apply; where neither `bytes` nor `blocks` is
/// among them, a test may still lose 0 bytes. A limit is inclusive: a test may use all of it.
///
/// | argument | limits, over the blocks allocated in the test's window | value |
/// |---|---|---|
/// | `bytes` | bytes definitely and indirectly lost: nothing refers to them | number or size |
/// | `blocks` | blocks definitely and indirectly lost | number |
/// | `reachable_bytes` | bytes still reachable when the process ends | number or size |
/// | `reachable_blocks` | blocks still reachable when the process ends | number |
/// | `outstanding_bytes` | bytes not freed when the process ends, whatever refers to them | number or size |
/// | `fds` | descriptors left open when the process ends | number |
/// | `kernel_bytes` | bytes that those hold in the kernel | number or size |
/// | `ipc` | IPC objects left behind when the process ends | number |
/// | `children` | child processes left running or not waited for | number |
/// | `threads` | threads left running | number |
/// | `mapped_bytes` | bytes left mapped | number or size |
/// | `iterations` | nothing: the body is run so often in one process, to see what each iteration adds | number from 2 to 1000 |
/// | `warmup` | nothing: the first iterations, which are not judged (default: 3, where there are more) | number |
/// | `bytes_per_iteration` | bytes, still reachable ones included, that each judged iteration adds on average (default: 0) | number or size |
/// | `peak_bytes` | bytes alive at a time, by the sizes that were asked for | number or size |
/// | `total_blocks` | blocks allocated, freed ones too; each `realloc` is one | number |
/// | `ignore` | nothing: leaks are reported, but do not count | the reason, one line |
///
/// A number is an integer literal without suffix. A size is a string with a whole number and one of the
/// units `B`, `kB` (or `KB`), `MB`, `GB` (powers of 1000), `KiB`, `MiB`, `GiB` (powers of 1024): `"4 KiB"`.
///
/// # Growth
///
/// Still reachable memory is no leak by itself: a cache is meant to stay. What grows each time the test runs is one, though.
/// With `iterations` the tool runs the body again and again in the same process, and judges what each iteration adds to what is
/// alive after it:
///
/// ```
/// # use leakcheck::leak_budget;
/// #[test]
/// #[leak_budget(iterations = 20, warmup = 3, bytes_per_iteration = 0)]
/// fn looks_up() {}
/// ```
///
/// A cache that is filled in the first three iterations passes; one more box of 24 bytes each time fails with `grows by 24 B per
/// iteration`, and a vector that gets longer with `grows in steps`. The other limits are for all that the iterations leave
/// together. Under plain `cargo test` the body runs once. A body that panics is not run again, nor is one that has failed;
/// then it is not known what it adds, and the test is *incomplete*.
///
/// The attribute may stand above or below `#[test]`, `#[tokio::test]`, `#[should_panic]` and the like. It leaves
/// the function as it is. In test builds for Linux it puts a static with the limits into the section
/// `leakcheck_budget` of the test binary, where `cargo leakcheck` finds it; elsewhere it adds nothing.
///
/// # Errors
///
/// An unknown or repeated argument, a value of the wrong kind, no argument at all, a second `leak_budget`, and an
/// item that is not a function are compile errors.
pub use leakcheck_macros::leak_budget;
