//! The ways to blocks: roots by their variables, blocks by their allocation sites.

use std::collections::HashMap;
use std::rc::Rc;

use super::variables::Variables;
use super::{Symbolizer, site};
use crate::model::{Frame, Held, HeldBy, Step, Through};
use crate::snapshot::{Mapping, Snapshot};

impl Symbolizer {
    /// A way with names. Of a block's call stack the allocation site is kept, a single frame: ways are many, and their
    /// blocks often are findings of their own.
    pub(super) fn chain(
        &mut self,
        snapshot: &Snapshot,
        chain: Vec<Step<usize>>,
        known: &mut HashMap<u64, Rc<[Frame]>>,
    ) -> Vec<Step<Vec<Frame>>> {
        let mut step = |step| match step {
            Step::Root(held) => Step::Root(self.named(snapshot, held)),
            Step::More(count) => Step::More(count),
            Step::Block(Through { stack, bytes, offset, .. }) => {
                let stack = stack.and_then(|index| snapshot.stacks.get(index));
                let frames = stack.map(|stack| self.frames(&snapshot.mappings, stack, known));
                let type_name = frames.as_deref().and_then(|frames| self.type_of(frames));
                let stack = frames
                    .map(|frames| site(&frames, &self.own).or(frames.first()).cloned().into_iter().collect());
                Step::Block(Through { stack, bytes, type_name, offset })
            }
        };
        chain.into_iter().map(&mut step).collect()
    }

    /// What holds a block, with the variable's name.
    fn named(&mut self, snapshot: &Snapshot, held: Held) -> Held {
        let mappings = &snapshot.mappings;
        match held.by {
            HeldBy::Static => self.named_static(mappings, held),
            HeldBy::ThreadLocal => {
                let storage = snapshot.storage.iter().find(|storage| storage.range.contains(&held.offset));
                // That of the executable is nearest to the thread pointer.
                let executable = mappings.iter().find(|mapping| mapping.path.starts_with('/'));
                let found = storage.zip(executable).and_then(|(storage, executable)| {
                    let below = storage.range.end - held.offset;
                    let (symbol, offset) = self.variables(&executable.path).thread_local(below)?;
                    Some((executable.path.clone(), symbol, offset))
                });
                match found {
                    Some((module, symbol, offset)) => {
                        Held { module: Some(module), symbol: Some(symbol), offset, ..held }
                    }
                    None => Held { offset: 0, ..held },
                }
            }
            _ => held,
        }
    }

    fn named_static(&mut self, mappings: &[Mapping], held: Held) -> Held {
        let place = held.offset;
        let Some(index) = mappings.iter().position(|mapping| mapping.range.contains(&place)) else {
            return Held { by: HeldBy::Mapping, offset: 0, ..held };
        };
        // Data that is zero at first follows the file's in memory of its own.
        let mut first = index;
        while mappings[first].path.is_empty()
            && first > 0
            && mappings[first - 1].range.end == mappings[first].range.start
        {
            first -= 1;
        }
        let of_file = &mappings[first];
        if of_file.path.starts_with('/') {
            let variables = self.variables(&of_file.path);
            if let Some(address) = variables.address(of_file, place) {
                let module = Some(of_file.path.clone());
                let (symbol, offset) = match variables.at(address) {
                    Some((symbol, offset)) => (Some(symbol), offset),
                    None => (None, address),
                };
                return Held { module, symbol, offset, ..held };
            }
        }
        let mapping = &mappings[index];
        let module = (!mapping.path.is_empty()).then(|| mapping.path.clone());
        Held { by: HeldBy::Mapping, module, offset: place - mapping.range.start, ..held }
    }

    fn variables(&mut self, path: &str) -> &Variables {
        if !self.variables.contains_key(path) {
            self.variables.insert(path.to_owned(), Variables::open(path));
        }
        &self.variables[path]
    }
}
