//! `cargo leakcheck` runs every test of a workspace in a process of its own under a tracer and
//! fails the tests that leak. See `ARCHITECTURE.md` for the shape.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "cargo-leakcheck traces on Linux on x86_64 only so far: it has no eBPF object for other architectures"
);

pub mod accept;
pub mod build;
pub mod classify;
pub mod cli;
pub mod config;
pub mod diagnostic;
pub mod discover;
pub mod doctor;
pub mod error;
mod harvest;
pub mod judge;
pub mod model;
pub mod options;
mod parallel;
pub mod plan;
pub mod progress;
pub mod raise;
mod references;
pub mod report;
mod run;
mod scratch;
pub mod setup;
pub mod snapshot;
pub mod symbolize;
mod sys;
pub mod trace;

pub use run::{Begun, import, run};
