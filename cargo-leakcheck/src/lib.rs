//! `cargo leakcheck` runs every test of a workspace in a process of its own under an eBPF tracer and
//! fails the tests that leak. See `ARCHITECTURE.md` for the shape.

pub mod error;
pub mod model;
pub mod options;
pub mod progress;
pub mod report;
pub mod snapshot;
pub mod symbolize;
