//! Call stacks that the tracer unwinds itself, of a process that is kept: where it is by what the modules
//! say of their frames, and which of the snapshot's stacks that is.

use std::cell::RefMut;
use std::collections::HashMap;

use camino::Utf8Path;
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

    fn mapping(&self, address: u64) -> Option<&'a Mapping> {
        self.now.iter().find(|mapping| mapping.range.contains(&address))
    }

    /// How the frame at an address is found; none where nothing describes it.
    pub fn row(&mut self, address: u64) -> Option<Row> {
        let mapping = self.mapping(address)?;
        self.rows.find(&mapping.path, address - mapping.range.start + mapping.offset)
    }

    /// The frames of the program: those of a module that is in the process for the tracer alone, and of what it has
    /// called, are not its.
    pub fn without(&self, module: Option<&Utf8Path>, mut frames: Vec<u64>) -> Vec<u64> {
        let is_of = |address: &u64| {
            let mapping = self.mapping(address.wrapping_sub(1));
            mapping.is_some_and(|mapping| module.is_some_and(|path| mapping.path == *path))
        };
        let outermost = frames.iter().rposition(is_of);
        frames.drain(..outermost.map_or(0, |outermost| outermost + 1));
        frames
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_recorder_in_the_process_is_not_the_program() {
        let mapping = |start: u64, path: &str| Mapping {
            range: start..start + 0x1000,
            offset: 0,
            readable: true,
            writable: false,
            executable: true,
            path: path.into(),
        };
        let now = [mapping(0x1000, "/bin/p"), mapping(0x2000, "/libc.so"), mapping(0x3000, "/recorder.so")];
        let (rows, mut stacks) = (RefCell::default(), Vec::new());
        let places = Places::new(rows.borrow_mut(), &now, &[], &mut stacks);
        let recorder = Some(Utf8Path::new("/recorder.so"));
        // It has called the C library, and a function of it ends with its last call.
        assert_eq!(places.without(recorder, vec![0x2010, 0x3020, 0x4000, 0x2030, 0x1040]), [0x2030, 0x1040]);
        assert_eq!(places.without(recorder, vec![0x2010, 0x1040]), [0x2010, 0x1040]);
        assert_eq!(places.without(None, vec![0x3020, 0x1040]), [0x3020, 0x1040]);
    }
}
