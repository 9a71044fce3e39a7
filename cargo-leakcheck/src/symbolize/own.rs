//! Whose code a frame is: the user's own, or of std, an allocator, the test harness or the runtime.

use camino::Utf8Path;

use super::foreign;
use crate::model::{Frame, OwnCode};

impl OwnCode {
    /// Sets `own` of the frames of one call stack, given innermost first.
    pub fn mark(&self, frames: &mut [Frame]) {
        for frame in &mut *frames {
            frame.own = self.is_own(frame);
        }
        // What the global allocator calls, also when it is one that the user wrote, allocates for others.
        if let Some(entry) =
            frames.iter().rposition(|f| f.function.as_deref().is_some_and(foreign::is_rust_alloc))
        {
            frames[..=entry].iter_mut().for_each(|frame| frame.own = false);
        }
        // What calls the harness (a generated `main`) is part of it, and so is the closure that it
        // has around each test.
        let harness = |f: &Frame| !f.own && f.function.as_deref().is_some_and(foreign::is_harness);
        if let Some(entry) = frames.iter().position(harness) {
            frames[entry..].iter_mut().for_each(|frame| frame.own = false);
            let closure = |f: &Frame| f.function.as_deref().is_some_and(foreign::is_closure);
            match frames[..entry].iter().rposition(|frame| frame.own) {
                Some(last) if last > 0 && frames[last - 1].own && closure(&frames[last]) => {
                    frames[last].own = false
                }
                _ => {}
            }
        }
    }

    /// Whether a frame by itself is the user's own code. Dependencies are: they are what the user
    /// chose to call.
    fn is_own(&self, frame: &Frame) -> bool {
        if frame.module.as_deref().is_some_and(foreign::is_runtime_module) {
            return false;
        }
        if let Some(file) = &frame.file {
            if foreign::is_toolchain_file(file) {
                return false;
            }
            if self.in_workspace(file) {
                // The way into a `#[global_allocator]` has the line of that attribute.
                let allocates = |name: &str| foreign::is_global_alloc(name) || foreign::is_rust_alloc(name);
                return !frame.function.as_deref().is_some_and(allocates);
            }
        }
        match &frame.function {
            Some(function) => !foreign::is_function(function),
            None => frame.file.is_some(),
        }
    }

    /// Whether a file of the debug information is a source file of the packages under test. Libraries
    /// of distributions have relative paths as well, so one counts only where there is such a file.
    pub fn in_workspace(&self, file: &str) -> bool {
        let path = self.root.join(file);
        // Continuous integration likes to keep cargo's home in the working directory.
        let dependency = file.contains("/registry/src/") || file.contains("/git/checkouts/");
        let below = !dependency && self.packages.iter().any(|package| path.starts_with(package));
        below && (file.starts_with('/') || path.is_file())
    }

    /// A path as reports show it: relative to the root where it is below it.
    pub fn shown<'a>(&self, file: &'a str) -> &'a str {
        let relative = Utf8Path::new(file).strip_prefix(&self.root);
        relative.ok().filter(|path| !path.as_str().is_empty()).map_or(file, Utf8Path::as_str)
    }
}

/// The allocation site: the innermost frame in a source file of the packages under test; without one,
/// the innermost frame of own code (a dependency's), preferably with a source line.
pub fn site<'a>(frames: &'a [Frame], own: &OwnCode) -> Option<&'a Frame> {
    let in_workspace =
        |frame: &&Frame| frame.own && frame.file.as_deref().is_some_and(|f| own.in_workspace(f));
    let own = || frames.iter().filter(|frame| frame.own);
    frames.iter().find(in_workspace).or_else(|| own().find(|f| f.line.is_some())).or_else(|| own().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> OwnCode {
        OwnCode { root: "/w".into(), packages: vec!["/w/a".into(), "/w/b".into()] }
    }

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            file: (!file.is_empty()).then(|| file.into()),
            line: (!file.is_empty()).then_some(1),
            ..Frame::default()
        }
    }

    fn owned(stack: &[(&str, &str)]) -> Vec<bool> {
        let mut frames: Vec<_> = stack.iter().map(|(function, file)| frame(function, file)).collect();
        own().mark(&mut frames);
        frames.iter().map(|frame| frame.own).collect()
    }

    #[test]
    fn the_file_decides_before_the_name() {
        // A user's crate may be called `test`, and a std generic may name the user's type first.
        let stack = [
            ("test::parse", "/w/a/src/lib.rs"),
            ("<a::T as core::convert::Into<u8>>::into", "/rustc/59807616e/library/core/src/convert/mod.rs"),
            ("dep::f", "/home/u/.cargo/registry/src/index-1/dep-1.0.0/src/lib.rs"),
        ];
        assert_eq!(owned(&stack), [true, false, true]);
    }

    #[test]
    fn the_users_global_allocator_is_an_allocator() {
        let stack = [
            ("a::Counting::count", "/w/a/src/lib.rs"),
            ("<a::Counting as core::alloc::global::GlobalAlloc>::alloc", "/w/a/src/lib.rs"),
            ("__rustc::__rust_alloc", ""),
            ("a::leaks", "/w/a/src/lib.rs"),
        ];
        assert_eq!(owned(&stack), [false, false, false, true]);
    }

    #[test]
    fn what_calls_the_harness_belongs_to_it() {
        let stack = [
            ("a::leaks", "/w/a/src/lib.rs"),
            ("a::leaks::{{closure}}", "/w/a/src/lib.rs"),
            ("core::ops::function::FnOnce::call_once", "/rustc/59807616e/library/core/src/ops/function.rs"),
            ("test::__rust_begin_short_backtrace", "/rustc/59807616e/library/test/src/lib.rs"),
            ("a::main", "/w/a/src/lib.rs"),
            ("main", ""),
        ];
        assert_eq!(owned(&stack), [true, false, false, false, false, false]);
        // Where the test's own frame is missing, the closure is better than nothing.
        assert_eq!(owned(&stack[1..]), [true, false, false, false, false]);
    }

    #[test]
    fn the_runtime_is_foreign_whatever_its_paths_are() {
        let root = env!("CARGO_MANIFEST_DIR");
        let own = OwnCode { root: root.into(), packages: vec![root.into()] };
        let mut frames = [frame("strdup", "src/lib.rs"), frame("helper", "src/lib.rs")];
        frames[0].module = Some("/tmp/run/libc.so.6".into());
        own.mark(&mut frames);
        assert_eq!(frames.map(|frame| frame.own), [false, true]);
    }

    #[test]
    fn the_site_is_in_the_workspace_if_it_can_be() {
        let dependency = frame("sys_new", "/home/u/.cargo/registry/src/index-1/sys-1.0.0/c/x.c");
        let mut frames = [frame("alloc::alloc::alloc", ""), dependency, frame("a::leaks", "/w/a/src/lib.rs")];
        own().mark(&mut frames);
        assert_eq!(site(&frames, &own()), Some(&frames[2]));
        assert_eq!(site(&frames[..2], &own()), Some(&frames[1]));
        assert_eq!(site(&frames[..1], &own()), None);
    }

    #[test]
    fn a_cargo_home_inside_the_workspace_is_not_the_workspace() {
        let own = OwnCode { root: "/w".into(), packages: vec!["/w".into()] };
        assert!(own.in_workspace("/w/src/lib.rs"));
        assert!(!own.in_workspace("nptl/pthread_create.c"), "there is no such file");
        assert!(!own.in_workspace("/w/.cargo/registry/src/index-1/dep-1.0.0/src/lib.rs"));
        assert!(!own.in_workspace("/wide/src/lib.rs"));
    }

    #[test]
    fn paths_are_shown_relative_to_the_root() {
        assert_eq!(own().shown("/w/a/src/lib.rs"), "a/src/lib.rs");
        assert_eq!(own().shown("/elsewhere/x.c"), "/elsewhere/x.c");
        assert_eq!(own().shown("src/lib.rs"), "src/lib.rs");
    }
}
