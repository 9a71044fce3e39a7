//! Call stacks that the tracer unwinds itself, of a process that is kept: where it is by what the modules
//! say of their frames, and which of the snapshot's stacks that is.

use std::cell::RefMut;
use std::collections::HashMap;

use leakcheck_preload::unwind::Row;

use super::stacks::Code;
use crate::snapshot::{CallStack, Mapping};
use crate::trace::Rows;

/// Finds frames, and adds call stacks to those of a snapshot, each once.
pub struct Places<'a> {
    rows: RefMut<'a, Rows>,
    now: &'a [Mapping],
    code: Code,
    stacks: &'a mut Vec<CallStack>,
    known: HashMap<Vec<u64>, usize>,
}

impl<'a> Places<'a> {
    /// In a process with these mappings, now and before.
    pub fn new(
        rows: RefMut<'a, Rows>,
        now: &'a [Mapping],
        before: &[Mapping],
        stacks: &'a mut Vec<CallStack>,
    ) -> Self {
        Self { rows, now, code: Code::of(now, before), stacks, known: HashMap::new() }
    }

    /// How the frame at an address is found; none where nothing describes it.
    pub fn row(&mut self, address: u64) -> Option<Row> {
        let mapping = self.now.iter().find(|mapping| mapping.range.contains(&address))?;
        self.rows.find(&mapping.path, address - mapping.range.start + mapping.offset)
    }

    /// The number of a call stack among the snapshot's.
    pub fn add(&mut self, frames: Vec<u64>) -> usize {
        let frames = self.code.plausible(frames);
        *self.known.entry(frames).or_insert_with_key(|frames| {
            self.stacks.push(CallStack { frames: frames.clone() });
            self.stacks.len() - 1
        })
    }
}
