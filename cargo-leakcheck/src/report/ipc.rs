//! IPC objects that were left behind, as text: what each is, and where it was made.

use super::{View, stack, text};
use crate::model::{CheckedTest, Frame, IpcObject};

/// Groups of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;

/// The objects of a test, those that were made in the same way together; empty when there are none.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let mut groups: Vec<Vec<&IpcObject<Vec<Frame>>>> = Vec::new();
    for object in &test.memory.left.ipc {
        let alike = |group: &&mut Vec<&IpcObject<Vec<Frame>>>| {
            group[0].kind == object.kind && object.stack.is_some() && group[0].stack == object.stack
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(object),
            None => groups.push(vec![object]),
        }
    }
    let shown = if view.full_stacks { groups.len() } else { groups.len().min(MAX_SHOWN) };
    let mut parts: Vec<String> = groups[..shown].iter().map(|group| one(group, view)).collect();
    let rest = groups[shown..].iter().map(Vec::len).sum::<usize>();
    if rest > 0 {
        let more = text::count(rest as u64, "more IPC object");
        parts.push(format!("… and {more}; --full-stacks shows them, --json lists them\n"));
    }
    parts
}

/// `shared memory  id 3 (key 0x1234)  4096 B  made by shmget at src/lib.rs:12`, and the call stack.
fn one(group: &[&IpcObject<Vec<Frame>>], view: &View) -> String {
    let IpcObject { kind, name, bytes, call, stack } = group[0];
    let mut shown = format!("{kind}  {}", text::line(&name.to_string()));
    if let Some(bytes) = bytes {
        shown += &format!("  {bytes} B");
    }
    if let Some(call) = call {
        shown += &format!("  made by {call}");
        if let Some(place) = stack::place(stack.as_ref(), view) {
            shown += &format!(" at {place}");
        }
    }
    if let [_, others @ ..] = group
        && !others.is_empty()
    {
        let names: Vec<String> = others
            .iter()
            .take(MAX_SHOWN)
            .map(|object| text::line(&object.name.to_string()).to_string())
            .collect();
        let more = if others.len() > names.len() { ", …" } else { "" };
        shown += &format!("\n   and {} more like it: {}{more}", others.len(), names.join(", "));
    }
    let unknown = match call {
        Some(_) => "the call stack was not recorded",
        None => {
            "no line is known: made by a system call itself, by another process, or in a run without eBPF"
        }
    };
    shown + &stack::below(stack.as_ref(), unknown, view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, IpcName, Outcome, Verdict};
    use crate::report::testing;

    fn object(id: i32, key: u32) -> IpcObject<Vec<Frame>> {
        let stack = testing::finding(FindingKind::DefinitelyLost, 1).stack;
        let name = IpcName::Id { id, key };
        IpcObject {
            kind: "shared memory".into(),
            name,
            bytes: Some(4096),
            call: Some("shmget".into()),
            stack,
        }
    }

    fn rendered(objects: Vec<IpcObject<Vec<Frame>>>) -> String {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.left.ipc = objects;
        render(&test, &testing::view()).concat()
    }

    #[test]
    fn a_line_says_what_it_is_and_where_it_was_made() {
        let stack = "    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n";
        let line = "shared memory  id 3 (key 0x1234)  4096 B  made by shmget at src/lib.rs:12";
        assert_eq!(rendered(vec![object(3, 0x1234)]), format!("{line}\n{stack}"));
        let unknown = IpcObject {
            kind: "POSIX queue".into(),
            name: IpcName::Name("/a\nb".into()),
            bytes: None,
            call: None,
            stack: None,
        };
        let line = "POSIX queue  \"/a\\nb\"\n    no line is known: made by a system call itself, by another process, or in a run without eBPF\n";
        assert_eq!(rendered(vec![unknown]), line);
    }

    #[test]
    fn what_was_made_in_the_same_way_is_shown_once() {
        let text = rendered(vec![object(3, 0), object(4, 7), object(5, 0)]);
        assert_eq!(text.lines().nth(1), Some("   and 2 more like it: id 4 (key 0x7), id 5"));
        assert_eq!(text.matches("made by").count(), 1);
    }
}
