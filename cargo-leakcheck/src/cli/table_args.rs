//! Options for the sizes of the kernel side's tables.

use clap::Args;

use super::values::{table_size, tasks};

#[derive(Clone, Debug, Args)]
pub struct TableArgs {
    /// Blocks remembered at a time, freed ones too, over all running tests (uprobe recorder) [default: 2097152]
    #[arg(long, value_name = "N", value_parser = table_size)]
    pub max_blocks: Option<u32>,
    /// Different call stacks of a run (uprobe recorder) [default: 65536]
    #[arg(long, value_name = "N", value_parser = table_size)]
    pub max_stacks: Option<u32>,
    /// Threads (and, in another table, processes and threads that tests have started) that can be alive at a time, over all running tests [default: 16384]
    #[arg(long, value_name = "N", value_parser = tasks)]
    pub max_threads: Option<u32>,
    /// Bad frees remembered at a time, over all running tests (uprobe recorder) [default: 16384]
    #[arg(long, value_name = "N", value_parser = table_size)]
    pub max_bad_frees: Option<u32>,
    /// Open files remembered at a time, over all running tests (4 KiB of kernel memory each) [default: 16384]
    #[arg(long, value_name = "N", value_parser = table_size)]
    pub max_files: Option<u32>,
}
