//! What std keeps to symbolize backtraces: none of the test's doing, and often by far the most of what a test leaves.

use std::path::Path;

use crate::snapshot::{CallStack, Mapping};
use crate::trace;

/// The code of a process that symbolizes.
pub struct Symbolizer<'a> {
    functions: &'a trace::Symbolizer,
    executable: Vec<&'a Mapping>,
}

impl<'a> Symbolizer<'a> {
    /// That of a program; `mappings` are those of its process, which executes the file of this path.
    pub fn new(functions: &'a trace::Symbolizer, mappings: &'a [Mapping], path: &Path) -> Self {
        let is_its = |mapping: &&Mapping| mapping.executable && Path::new(&mapping.path) == path;
        Self { functions, executable: mappings.iter().filter(is_its).collect() }
    }

    /// Whether what was allocated or mapped here is the symbolizer's: its functions are nearer to the allocation than those of
    /// a `Backtrace`.
    pub fn has(&self, stack: &CallStack) -> bool {
        stack.frames.iter().find_map(|frame| self.is_its(frame.checked_sub(1)?)).unwrap_or(false)
    }

    fn is_its(&self, address: u64) -> Option<bool> {
        let mapping = self.executable.iter().find(|mapping| mapping.range.contains(&address))?;
        let offset = address - mapping.range.start + mapping.offset;
        let behind = self.functions.partition_point(|(range, _)| range.start <= offset);
        let (range, symbolizes) = &self.functions[behind.checked_sub(1)?];
        range.contains(&offset).then_some(*symbolizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_says_whose_it_is() {
        let mapping = |start: u64, offset, executable, path: &str| Mapping {
            range: start..start + 0x1000,
            offset,
            readable: true,
            writable: false,
            executable,
            path: path.into(),
        };
        let mappings = [
            mapping(0x8000, 0x800, true, "/mapped.by.the.test"),
            mapping(0x10000, 0, false, "/t"),
            mapping(0x11000, 0x800, true, "/t"),
            mapping(0x70000, 0x800, true, "/libc.so"),
        ];
        // At 0x11000, 0x11020 and 0x11100 in memory.
        let functions = vec![(0x800..0x820, true), (0x820..0x840, false), (0x900..0x910, true)];
        let symbolizer = Symbolizer::new(&functions, &mappings, Path::new("/t"));
        let has = |frames: &[u64]| symbolizer.has(&CallStack { frames: frames.to_vec() });
        assert!(has(&[0x11110]), "a call at the very end");
        assert!(!has(&[0x11100]), "a call before it");
        assert!(has(&[0x70001, 0x11500, 0x11010, 0x11030]), "filled for a backtrace");
        assert!(!has(&[0x70001, 0x11500, 0x11030, 0x11010]), "of the backtrace itself");
        assert!(!has(&[0x70010, 0x8010, 0x11500, 0]), "other code is at the same offset");
        assert!(!has(&[]));
    }
}
