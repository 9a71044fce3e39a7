//! Processes and threads that were left, as text: what each is, and where it was started.

use super::{View, stack, text};
use crate::model::{CheckedTest, Frame, LeftChild, LeftThread, Verdict, Window};

/// Processes, and groups of threads, of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;
/// Names of threads that a test's line has.
const MAX_NAMES: usize = 3;

type Stack = Option<Vec<Frame>>;

/// Whether a test's children can fail it. Those of whole programs need a limit for that.
fn are_judged(test: &CheckedTest) -> bool {
    let over = matches!(test.memory.verdict, Verdict::Leaks(_));
    test.test.window == Window::TestBody || test.test.budget.children.is_some() || over
}

/// The processes and threads of a test; empty when there is nothing to show.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let left = &test.memory.left;
    let mut parts = Vec::new();
    if are_judged(test) || view.full_stacks {
        parts.extend(left.children.iter().map(|it| child(it, view)));
    }
    // Programs have threads that nobody ends: of a test that is clean its line says how many.
    let over = matches!(test.memory.verdict, Verdict::Leaks(_));
    if over || view.full_stacks || test.test.budget.threads.is_some() {
        let mut groups: Vec<Vec<&LeftThread<Vec<Frame>>>> = Vec::new();
        for thread in &left.threads {
            let key = |of: &&LeftThread<Vec<Frame>>| (of.name.clone(), of.stack.clone());
            match groups.iter_mut().find(|group| key(&group[0]) == key(&thread)) {
                Some(group) => group.push(thread),
                None => groups.push(vec![thread]),
            }
        }
        parts.extend(groups.iter().map(|group| threads(group, view)));
    }
    if parts.len() > MAX_SHOWN && !view.full_stacks {
        let more = parts.len() - MAX_SHOWN;
        parts.truncate(MAX_SHOWN);
        parts.push(format!(
            "… and {more} more processes or threads left; --full-stacks shows them, --json lists them\n"
        ));
    }
    parts
}

/// What is reported of them in a test's line without being judged.
pub(super) fn aside(test: &CheckedTest) -> Vec<String> {
    let left = &test.memory.left;
    let clean = matches!(test.memory.verdict, Verdict::Clean);
    let mut parts = Vec::new();
    // Otherwise they are a reason of the verdict, or nobody is to judge.
    if clean && !left.children.is_empty() {
        let within = if are_judged(test) { ", within the budget" } else { "" };
        parts.push(format!("{} left{within}", text::count(left.children.len() as u64, "child")));
    }
    if clean && !left.threads.is_empty() {
        let mut names: Vec<&str> = left.threads.iter().map(|thread| thread.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let more = if names.len() > MAX_NAMES { ", …" } else { "" };
        names.truncate(MAX_NAMES);
        let threads = text::count(left.threads.len() as u64, "thread");
        parts.push(format!("{threads} left running: {}{more}", names.join(", ")));
    }
    parts
}

/// `child 1234  sleep 1000  still running, started at src/lib.rs:12`, and the call stack.
fn child(child: &LeftChild<Vec<Frame>>, view: &View) -> String {
    let LeftChild { id, parent: _, command, is_zombie, stack } = child;
    let state = if *is_zombie { "ended, not waited for" } else { "still running" };
    let shown = format!("child {id}  {}  {state}", text::line(command));
    with_place(shown, stack, view)
}

/// `thread worker  still running, started at src/lib.rs:12`, and the call stack.
fn threads(group: &[&LeftThread<Vec<Frame>>], view: &View) -> String {
    let LeftThread { name, stack, now, .. } = group[0];
    let mut shown = match group {
        [_] => format!("thread {}  still running", text::line(name)),
        group => format!("{} threads {}  still running", group.len(), text::line(name)),
    };
    if let ([_], Some(place)) = (group, stack::place(now.as_ref(), view)) {
        shown += &format!(" at {place}");
    }
    with_place(shown, stack, view)
}

fn with_place(mut shown: String, stack: &Stack, view: &View) -> String {
    if let Some(place) = stack::place(stack.as_ref(), view) {
        shown += &format!(", started at {place}");
    }
    shown + &stack::below(stack.as_ref(), "where it was started was not recorded", view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Left, Outcome};
    use crate::report::testing;

    fn stack() -> Stack {
        testing::finding(FindingKind::DefinitelyLost, 1).stack
    }

    fn child(id: u32, is_zombie: bool) -> LeftChild<Vec<Frame>> {
        LeftChild { id, parent: 1, command: "sleep\x1b[0m 9".into(), is_zombie, stack: stack() }
    }

    fn thread(name: &str) -> LeftThread<Vec<Frame>> {
        LeftThread { id: 7, name: name.into(), stack: stack(), now: stack() }
    }

    fn test(verdict: Verdict, left: Left<Vec<Frame>>) -> CheckedTest {
        let mut test = testing::test("t", Outcome::Passed, verdict);
        test.memory.left = left;
        test
    }

    #[test]
    fn children_say_what_they_are_and_where_they_come_from() {
        let left = Left { children: vec![child(5, false), child(6, true)], ..Left::default() };
        let shown = render(&test(Verdict::Clean, left), &testing::view());
        let stack = "\n    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n";
        assert_eq!(
            shown,
            [
                format!("child 5  sleep\\u{{1b}}[0m 9  still running, started at src/lib.rs:12{stack}"),
                format!(
                    "child 6  sleep\\u{{1b}}[0m 9  ended, not waited for, started at src/lib.rs:12{stack}"
                ),
            ]
        );
    }

    #[test]
    fn children_of_programs_are_details_unless_there_is_a_limit() {
        let left = Left { children: vec![child(5, false)], ..Left::default() };
        let mut test = test(Verdict::Clean, left);
        test.test.window = Window::Process;
        assert_eq!(render(&test, &testing::view()), [""; 0]);
        assert_eq!(aside(&test), ["1 child left"]);
        test.test.budget.children = Some(1);
        assert_eq!(render(&test, &testing::view()).len(), 1);
        assert_eq!(aside(&test), ["1 child left, within the budget"]);
    }

    #[test]
    fn threads_are_named_and_those_alike_shown_once() {
        let left = || Left { threads: vec![thread("b"), thread("a"), thread("b")], ..Left::default() };
        let clean = test(Verdict::Clean, left());
        assert_eq!(aside(&clean), ["3 threads left running: a, b"]);
        assert_eq!(render(&clean, &testing::view()), [""; 0]);
        let over = test(Verdict::Leaks(vec!["3 threads left running (budget 0)".into()]), left());
        assert_eq!(aside(&over), [""; 0]);
        let shown = render(&over, &testing::view());
        assert!(shown[0].starts_with("2 threads b  still running, started at src/lib.rs:12\n"), "{shown:?}");
        let one = "thread a  still running at src/lib.rs:12, started at src/lib.rs:12\n";
        assert!(shown[1].starts_with(one), "{shown:?}");
    }

    #[test]
    fn many_are_cut_short() {
        let children = (0..30).map(|id| child(id, false)).collect();
        let shown = render(&test(Verdict::Clean, Left { children, ..Left::default() }), &testing::view());
        assert_eq!(shown.len(), MAX_SHOWN + 1);
        assert!(shown[MAX_SHOWN].starts_with("… and 10 more"));
    }
}
