//! What a test's body adds each time it is run, as text: how it grows, by a small picture, and where.

use super::{View, stack, text};
use crate::judge::growth::{self, pattern};
use crate::model::{CheckedTest, Frame, Grown, Growth, Outcome, Verdict};

/// Call stacks of one test that are shown to people, unless all are asked for.
const MAX_SHOWN: usize = 20;
/// Columns of a picture at most.
const COLUMNS: usize = 40;
const BARS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// A bar for each iteration, from the least that was alive to the most. Of many iterations each bar is the last of some.
pub fn sparkline(bytes: &[u64]) -> String {
    let (Some(low), Some(high)) = (bytes.iter().min(), bytes.iter().max()) else { return String::new() };
    let columns = bytes.len().min(COLUMNS);
    let shown = (1..=columns).map(|column| bytes[column * bytes.len() / columns - 1]);
    let (range, last) = (u128::from(high - low).max(1), BARS.len() as u128 - 1);
    shown.map(|bytes| BARS[(u128::from(bytes - low) * last / range) as usize]).collect()
}

/// The growth of a test; empty where it is as it should be.
pub(super) fn render(test: &CheckedTest, view: &View) -> Vec<String> {
    let Some(growth) = &test.memory.left.growth else { return Vec::new() };
    let all = view.full_stacks || view.explain;
    let grows = growth::text(growth).filter(|_| growth.is_whole());
    let leaks = matches!(test.memory.verdict, Verdict::Leaks(_));
    if growth.alive.is_empty() || !(all || leaks && grows.is_some()) {
        return Vec::new();
    }
    let bytes = growth.bytes();
    let mut shown = format!("growth: {}  {} B alive", sparkline(&bytes), bytes.last().unwrap_or(&0));
    shown += &format!(" after {}", iterations(growth.alive.len() as u64));
    if growth.warmup > 0 {
        shown += &format!(", {} of them to warm up", growth.warmup);
    }
    shown += &grows.map_or_else(|| "; it does not grow".to_owned(), |how| format!("; it grows {how}"));
    if let Some(how) = descriptors(growth) {
        shown += &format!("; descriptors grow {how}");
    }
    let mut parts = vec![shown + "\n"];
    let number = if all { growth.grown.len() } else { growth.grown.len().min(MAX_SHOWN) };
    parts.extend(growth.grown[..number].iter().map(|grown| one(grown, growth.warmup, view)));
    if number < growth.grown.len() {
        let more = text::count((growth.grown.len() - number) as u64, "smaller place");
        parts.push(format!("… and {more}; --full-stacks shows them, --json lists them\n"));
    }
    parts
}

/// What is said of it in a test's line without being judged.
pub(super) fn aside(test: &CheckedTest) -> Option<String> {
    let growth = test.memory.left.growth.as_ref()?;
    if let (Some(ended), Outcome::Passed) = (&growth.ended, &test.outcome) {
        // Otherwise the verdict says it.
        let says = matches!(test.memory.verdict, Verdict::Incomplete(_));
        return (!says).then(|| format!("growth not judged: {ended}"));
    }
    // Those that are left at the end are judged, and named where they were opened.
    if let Some(how) = descriptors(growth) {
        return Some(format!("descriptors grow {how}"));
    }
    let judged = growth.iterations.saturating_sub(growth.warmup);
    let is_clean = growth.is_whole() && test.memory.verdict == Verdict::Clean;
    is_clean.then(|| match growth::text(growth) {
        None => format!("no growth in {}", iterations(judged)),
        Some(how) => format!("grows {how}, within the budget"),
    })
}

fn iterations(number: u64) -> String {
    text::count(number, "iteration")
}

/// How the number of descriptors grows.
fn descriptors<S>(growth: &Growth<S>) -> Option<String> {
    match pattern(&growth.descriptors, growth.warmup) {
        growth::Pattern::Not => None,
        growth::Pattern::Every(number) => Some(format!("by {number} per iteration")),
        _ => Some("now and then".to_owned()),
    }
}

/// `grows by 24 B per iteration at src/lib.rs:12  ▁▂▃▅▇`, and the call stack.
fn one(grown: &Grown<Vec<Frame>>, warmup: u64, view: &View) -> String {
    let mut shown = format!("grows {}", pattern(&grown.bytes, warmup));
    if let Some(place) = stack::place(grown.stack.as_ref(), view) {
        shown += &format!("  at {place}");
    }
    shown += &format!("  {}", sparkline(&grown.bytes));
    shown + &stack::below(grown.stack.as_ref(), "the call stack was not recorded", view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn test(verdict: Verdict, bytes: &[u64]) -> CheckedTest {
        let mut test = testing::test("t", Outcome::Passed, verdict);
        test.memory.left.growth = Some(testing::growth(bytes));
        test
    }

    #[test]
    fn a_picture_goes_from_the_least_to_the_most() {
        assert_eq!(sparkline(&[0, 1, 2, 3, 4, 5, 6]), "▁▂▃▄▅▆▇");
        assert_eq!(sparkline(&[24, 48, 72, 96]), "▁▃▅▇");
        assert_eq!(sparkline(&[5, 5, 5]), "▁▁▁");
        assert_eq!(sparkline(&[0, u64::MAX]), "▁▇");
        assert_eq!(sparkline(&[]), "");
        // Each bar is the last of 25 iterations.
        let many: Vec<u64> = (1..=1000).collect();
        assert_eq!(sparkline(&many).chars().count(), 40);
        assert!(sparkline(&many).ends_with('▇'));
    }

    #[test]
    fn a_test_that_grows_says_how_and_where() {
        let leaks = Verdict::Leaks(vec!["grows by 24 B per iteration (budget 0 B)".into()]);
        let shown = render(&test(leaks, &[24, 48, 72, 96]), &testing::view());
        let first = "growth: ▁▃▅▇  96 B alive after 4 iterations, 1 of them to warm up; it grows by 24 B per iteration\n";
        let second = "grows by 24 B per iteration  at src/lib.rs:12  ▁▃▅▇\n    … 1 frame of std\n    at a::tests::leaks (src/lib.rs:12:9)\n";
        assert_eq!(shown, [first, second]);
    }

    #[test]
    fn of_others_their_line_says_enough() {
        let clean = test(Verdict::Clean, &[24, 24, 24]);
        assert_eq!(render(&clean, &testing::view()), [""; 0]);
        assert_eq!(aside(&clean).as_deref(), Some("no growth in 2 iterations"));
        let within = test(Verdict::Clean, &[0, 8, 16]);
        assert_eq!(aside(&within).as_deref(), Some("grows by 8 B per iteration, within the budget"));
        let mut ended = test(Verdict::Clean, &[0]);
        ended.memory.left.growth.as_mut().unwrap().ended = Some("why".into());
        assert_eq!(aside(&ended).as_deref(), Some("growth not judged: why"));
        ended.memory.verdict = Verdict::Incomplete(Vec::new());
        assert_eq!(aside(&ended), None);
    }
}
