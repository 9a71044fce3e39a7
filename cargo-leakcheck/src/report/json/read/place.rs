//! Which files of call stacks are sources of the packages under test: by themselves they cannot be told from those of
//! libraries with relative paths, once the report is somewhere else.

use std::collections::HashSet;

use camino::Utf8Path;
use serde::Deserialize;

use crate::model::{Frame, Judged};

/// The allocation site. Its line and column are those of its frame.
#[derive(Deserialize)]
pub struct Site {
    pub file: String,
}

/// Puts the files of sites below `root`, whether they are there or not.
pub fn place(memory: &mut Judged, sites: &HashSet<String>, root: &Utf8Path) {
    for frame in stacks(memory).flatten().filter(|frame| frame.own) {
        if let Some(file) = frame.file.as_mut().filter(|file| sites.contains(*file)) {
            *file = root.join(&*file).into_string();
        }
    }
}

fn stacks(memory: &mut Judged) -> impl Iterator<Item = &mut Vec<Frame>> {
    let left = &mut memory.left;
    let findings = memory.findings.iter_mut().flat_map(|it| {
        let before = &mut it.before;
        [&mut it.stack, &mut it.root, &mut before.freed, &mut before.allocated]
    });
    let descriptors = left.descriptors.iter_mut().map(|it| &mut it.stack);
    let ipc = left.ipc.iter_mut().map(|it| &mut it.stack);
    let children = left.children.iter_mut().map(|it| &mut it.stack);
    let threads = left.threads.iter_mut().flat_map(|it| [&mut it.stack, &mut it.now]);
    let mappings = left.mappings.iter_mut().map(|it| &mut it.stack);
    let growth = left.growth.iter_mut().flat_map(|growth| growth.grown.iter_mut().map(|it| &mut it.stack));
    let at_peak = left.at_peak.iter_mut().flat_map(|it| it.stacks.iter_mut().map(|it| &mut it.stack));
    let mappings = mappings.chain(growth).chain(at_peak);
    findings.chain(descriptors).chain(ipc).chain(children).chain(threads).chain(mappings).flatten()
}
