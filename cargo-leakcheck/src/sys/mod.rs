//! The system calls that no library wraps as they are needed. All `unsafe` of the tool is here.

mod bpf;
mod interrupt;
mod ptrace;
mod shared;
mod spawn;

pub use bpf::{delete_batch, link_uprobes, load_uprobe_program};
pub use interrupt::Interrupts;
pub use ptrace::{
    Stop, cont, is_breakpoint, is_ending, listen, read_word, sent_by_kernel, set_breakpoints, time_stamp,
    wait_any, write_word,
};
pub use shared::SharedBits;
pub use spawn::{Held, Program, Spawner};
