//! Addresses to names: call stacks of a snapshot become frames with function, file and line.
//!
//! Pure but for reading the modules (executables and libraries) that the snapshot names. What cannot
//! be known stays unknown: a frame without a function still has its module and address.

mod chain;
mod foreign;
mod generics;
mod left;
mod module;
mod name;
mod own;
mod owner;
#[cfg(test)]
mod tests;
mod types;
mod variables;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use crate::model::{Finding, Frame, Measure, Origin, OwnCode};
use crate::snapshot::{CallStack, Mapping, Snapshot};
pub(crate) use foreign::{THE_ALLOCATOR, family};
use generics::Generics;
use module::Module;
pub use own::site;
use owner::Owners;
use types::Called;
use variables::Variables;

/// Symbolizes the tests of a run. Keep one for the whole run: modules are parsed once, and each
/// place in a module is looked up once.
pub struct Symbolizer {
    own: OwnCode,
    blazesym: blazesym::symbolize::Symbolizer,
    /// Modules by the path of their mappings.
    modules: HashMap<String, KnownModule>,
    owners: Owners,
    /// Variables by the path of the mappings.
    variables: HashMap<String, Variables>,
    /// By the module's own path.
    generics: HashMap<String, KnownGenerics>,
}

/// A module, and what has been looked up in it.
struct KnownModule {
    module: Module,
    /// Frames by file offset of the call.
    places: HashMap<u64, Rc<[Frame]>>,
}

/// What the debug information of a module says of generic functions.
#[derive(Default)]
struct KnownGenerics {
    generics: Option<Generics>,
    /// Names by address, as they stand for the frames there.
    names: HashMap<u64, Rc<[String]>>,
}

impl Symbolizer {
    /// Makes a symbolizer that tells the user's own code by `own`.
    pub fn new(own: OwnCode) -> Self {
        // Modules do not change while the run lasts: no `stat` a lookup. Names are demangled in `name`.
        let blazesym = blazesym::symbolize::Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_demangling(false)
            .build();
        let owners = Owners::new(own.clone());
        Self {
            own,
            blazesym,
            modules: HashMap::new(),
            owners,
            variables: HashMap::new(),
            generics: HashMap::new(),
        }
    }

    /// Replaces the stack indices of `findings` (into `snapshot.stacks`) by frames, innermost first,
    /// inlined calls as frames of their own. Findings of one kind with equal stacks, holder and scope are
    /// merged; the result is sorted by kind, then largest first.
    pub fn explain(
        &mut self,
        snapshot: &Snapshot,
        findings: Vec<Finding<usize>>,
    ) -> Vec<Finding<Vec<Frame>>> {
        let mut by_address = HashMap::new();
        let mut explained: Vec<Finding<Vec<Frame>>> = Vec::with_capacity(findings.len());
        let mut seen: HashMap<_, usize> = HashMap::new();
        for Finding { kind, measure, stack, below, root, held_by, before, process, origin, in_code } in
            findings
        {
            let recorded = |index: usize| snapshot.stacks.get(index);
            let (stack, root, before) =
                (stack.and_then(recorded), root.and_then(recorded), before.map(recorded));
            let index = *seen
                .entry((kind, stack, root, held_by.clone(), before, in_code.clone()))
                .or_insert_with(|| {
                    let mut frames = |stack| self.frames(&snapshot.mappings, stack, &mut by_address);
                    let (stack, root) = (stack.map(&mut frames), root.map(&mut frames));
                    let before = before.map(|stack| Some(frames(stack)));
                    let (measure, below) = (Measure::default(), Measure::default());
                    let type_name = stack.as_deref().and_then(|frames| self.type_of(frames));
                    let owner = stack.as_deref().map(|frames| self.owners.of_stack(frames));
                    let chain = self.chain(snapshot, origin.chain, &mut by_address);
                    let origin = Origin { type_name, owner: owner.unwrap_or_default(), chain };
                    explained.push(Finding {
                        kind,
                        measure,
                        stack,
                        below,
                        root,
                        held_by,
                        before,
                        process,
                        origin,
                        in_code,
                    });
                    explained.len() - 1
                });
            let into = &mut explained[index];
            into.measure = into.measure + measure;
            into.below = into.below + below;
        }
        explained.sort_by_key(|finding| (finding.kind, Reverse(finding.measure)));
        explained
    }

    /// The frames of a call stack, marked as the user's own or not.
    fn frames(
        &mut self,
        mappings: &[Mapping],
        stack: &CallStack,
        known: &mut HashMap<u64, Rc<[Frame]>>,
    ) -> Vec<Frame> {
        let mut frames = Vec::new();
        for &address in &stack.frames {
            let at = known.entry(address).or_insert_with(|| self.frames_at(mappings, address));
            frames.extend(at.iter().cloned());
        }
        self.own.mark(&mut frames);
        frames
    }

    /// The type that the user's innermost code has had a block allocated for.
    fn type_of(&mut self, frames: &[Frame]) -> Option<String> {
        let end = frames.iter().position(|frame| frame.own)?;
        let is_entry = |frame: &Frame| frame.function.as_deref().is_some_and(foreign::is_rust_alloc);
        let start = frames[..end].iter().rposition(is_entry).map_or(0, |entry| entry + 1);
        let called = (start..end).map(|index| {
            let function = frames[index].function.as_deref()?;
            let wanted = types::has_parameters(function);
            Some(Called { function, generic: if wanted { self.generic_name(frames, index) } else { None } })
        });
        types::hint(&called.collect::<Option<Vec<_>>>()?)
    }

    /// The debug information's own name of a frame's function.
    fn generic_name(&mut self, frames: &[Frame], index: usize) -> Option<String> {
        let Frame { module, address, .. } = &frames[index];
        let is_same = |frame: &&Frame| (&frame.module, frame.address) == (module, *address);
        // Inlined calls come before the function that they are in.
        let inside = frames[..index].iter().rev().take_while(|frame| is_same(frame) && frame.inlined).count();
        let module = module.as_deref()?;
        if !self.generics.contains_key(module) {
            self.generics.insert(module.to_owned(), KnownGenerics::default());
        }
        let KnownGenerics { generics, names } = self.generics.get_mut(module)?;
        let names = names.entry(*address).or_insert_with(|| {
            let generics = generics.get_or_insert_with(|| Generics::open(module));
            // The call is before the return address.
            generics.at(address.saturating_sub(1)).into()
        });
        let name = names.get(inside)?;
        let bare = name.split('<').next()?;
        let is_its =
            |function: &str| function.trim_end_matches("::{{closure}}").ends_with(&format!("::{bare}"));
        frames[index].function.as_deref().filter(|function| is_its(function)).map(|_| name.clone())
    }

    /// The frames at a return address, innermost first; at least one.
    fn frames_at(&mut self, mappings: &[Mapping], return_address: u64) -> Rc<[Frame]> {
        // The byte before a return address belongs to the call, also where the call is the last
        // instruction of its function.
        let Some(address) = return_address.checked_sub(1) else { return unknown(None, 0) };
        let Some(mapping) = mappings.iter().find(|m| m.range.contains(&address) && !m.path.is_empty()) else {
            return unknown(None, return_address);
        };
        let offset = address - mapping.range.start + mapping.offset;
        if !self.modules.contains_key(&mapping.path) {
            let module = Module::open(&mapping.path);
            self.modules.insert(mapping.path.clone(), KnownModule { module, places: HashMap::new() });
        }
        let KnownModule { module, places } = &self.modules[&mapping.path];
        if let Some(frames) = places.get(&offset) {
            return frames.clone();
        }
        let frames = match module.virtual_address(offset) {
            Some(virtual_address) => self.look_up(module, virtual_address),
            None => unknown(Some(&module.name), offset + 1),
        };
        if let Some(known) = self.modules.get_mut(&mapping.path) {
            known.places.insert(offset, frames.clone());
        }
        frames
    }

    /// The frames at a virtual address of a module that can be read.
    fn look_up(&self, module: &Module, address: u64) -> Rc<[Frame]> {
        let frame = |function, location: Option<name::Location>, inlined| {
            let name::Location { file, line, column } = location.unwrap_or_default();
            let module = Some(module.name.clone());
            // Shown as the return address, the way debuggers do.
            Frame { function, file, line, column, module, address: address + 1, inlined, own: false }
        };
        let Some(found) = name::look_up(&self.blazesym, &module.name, address) else {
            return unknown(Some(&module.name), address + 1);
        };
        let inlined =
            found.inlined.into_iter().map(|(function, location)| frame(Some(function), location, true));
        inlined.chain([frame(found.function, found.location, false)]).collect()
    }
}

/// A single frame of which only the place is known.
fn unknown(module: Option<&str>, address: u64) -> Rc<[Frame]> {
    [Frame { module: module.map(str::to_owned), address, ..Frame::default() }].into()
}
