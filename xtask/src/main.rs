//! `cargo xtask`, see the library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use xtask::bench::Part;

/// Tasks for maintainers.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Rebuild the committed eBPF object
    Bpf {
        /// Compare with the committed object instead of replacing it
        #[arg(long)]
        check: bool,
    },
    /// Run every check that the continuous integration runs, but the privileged tests
    Ci,
    /// Compare costs with other tools on this machine; needs root
    Bench {
        /// How often each measurement is repeated
        #[arg(long, default_value_t = 7)]
        repeats: usize,
        /// Only this part
        part: Option<Part>,
    },
    /// Compare how tests end under cargo nextest and under cargo leakcheck
    Compare {
        /// Packages or workspaces; seven crates of cargo's registry if there are none
        folders: Vec<PathBuf>,
    },
    /// Compare what tests leave behind when they are started and when they are forked; needs root
    Ways {
        /// How often, in each way, one at a time and eight
        #[arg(long, default_value_t = 20)]
        rounds: usize,
        /// As for `compare`
        folders: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Bpf { check: false } => xtask::bpf::rebuild(),
        Task::Bpf { check: true } => xtask::bpf::check(),
        Task::Ci => xtask::ci::run(),
        Task::Bench { repeats, part } => xtask::bench::run(repeats, part),
        Task::Compare { folders } => xtask::compare::run(&folders),
        Task::Ways { rounds, folders } => xtask::ways::run(&folders, rounds),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
