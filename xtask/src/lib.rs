//! What maintainers run by `cargo xtask`: the committed eBPF object, the checks of the continuous
//! integration, the benchmark, the comparisons with nextest and of ways to make processes.

pub mod bench;
pub mod bpf;
pub mod ci;
pub mod command;
pub mod compare;
pub mod provenance;
pub mod ways;

use std::path::Path;

/// Shorthand: errors here are read by maintainers only.
pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository")
}
