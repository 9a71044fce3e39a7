//! What a test has left in the kernel.

use serde::Serialize;

use super::{Site, StackFrame, View, frames, place};
use crate::model::{Descriptor, Frame, IpcName, IpcObject, Judged};

#[derive(Serialize)]
pub(super) struct Kernel<'a> {
    descriptors: Vec<Left<'a>>,
    ipc: Vec<Object<'a>>,
}

#[derive(Serialize)]
struct Left<'a> {
    numbers: &'a [u32],
    kind: &'a str,
    description: &'a str,
    call: &'a str,
    held_by: Option<&'a str>,
    once: bool,
    site: Option<Site<'a>>,
    stack: Option<Vec<StackFrame<'a>>>,
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
    site: Option<Site<'a>>,
    stack: Option<Vec<StackFrame<'a>>>,
}

impl<'a> Kernel<'a> {
    pub(super) fn of(judged: &'a Judged, view: &'a View) -> Self {
        let left = |descriptor: &'a Descriptor<Vec<Frame>>| Left {
            numbers: &descriptor.numbers,
            kind: descriptor.kind,
            description: &descriptor.description,
            call: &descriptor.call,
            held_by: descriptor.held_by.as_deref(),
            once: descriptor.once,
            site: descriptor.stack.as_deref().and_then(|stack| place(stack, view)),
            stack: descriptor.stack.as_deref().map(|stack| frames(stack, view)),
        };
        let object = |object: &'a IpcObject<Vec<Frame>>| {
            let (id, key, name) = match &object.name {
                IpcName::Id { id, key } => (Some(*id), Some(*key), None),
                IpcName::Name(name) => (None, None, Some(name.as_str())),
            };
            Object {
                kind: object.kind,
                id,
                key,
                name,
                bytes: object.bytes,
                call: object.call,
                site: object.stack.as_deref().and_then(|stack| place(stack, view)),
                stack: object.stack.as_deref().map(|stack| frames(stack, view)),
            }
        };
        Self {
            descriptors: judged.descriptors.iter().map(left).collect(),
            ipc: judged.ipc.iter().map(object).collect(),
        }
    }
}
