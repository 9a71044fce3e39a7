//! What a test has left in the kernel.

use serde::Serialize;

use super::{Site, StackFrame, View, frames, place};
use crate::model::{
    Descriptor, Frame, IpcName, IpcObject, Judged, KernelTotals, LeftChild, LeftMapping, LeftThread,
    LeftTimer,
};

#[derive(Serialize)]
pub(super) struct Kernel<'a> {
    bytes: Option<u64>,
    descriptors: Vec<Left<'a>>,
    ipc: Vec<Object<'a>>,
    children: Vec<Child<'a>>,
    threads: Vec<Thread<'a>>,
    timers: &'a [LeftTimer],
    mappings: Vec<Mapped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a KernelTotals>,
}

#[derive(Serialize)]
struct Left<'a> {
    numbers: &'a [u32],
    kind: &'a str,
    description: &'a str,
    call: Option<&'a str>,
    held_by: Option<&'a str>,
    once: bool,
    bytes: Option<u64>,
    #[serde(flatten)]
    from: From<'a>,
}

#[derive(Serialize)]
struct Object<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    bytes: Option<u64>,
    call: Option<&'a str>,
    #[serde(flatten)]
    from: From<'a>,
}

#[derive(Serialize)]
struct Child<'a> {
    id: u32,
    parent: u32,
    command: &'a str,
    state: &'static str,
    #[serde(flatten)]
    from: From<'a>,
}

#[derive(Serialize)]
struct Thread<'a> {
    id: u32,
    name: &'a str,
    #[serde(flatten)]
    from: From<'a>,
    now: Option<Vec<StackFrame<'a>>>,
}

#[derive(Serialize)]
struct Mapped<'a> {
    kind: &'a str,
    description: &'a str,
    call: &'a str,
    count: u64,
    bytes: u64,
    address: u64,
    once: bool,
    #[serde(flatten)]
    from: From<'a>,
}

/// Where it was opened, started or mapped.
#[derive(Serialize)]
struct From<'a> {
    site: Option<Site<'a>>,
    stack: Option<Vec<StackFrame<'a>>>,
}

impl<'a> Kernel<'a> {
    pub(super) fn of(judged: &'a Judged, view: &'a View) -> Self {
        let from = |stack: &'a Option<Vec<Frame>>| From {
            site: stack.as_deref().and_then(|stack| place(stack, view)),
            stack: stack.as_deref().map(|stack| frames(stack, view)),
        };
        let left = |descriptor: &'a Descriptor<Vec<Frame>>| Left {
            numbers: &descriptor.numbers,
            kind: &descriptor.kind,
            description: &descriptor.description,
            call: descriptor.call.as_deref(),
            held_by: descriptor.held_by.as_deref(),
            once: descriptor.once,
            bytes: descriptor.bytes,
            from: from(&descriptor.stack),
        };
        let object = |object: &'a IpcObject<Vec<Frame>>| {
            let (id, key, name) = match &object.name {
                IpcName::Id { id, key } => (Some(*id), Some(*key), None),
                IpcName::Name(name) => (None, None, Some(name.as_str())),
            };
            Object {
                kind: &object.kind,
                id,
                key,
                name,
                bytes: object.bytes,
                call: object.call.as_deref(),
                from: from(&object.stack),
            }
        };
        let child = |child: &'a LeftChild<Vec<Frame>>| Child {
            id: child.id,
            parent: child.parent,
            command: &child.command,
            state: if child.is_zombie { "zombie" } else { "running" },
            from: from(&child.stack),
        };
        let thread = |thread: &'a LeftThread<Vec<Frame>>| Thread {
            id: thread.id,
            name: &thread.name,
            from: from(&thread.stack),
            now: thread.now.as_deref().map(|now| frames(now, view)),
        };
        let mapped = |mapping: &'a LeftMapping<Vec<Frame>>| Mapped {
            kind: &mapping.kind,
            description: &mapping.description,
            call: &mapping.call,
            count: mapping.count,
            bytes: mapping.bytes,
            address: mapping.address,
            once: mapping.once,
            from: from(&mapping.stack),
        };
        Self {
            bytes: judged.left.kernel_bytes(),
            descriptors: judged.left.descriptors.iter().map(left).collect(),
            ipc: judged.left.ipc.iter().map(object).collect(),
            children: judged.left.children.iter().map(child).collect(),
            threads: judged.left.threads.iter().map(thread).collect(),
            timers: &judged.left.timers,
            mappings: judged.left.mappings.iter().map(mapped).collect(),
            report: judged.left.totals.as_ref(),
        }
    }
}
