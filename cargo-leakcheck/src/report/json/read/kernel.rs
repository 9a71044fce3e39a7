//! What a test has left in the kernel.

use serde::Deserialize;

use super::place::Site;
use crate::model::{
    Descriptor, Frame, IpcName, IpcObject, KernelTotals, Left, LeftChild, LeftMapping, LeftThread, LeftTimer,
};

type Stack = Option<Vec<Frame>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    /// Follows from those of the descriptors.
    #[serde(rename = "bytes")]
    _bytes: Option<u64>,
    descriptors: Vec<Open>,
    ipc: Vec<Object>,
    children: Vec<Child>,
    threads: Vec<Thread>,
    timers: Vec<LeftTimer>,
    mappings: Vec<Mapped>,
    report: Option<KernelTotals>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    numbers: Vec<u32>,
    kind: String,
    description: String,
    call: Option<String>,
    held_by: Option<String>,
    once: bool,
    bytes: Option<u64>,
    site: Option<Site>,
    stack: Stack,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    kind: String,
    id: Option<i32>,
    key: Option<u32>,
    name: Option<String>,
    bytes: Option<u64>,
    call: Option<String>,
    site: Option<Site>,
    stack: Stack,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Child {
    id: u32,
    parent: u32,
    command: String,
    state: String,
    site: Option<Site>,
    stack: Stack,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    id: u32,
    name: String,
    site: Option<Site>,
    stack: Stack,
    now: Stack,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapped {
    kind: String,
    description: String,
    call: String,
    count: u64,
    bytes: u64,
    address: u64,
    once: bool,
    site: Option<Site>,
    stack: Stack,
}

impl Kernel {
    pub(super) fn sites(&self) -> impl Iterator<Item = &Site> {
        let descriptors = self.descriptors.iter().map(|it| &it.site);
        let ipc = self.ipc.iter().map(|it| &it.site);
        let children = self.children.iter().map(|it| &it.site);
        let threads = self.threads.iter().map(|it| &it.site);
        let mappings = self.mappings.iter().map(|it| &it.site);
        descriptors.chain(ipc).chain(children).chain(threads).chain(mappings).flatten()
    }
}

impl From<Kernel> for Left<Vec<Frame>> {
    fn from(read: Kernel) -> Self {
        let descriptor = |read: Open| Descriptor {
            numbers: read.numbers,
            kind: read.kind.into(),
            description: read.description,
            call: read.call,
            held_by: read.held_by,
            once: read.once,
            bytes: read.bytes,
            stack: read.stack,
        };
        let object = |read: Object| IpcObject {
            kind: read.kind.into(),
            name: match read.name {
                Some(name) => IpcName::Name(name),
                None => IpcName::Id { id: read.id.unwrap_or_default(), key: read.key.unwrap_or_default() },
            },
            bytes: read.bytes,
            call: read.call.map(Into::into),
            stack: read.stack,
        };
        let child = |read: Child| LeftChild {
            id: read.id,
            parent: read.parent,
            command: read.command,
            is_zombie: read.state == "zombie",
            stack: read.stack,
        };
        let thread =
            |read: Thread| LeftThread { id: read.id, name: read.name, stack: read.stack, now: read.now };
        let mapping = |read: Mapped| LeftMapping {
            kind: read.kind.into(),
            description: read.description,
            call: read.call.into(),
            count: read.count,
            bytes: read.bytes,
            address: read.address,
            once: read.once,
            stack: read.stack,
        };
        Self {
            descriptors: read.descriptors.into_iter().map(descriptor).collect(),
            ipc: read.ipc.into_iter().map(object).collect(),
            children: read.children.into_iter().map(child).collect(),
            threads: read.threads.into_iter().map(thread).collect(),
            timers: read.timers,
            mappings: read.mappings.into_iter().map(mapping).collect(),
            totals: read.report,
            growth: None,
            at_peak: None,
        }
    }
}
