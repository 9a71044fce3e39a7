//! Call stacks as lines of text, the frames that are not the user's folded.

use super::{View, text};
use crate::model::Frame;
use crate::model::OwnCode;
use crate::symbolize::{family, site};

/// Lines of a stack at most, unless all are asked for: recursion is deep and says little.
const MAX_LINES: usize = 32;

/// The lines of a call stack, innermost frame first. Runs of frames that are not the user's become
/// one line; unknown frames between the user's stay, because one of them may be the user's.
pub(super) fn lines(frames: &[Frame], own: &OwnCode, full: bool) -> Vec<String> {
    if full {
        return frames.iter().map(|frame| line(frame, own)).collect();
    }
    // Outside the outermost own frame is only what started it.
    let outermost = frames.iter().rposition(|frame| frame.own);
    let folded = |index: usize| {
        let frame = &frames[index];
        !frame.own && (frame.function.is_some() || outermost.is_some_and(|outermost| index > outermost))
    };
    let mut lines = Vec::new();
    let mut index = 0;
    while index < frames.len() {
        if lines.len() == MAX_LINES {
            lines.push(format!(
                "… {} more; --full-stacks shows them",
                text::count((frames.len() - index) as u64, "frame")
            ));
            break;
        }
        let run = (index..frames.len()).take_while(|&index| folded(index)).count();
        if run == 0 {
            lines.push(line(&frames[index], own));
            index += 1;
            continue;
        }
        let mut of: Vec<&str> = Vec::new();
        for family in frames[index..index + run].iter().filter_map(family) {
            if !of.contains(&family) {
                of.push(family);
            }
        }
        if of.is_empty() {
            of.push("the runtime");
        }
        lines.push(format!("… {} of {}", text::count(run as u64, "frame"), of.join(", ")));
        index += run;
    }
    lines
}

/// The lines of a call stack as what stands below a headline; `unknown` where it is not known.
pub(super) fn below(stack: Option<&Vec<Frame>>, unknown: &str, view: &View) -> String {
    let lines = match stack {
        Some(frames) => lines(frames, &view.own, view.full_stacks),
        None => vec![unknown.to_owned()],
    };
    lines.iter().map(|line| format!("\n    {line}")).chain(["\n".to_owned()]).collect()
}

/// The user's own line in a call stack: `src/lib.rs:12`.
pub(super) fn place(stack: Option<&Vec<Frame>>, view: &View) -> Option<String> {
    let site = site(stack?, &view.own)?;
    let file = text::line(view.own.shown(site.file.as_deref()?));
    Some(site.line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}")))
}

/// `at tests::leaks (src/lib.rs:12:9)`, `at ?? libc.so.6+0x98a70`.
fn line(frame: &Frame, own: &OwnCode) -> String {
    let module = || {
        let file = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        file.map_or_else(|| format!("{:#x}", frame.address), |file| format!("{file}+{:#x}", frame.address))
    };
    let place = location(frame, own).unwrap_or_else(module);
    let inlined = if frame.inlined { " (inlined)" } else { "" };
    let shown = match &frame.function {
        Some(function) => format!("at {function} ({place}){inlined}"),
        None => format!("at ?? {place}{inlined}"),
    };
    text::line(&shown).into_owned()
}

/// All of a frame, to know it again: thousands of call stacks have few of them.
pub(super) type Key<'a> =
    (Option<&'a str>, Option<&'a str>, Option<u32>, Option<u32>, Option<&'a str>, u64, bool, bool);

/// A frame's.
pub(super) fn key(frame: &Frame) -> Key<'_> {
    let Frame { function, file, line, column, module, address, inlined, own } = frame;
    (function.as_deref(), file.as_deref(), *line, *column, module.as_deref(), *address, *inlined, *own)
}

/// The place of a frame, or what else is known of it.
pub(super) fn site_of(frame: &Frame, view: &View) -> String {
    let place = location(frame, &view.own);
    place.or_else(|| frame.function.clone()).unwrap_or_else(|| "an unknown place".to_owned())
}

/// `src/lib.rs:12:9`.
pub(super) fn location(frame: &Frame, own: &OwnCode) -> Option<String> {
    let mut location = own.shown(frame.file.as_deref()?).to_owned();
    for number in [frame.line, frame.line.and(frame.column)].into_iter().flatten() {
        location = format!("{location}:{number}");
    }
    Some(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: Option<&str>, file: Option<&str>, own: bool) -> Frame {
        let (line, column) = (file.and(Some(12)), file.and(Some(9)));
        let module = Some(if function.is_some() { "/w/target/a-1" } else { "/tmp/run/libc.so.6" }.into());
        Frame {
            function: function.map(Into::into),
            file: file.map(Into::into),
            line,
            column,
            module,
            address: 0x98a70,
            own,
            ..Frame::default()
        }
    }

    fn stack() -> Vec<Frame> {
        let std = "/rustc/1/library/alloc/src/lib.rs";
        let mut inlined = frame(Some("a::make"), Some("/w/src/make.rs"), true);
        inlined.inlined = true;
        vec![
            frame(Some("__rustc::__rust_alloc"), None, false),
            frame(Some("alloc::vec::Vec::push"), Some(std), false),
            frame(None, None, false),
            inlined,
            frame(Some("a::tests::leaks"), Some("/w/src/lib.rs"), true),
            frame(Some("core::ops::function::FnOnce::call_once"), Some(std), false),
            frame(Some("test::run_test"), Some(std), false),
            frame(None, None, false),
        ]
    }

    fn own() -> OwnCode {
        OwnCode { root: "/w".into(), packages: vec!["/w".into()] }
    }

    #[test]
    fn frames_of_others_are_folded() {
        assert_eq!(
            lines(&stack(), &own(), false),
            [
                "… 2 frames of the allocator, std",
                "at ?? libc.so.6+0x98a70",
                "at a::make (src/make.rs:12:9) (inlined)",
                "at a::tests::leaks (src/lib.rs:12:9)",
                "… 3 frames of std, libtest, libc",
            ]
        );
    }

    #[test]
    fn full_stacks_have_a_line_for_each_frame() {
        let lines = lines(&stack(), &own(), true);
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[0], "at __rustc::__rust_alloc (a-1+0x98a70)");
        assert_eq!(lines[7], "at ?? libc.so.6+0x98a70");
    }

    #[test]
    fn a_stack_without_own_frames_shows_what_is_unknown() {
        let frames = [frame(None, None, false), frame(Some("std::f"), None, false), frame(None, None, false)];
        let unknown = "at ?? libc.so.6+0x98a70";
        assert_eq!(lines(&frames, &own(), false), [unknown, "… 1 frame of std", unknown]);
    }

    #[test]
    fn recursion_is_cut_short() {
        let frames = vec![frame(Some("a::deep"), Some("/w/src/lib.rs"), true); 100];
        let lines = lines(&frames, &own(), false);
        assert_eq!(lines.len(), 33);
        assert_eq!(lines[32], "… 68 frames more; --full-stacks shows them");
    }
}
