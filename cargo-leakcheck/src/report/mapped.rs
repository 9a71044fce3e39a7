//! Memory that was left mapped, as text: what it is, and where it was mapped.

use super::{View, stack, text};
use crate::model::{CheckedTest, Frame, LeftMapping, Verdict};

/// Groups of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;
/// Lines of code that a test's line has.
const MAX_PLACES: usize = 3;

/// The mappings of a test; empty when there is nothing to show.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let over = matches!(test.memory.verdict, Verdict::Leaks(_));
    let all = view.full_stacks;
    // Of a test that is clean its line says how many.
    if !(over || all || test.test.budget.mapped_bytes.is_some()) {
        return Vec::new();
    }
    let mappings: Vec<_> = test.memory.left.mappings.iter().filter(|mapping| all || !mapping.once).collect();
    let shown = if all { mappings.len() } else { mappings.len().min(MAX_SHOWN) };
    let mut parts: Vec<String> = mappings[..shown].iter().map(|mapping| one(mapping, view)).collect();
    let rest: u64 = mappings[shown..].iter().map(|mapping| mapping.count).sum();
    if rest > 0 {
        let more = text::count(rest, "smaller mapping");
        parts.push(format!("… and {more}; --full-stacks shows them, --json lists them\n"));
    }
    parts
}

/// What is reported of them in a test's line without being judged: `8192 B left mapped at src/lib.rs:12`.
pub(super) fn aside(test: &CheckedTest, view: &View) -> Option<String> {
    let mappings = &test.memory.left.mappings;
    if mappings.is_empty() || !matches!(test.memory.verdict, Verdict::Clean) {
        return None;
    }
    let bytes: u64 = mappings.iter().map(|mapping| mapping.bytes).sum();
    let mut places: Vec<String> = Vec::new();
    for place in mappings.iter().filter_map(|mapping| stack::place(mapping.stack.as_ref(), view)) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let more = if places.len() > MAX_PLACES { ", …" } else { "" };
    places.truncate(MAX_PLACES);
    let at = if places.is_empty() { String::new() } else { format!(" at {}{more}", places.join(", ")) };
    Some(format!("{bytes} B left mapped{at}"))
}

/// `8192 B mapped  anonymous  by mmap at src/lib.rs:12`, and the call stack.
fn one(mapping: &LeftMapping<Vec<Frame>>, view: &View) -> String {
    let LeftMapping { kind, description, call, count, bytes, address: _, once: _, stack } = mapping;
    let mut shown = format!("{bytes} B mapped");
    if *count > 1 {
        shown += &format!(" in {}", text::count(*count, "mapping"));
    }
    shown += &format!("  {kind}");
    if !description.is_empty() {
        shown += &format!(" {:?}", text::line(description));
    }
    shown += &format!("  by {call}");
    if let Some(place) = stack::place(stack.as_ref(), view) {
        shown += &format!(" at {place}");
    }
    shown + &stack::below(stack.as_ref(), "the call stack was not recorded", view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Outcome};
    use crate::report::testing;

    fn mapping(bytes: u64, count: u64, description: &str) -> LeftMapping<Vec<Frame>> {
        LeftMapping {
            kind: if description.is_empty() { "anonymous" } else { "file" }.into(),
            description: description.into(),
            call: "mmap".into(),
            count,
            bytes,
            address: 0x1000,
            once: false,
            stack: testing::finding(FindingKind::DefinitelyLost, 1).stack,
        }
    }

    fn test(verdict: Verdict, mappings: Vec<LeftMapping<Vec<Frame>>>) -> CheckedTest {
        let mut test = testing::test("t", Outcome::Passed, verdict);
        test.memory.left.mappings = mappings;
        test
    }

    #[test]
    fn of_a_clean_test_its_line_says_how_much_and_where() {
        let mut clean = test(Verdict::Clean, vec![mapping(8192, 1, ""), mapping(4096, 1, "/a")]);
        let view = testing::view();
        assert_eq!(render(&clean, &view), [""; 0]);
        assert_eq!(aside(&clean, &view).as_deref(), Some("12288 B left mapped at src/lib.rs:12"));
        clean.test.budget.mapped_bytes = Some(1 << 20);
        assert_eq!(render(&clean, &view).len(), 2);
        assert_eq!(aside(&test(Verdict::Clean, Vec::new()), &view), None);
    }

    #[test]
    fn a_line_says_what_it_is_and_where_it_was_mapped() {
        let over = || Verdict::Leaks(vec!["12288 B left mapped (budget 0 B)".into()]);
        let stack = "    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n";
        let shown =
            render(&test(over(), vec![mapping(8192, 2, ""), mapping(4096, 1, "/a\nb")]), &testing::view());
        assert_eq!(
            shown[0],
            format!("8192 B mapped in 2 mappings  anonymous  by mmap at src/lib.rs:12\n{stack}")
        );
        assert!(shown[1].starts_with("4096 B mapped  file \"/a"), "{}", shown[1]);
        assert_eq!(shown[1].lines().count(), 3, "{}", shown[1]);
        assert_eq!(aside(&test(over(), vec![mapping(8192, 2, "")]), &testing::view()), None);
    }

    #[test]
    fn those_of_initializers_are_details_and_many_are_cut_short() {
        let once = LeftMapping { once: true, ..mapping(1, 1, "") };
        let mut mappings = vec![mapping(4096, 2, ""); 30];
        mappings.push(once);
        let over = || Verdict::Leaks(vec!["x".into()]);
        let shown = render(&test(over(), mappings.clone()), &testing::view());
        assert_eq!(shown.len(), 21);
        assert!(shown[20].starts_with("… and 20 smaller mappings;"), "{}", shown[20]);
        let full = View { full_stacks: true, ..testing::view() };
        assert_eq!(render(&test(over(), mappings), &full).len(), 31);
    }
}
