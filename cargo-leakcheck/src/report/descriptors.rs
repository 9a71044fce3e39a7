//! Descriptors that were left open, as text: what each is, and where it was opened.

use super::{View, stack, text};
use crate::model::{CheckedTest, Descriptor, Frame};
use crate::symbolize::site;

/// Those of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;

/// The descriptors of a test; empty when there are none.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let all = &test.memory.descriptors;
    let shown = if view.full_stacks { all.len() } else { all.len().min(MAX_SHOWN) };
    let mut parts: Vec<String> = all[..shown].iter().map(|descriptor| one(descriptor, view)).collect();
    let rest: usize = all[shown..].iter().map(|descriptor| descriptor.numbers.len()).sum();
    if rest > 0 {
        let more = text::count(rest as u64, "more descriptor");
        parts.push(format!("… and {more}; --full-stacks shows them, --json lists them\n"));
    }
    parts
}

/// `fd 7, 8  openat  "/tmp/x"  opened at src/lib.rs:12`, and the call stack.
fn one(descriptor: &Descriptor<Vec<Frame>>, view: &View) -> String {
    let Descriptor { numbers, kind, description, call, stack } = descriptor;
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let what = match *kind {
        // Their descriptions say it.
        "file" | "socket" if !description.is_empty() => description.clone(),
        kind if description.is_empty() => kind.to_owned(),
        kind => format!("{kind} {description}"),
    };
    let mut shown = format!("fd {}  {call}  {}", numbers.join(", "), text::line(&what));
    let place = stack.as_deref().and_then(|frames| {
        let site = site(frames, &view.own)?;
        Some((view.own.shown(site.file.as_deref()?), site.line))
    });
    if let Some((file, line)) = place {
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        shown += &format!("  opened at {}{line}", text::line(file));
    }
    let lines = match stack {
        Some(frames) => stack::lines(frames, &view.own, view.full_stacks),
        None => vec!["the call stack was not recorded".to_owned()],
    };
    for line in lines {
        shown += "\n    ";
        shown += &line;
    }
    shown + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Outcome, Verdict};
    use crate::report::testing;

    fn descriptor(numbers: &[u32], kind: &'static str, description: &str) -> Descriptor<Vec<Frame>> {
        let stack = testing::finding(FindingKind::DefinitelyLost, 1).stack;
        let (numbers, description) = (numbers.to_vec(), description.to_owned());
        Descriptor { numbers, kind, description, call: "openat".into(), stack }
    }

    fn rendered(descriptors: Vec<Descriptor<Vec<Frame>>>) -> Vec<String> {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.descriptors = descriptors;
        render(&test, &testing::view())
    }

    #[test]
    fn a_line_says_what_it_is_and_where_it_was_opened() {
        let stack = "    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n";
        for (numbers, kind, description, line) in [
            (&[7][..], "file", "\"/tmp/x\"", "fd 7  openat  \"/tmp/x\""),
            (&[3, 12], "socket", "tcp 127.0.0.1:1", "fd 3, 12  openat  tcp 127.0.0.1:1"),
            (&[4], "pipe", "read end", "fd 4  openat  pipe read end"),
            (&[4], "epoll", "", "fd 4  openat  epoll"),
            (&[4], "file", "\"a\nb\"", "fd 4  openat  \"a\\nb\""),
        ] {
            let expected = format!("{line}  opened at src/lib.rs:12\n{stack}");
            assert_eq!(rendered(vec![descriptor(numbers, kind, description)]), [expected]);
        }
    }

    #[test]
    fn thousands_are_cut_short() {
        let parts = rendered(vec![descriptor(&[5, 6], "file", "\"x\""); 30]);
        assert_eq!(parts.len(), 21);
        assert_eq!(parts[20], "… and 20 more descriptors; --full-stacks shows them, --json lists them\n");
    }
}
