//! What was not seen.

use serde::Serialize;

use crate::snapshot::Loss;

#[derive(Serialize)]
pub(super) struct Lost<'a> {
    kind: &'a str,
    message: String,
}

impl<'a> Lost<'a> {
    pub(super) fn of(loss: &'a Loss) -> Self {
        Self { kind: kind(loss), message: loss.to_string() }
    }
}

/// The public name of a kind of loss.
pub fn kind(loss: &Loss) -> &str {
    match loss {
        Loss::Blocks { .. } | Loss::LedgerBlocks { .. } | Loss::Unnumbered { .. } => "blocks",
        Loss::Stacks { .. } | Loss::LedgerStacks { .. } => "stacks",
        Loss::UnreadStacks { .. } => "unread_stacks",
        Loss::BadFrees { .. } => "bad_frees",
        Loss::Files { .. } => "files",
        Loss::Started { .. } => "started",
        Loss::Descriptors { .. } => "descriptors",
        Loss::KernelBytes => "kernel_bytes",
        Loss::Heap | Loss::Peak { .. } => "heap",
        Loss::Ipc { .. } | Loss::IpcCalls { .. } => "ipc",
        Loss::Mappings { .. } => "mappings",
        Loss::Growth { .. } => "growth",
        Loss::Results { .. } => "results",
        Loss::Log { .. } => "log",
        Loss::NoCanary { .. } => "no_canary",
        Loss::NoBody => "no_body",
        Loss::Allocator { .. } | Loss::LookedUp => "allocator",
        Loss::Threads { .. } | Loss::Breakpoints { .. } | Loss::Nameless { .. } => "threads",
        Loss::Exec => "exec",
        Loss::Vanished { .. } => "vanished",
        Loss::Memory { .. } => "memory",
        Loss::Marks { .. } => "marks",
        Loss::NoMemory { .. } => "kernel_memory",
        Loss::Unfinished { .. } => "unfinished",
        Loss::Told { kind, .. } => kind,
        Loss::Child { loss, .. } => kind(loss),
    }
}
