//! The system calls that no library wraps as they are needed. All `unsafe` of the tool is here.

mod attribute;
mod bpf;
mod capabilities;
mod creations;
mod descriptor;
mod interrupt;
mod lists;
mod memory;
mod mount;
mod namespace;
mod patient;
mod procfs;
mod ptrace;
mod shared;
mod spawn;
mod tables;
mod user;

pub use attribute::{give_capabilities, is_nosuid, open_to};
pub use bpf::{ProgramKind, call_program, let_rcu_pass, link_uprobes, load_program, remove_links};
pub use capabilities::{Capabilities, Capability, asleep, awake, capabilities, permitted};
pub use creations::{Creations, Made};
pub use descriptor::{Owner, socket_kind};
pub use interrupt::Interrupts;
pub use lists::{attach_tracepoint, list_of_process};
pub use memory::zeros;
pub use mount::Mount;
pub use namespace::{in_ipc_namespace, ipc_namespace, leave_ipc_namespace, proc_is_own};
pub use nix::sys::signal::Signal;
pub use patient::Patient;
pub use procfs::{contents, status, text};
pub use ptrace::{
    Stop, child_has_changed, cont, is_breakpoint, is_ending, is_thread_of, listen, read_word, robust_list,
    seize, sent_by_kernel, set_breakpoints, time_stamp, wait_any, write_word,
};
pub use shared::SharedBits;
pub use spawn::{Held, Program, Spawner};
pub use tables::{delete_batch, elements, take_element};
pub use user::{
    NO_FOLLOW, become_user, file_mode_mask, hand_on_capabilities, is_secure, keep_capabilities_to_itself,
    may_change, real_user, replace_environment, set_file_mode_mask, user,
};
