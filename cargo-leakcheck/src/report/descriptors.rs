//! Descriptors that were left open, as text: what each is, and where it was opened.

use super::{View, stack, text};
use crate::model::{CheckedTest, Descriptor, Frame, Verdict, Window};

/// Why there is no call.
const NOT_SEEN: &str =
    "opened at: not seen; only a second run shows it, and there was none that has left it as well";

/// Groups of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;

/// Whether a test's descriptors can fail it. Those of whole programs need a limit for that.
pub(super) fn are_judged(test: &CheckedTest) -> bool {
    let over = matches!(test.memory.verdict, Verdict::Leaks(_));
    test.test.window == Window::TestBody || test.test.budget.fds.is_some() || over
}

/// The descriptors of a test, those that were opened in the same way together; empty when there is nothing
/// to show.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let mut groups: Vec<Vec<&Descriptor<Vec<Frame>>>> = Vec::new();
    let judged = are_judged(test);
    let is_shown = |descriptor: &&Descriptor<_>| view.full_stacks || judged && !descriptor.once;
    for descriptor in test.memory.left.descriptors.iter().filter(is_shown) {
        let alike = |group: &&mut Vec<&Descriptor<Vec<Frame>>>| {
            (&group[0].kind, &group[0].call, &group[0].held_by, &group[0].stack)
                == (&descriptor.kind, &descriptor.call, &descriptor.held_by, &descriptor.stack)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(descriptor),
            None => groups.push(vec![descriptor]),
        }
    }
    let shown = if view.full_stacks { groups.len() } else { groups.len().min(MAX_SHOWN) };
    let mut parts: Vec<String> = groups[..shown].iter().map(|group| one(group, view)).collect();
    let rest = groups[shown..].iter().flatten().map(|descriptor| descriptor.numbers.len()).sum::<usize>();
    if rest > 0 {
        let more = text::count(rest as u64, "more descriptor");
        parts.push(format!("… and {more}; --full-stacks shows them, --json lists them\n"));
    }
    parts
}

/// `fd 7, 8  openat  "/tmp/x"  opened at src/lib.rs:12`, and the call stack.
fn one(group: &[&Descriptor<Vec<Frame>>], view: &View) -> String {
    let Descriptor { numbers, kind, description, call, held_by, bytes, stack, once: _ } = group[0];
    let what = match kind.as_ref() {
        // Their descriptions say it.
        "file" | "socket" if !description.is_empty() => description.clone(),
        kind if description.is_empty() => kind.to_owned(),
        kind => format!("{kind} {description}"),
    };
    let made = call.as_ref().map_or_else(String::new, |call| format!("{call}  "));
    let mut shown = format!("fd {}  {made}{}", ranges(numbers), text::line(&what));
    if let Some(place) = stack::place(stack.as_ref(), view) {
        shown += &format!("  opened at {place}");
    }
    if let Some(thread) = held_by {
        shown += &format!(", held by thread {}", text::line(thread));
    }
    shown += &held(*bytes);
    let others: Vec<u32> = group[1..].iter().flat_map(|descriptor| &descriptor.numbers).copied().collect();
    if !others.is_empty() {
        shown += &format!("\n   and {} more like it: fd {}", others.len(), ranges(&others));
        shown += &held(group[1..].iter().map(|descriptor| descriptor.bytes).sum());
    }
    let unknown = if call.is_some() { "the call stack was not recorded" } else { NOT_SEEN };
    shown + &stack::below(stack.as_ref(), unknown, view)
}

/// ` (192 B)`, if that is known.
fn held(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" ({bytes} B)"))
}

/// `3, 5-9` of numbers, which are sorted first.
fn ranges(numbers: &[u32]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let ranges = numbers.chunk_by(|one, next| *next == one + 1).map(|range| match range {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}{}{last}", if range.len() == 2 { ", " } else { "-" }),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Outcome};
    use crate::report::testing;

    fn descriptor(numbers: &[u32], kind: &'static str, description: &str) -> Descriptor<Vec<Frame>> {
        let stack = testing::finding(FindingKind::DefinitelyLost, 1).stack;
        let (numbers, description, kind) = (numbers.to_vec(), description.to_owned(), kind.into());
        let (call, held_by, once, bytes) = (Some("openat".into()), None, false, None);
        Descriptor { numbers, kind, description, call, held_by, once, bytes, stack }
    }

    fn rendered(descriptors: Vec<Descriptor<Vec<Frame>>>) -> Vec<String> {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.left.descriptors = descriptors;
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
    fn what_was_opened_in_the_same_way_is_shown_once() {
        let numbers = [3, 4, 6, 8, 9, 10].map(|number| descriptor(&[number], "file", "\"x\""));
        let parts = rendered(numbers.into());
        let [text] = &parts[..] else { panic!("{parts:?}") };
        let lines: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(lines[0], "fd 3  openat  \"x\"  opened at src/lib.rs:12");
        assert_eq!(lines[1], "   and 5 more like it: fd 4, 6, 8-10");
    }

    #[test]
    fn what_it_holds_is_said_where_it_is_known() {
        let holding = |number, bytes| Descriptor { bytes, ..descriptor(&[number], "file", "\"x\"") };
        let lines = |last| {
            let parts = rendered(vec![holding(3, Some(192)), holding(4, Some(200)), holding(5, last)]);
            parts[0].lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let first = "fd 3  openat  \"x\"  opened at src/lib.rs:12 (192 B)";
        assert_eq!(lines(Some(8)), [first, "   and 2 more like it: fd 4, 5 (208 B)"]);
        // Of those that are shown together it is known of all or not said.
        assert_eq!(lines(None), [first, "   and 2 more like it: fd 4, 5"]);
    }

    #[test]
    fn it_is_said_that_nobody_saw_it_being_opened() {
        let unseen = Descriptor { call: None, stack: None, ..descriptor(&[3], "pipe", "read end") };
        let text = rendered(vec![unseen]);
        let lines: Vec<&str> = text[0].lines().collect();
        assert_eq!(lines[0], "fd 3  pipe read end");
        assert!(lines[1].trim_start().starts_with("opened at: not seen"), "{lines:?}");
    }

    #[test]
    fn a_running_thread_is_named() {
        let mut descriptor = descriptor(&[3], "epoll", "");
        descriptor.held_by = Some("wor\nker".into());
        let line = "fd 3  openat  epoll  opened at src/lib.rs:12, held by thread wor\\nker";
        assert_eq!(rendered(vec![descriptor])[0].lines().next(), Some(line));
    }

    #[test]
    fn those_of_initializers_are_details() {
        let once = Descriptor { once: true, ..descriptor(&[3], "epoll", "") };
        assert!(rendered(vec![once.clone()]).is_empty());
        assert_eq!(rendered(vec![once, descriptor(&[4], "epoll", "")]).len(), 1);
    }

    #[test]
    fn those_of_a_program_are_details() {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.left.descriptors = vec![descriptor(&[3], "epoll", "")];
        test.test.window = Window::Process;
        assert!(render(&test, &testing::view()).is_empty());
        assert_eq!(render(&test, &View { full_stacks: true, ..testing::view() }).len(), 1);
        test.memory.verdict = Verdict::Leaks(vec!["1 descriptor left open (budget 0)".into()]);
        assert_eq!(render(&test, &testing::view()).len(), 1);
    }

    #[test]
    fn thousands_are_cut_short() {
        let different = |line| {
            let mut descriptor = descriptor(&[line, line + 1000], "file", "\"x\"");
            descriptor.stack.as_mut().unwrap()[1].line = Some(line);
            descriptor
        };
        let parts = rendered((1..=30).map(different).collect());
        assert_eq!(parts.len(), 21);
        assert_eq!(parts[20], "… and 20 more descriptors; --full-stacks shows them, --json lists them\n");
    }
}
