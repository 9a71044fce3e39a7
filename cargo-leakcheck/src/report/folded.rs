//! Leaked bytes, and those that were alive at peaks, by call stack: as text in the form that flame graph tools share, and as inferno's picture of it.

use std::collections::BTreeMap;

use inferno::flamegraph::{self, Options, Palette, color::MultiPalette};

use super::leaked::{self, Leaked, NO_STACK, started};
use super::{Format, Run, View, text};
use crate::model::{AtPeak, CheckedTest, Frame};

/// Which bytes.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {
    /// What was leaked.
    Leaked,
    /// What was alive at the peaks of tests, where that was asked for and is known.
    AtPeak,
}

/// Folded stacks: a line a call stack, outermost frame first, with a test in front and the bytes behind.
pub struct Folded(pub Bytes);

impl Format for Folded {
    fn bytes(&self, run: &Run, _: &View) -> Vec<u8> {
        lines(run, self.0).into_iter().flat_map(|line| (line + "\n").into_bytes()).collect()
    }
}

/// A flame graph, as an SVG document.
pub struct FlameGraph(pub Bytes);

impl Format for FlameGraph {
    fn bytes(&self, run: &Run, _: &View) -> Vec<u8> {
        let lines: Vec<String> =
            lines(run, self.0).iter().map(|line| line.chars().map(text::legal).collect()).collect();
        let (title, nothing) = match self.0 {
            Bytes::Leaked => ("Leaked bytes", "No bytes were leaked"),
            Bytes::AtPeak => ("Bytes alive at the peak of each test", "Nothing is known of peaks"),
        };
        let mut options = Options::default();
        options.title = title.to_owned();
        options.subtitle = Some(self.0.subtitle(run));
        options.count_name = "bytes".to_owned();
        options.colors = Palette::Multi(MultiPalette::Rust);
        // The same run has the same picture.
        options.deterministic = true;
        if lines.is_empty() {
            return NOTHING.replace("{}", nothing).into_bytes();
        }
        let mut bytes = Vec::new();
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut bytes)
            .expect("lines of ours have a weight, and writing to memory cannot fail");
        bytes
    }
}

/// What call stacks are that are too many to be named.
const OTHERS: &str = "[other call stacks]";

/// inferno takes a picture of nothing for an error.
const NOTHING: &str = "\
<?xml version=\"1.0\" standalone=\"no\"?>
<svg version=\"1.1\" width=\"480\" height=\"60\" xmlns=\"http://www.w3.org/2000/svg\">
<text x=\"240\" y=\"34\" text-anchor=\"middle\" font-family=\"monospace\" font-size=\"14\">{}</text>
</svg>
";

impl Bytes {
    fn subtitle(self, run: &Run) -> String {
        match self {
            Self::Leaked => format!("{}, by tests and call stacks", text::measure(leaked::total(run))),
            // Tests have their peaks each for itself: a sum says nothing.
            Self::AtPeak => "by tests and call stacks".to_owned(),
        }
    }
}

fn lines(run: &Run, which: Bytes) -> Vec<String> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |stack: String, added: u64| {
        // A picture has no room for nothing. (A block may have no bytes.)
        if added > 0 {
            let bytes = stacks.entry(stack).or_default();
            *bytes = bytes.saturating_add(added);
        }
    };
    match which {
        Bytes::Leaked => leaked::leaked(run).for_each(|Leaked { test, finding, frames }| {
            add(stack(&test.test.id(), frames, NO_STACK), finding.measure.bytes);
        }),
        Bytes::AtPeak => {
            for (test, at_peak) in at_peaks(run) {
                for it in &at_peak.stacks {
                    let frames = it.stack.as_deref().map(started);
                    add(stack(&test.test.id(), frames, NO_STACK), it.measure.bytes);
                }
                add(stack(&test.test.id(), None, OTHERS), at_peak.rest.bytes);
            }
        }
    }
    stacks.into_iter().map(|(stack, bytes)| format!("{stack} {bytes}")).collect()
}

fn at_peaks(run: &Run) -> impl Iterator<Item = (&CheckedTest, &AtPeak<Vec<Frame>>)> {
    run.tests.iter().filter_map(|test| Some((test, test.memory.left.at_peak.as_ref()?)))
}

fn stack(test: &str, frames: Option<&[Frame]>, otherwise: &str) -> String {
    let frames = frames.map(|frames| frames.iter().rev().map(leaked::name));
    let mut stack = part(&text::line(test));
    match frames {
        Some(frames) => frames.for_each(|name| stack = format!("{stack};{}", part(&name))),
        None => stack = format!("{stack};{otherwise}"),
    }
    stack
}

/// A name in a line whose separators are `;` and the last blank: `[u8; 4]` has the one, and `x 12` would be taken for
/// a name with a weight.
fn part(name: &str) -> String {
    let name = name.replace(';', ":");
    match name.rsplit_once(' ') {
        Some((before, last)) if last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            format!("{before}_{last}")
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;
    use crate::model::{Allocated, FindingKind, Measure, Outcome, Verdict};
    use crate::report::testing;

    fn run(tests: Vec<CheckedTest>) -> (String, String) {
        let (run, view) = (testing::run(tests), testing::view());
        let text = |format: &dyn Format| String::from_utf8(format.bytes(&run, &view)).unwrap();
        (text(&Folded(Bytes::Leaked)), text(&FlameGraph(Bytes::Leaked)))
    }

    fn with(name: &str, stacks: &[(FindingKind, u64, Option<Vec<Frame>>)]) -> CheckedTest {
        let mut test = testing::test(name, Outcome::Passed, Verdict::Clean);
        for (kind, bytes, stack) in stacks {
            let mut finding = testing::finding(*kind, *bytes);
            finding.stack = stack.clone();
            test.memory.findings.push(finding);
        }
        test
    }

    fn frame(function: &str, own: bool) -> Frame {
        Frame { function: Some(function.into()), own, ..Frame::default() }
    }

    #[test]
    fn what_is_lost_is_summed_by_stacks_from_the_outside_in() {
        use FindingKind::{DefinitelyLost, IndirectlyLost, PossiblyLost, StillReachable};
        let stack = || Some(vec![frame("malloc", false), frame("a::make", true), frame("test::run", false)]);
        let foreign = Some(vec![frame("malloc", false), frame("start", false)]);
        let test = with(
            "t",
            &[
                (DefinitelyLost, 1, stack()),
                (IndirectlyLost, 20, stack()),
                (PossiblyLost, 300, stack()),
                (StillReachable, 4000, stack()),
                (FindingKind::DoubleFree, 0, stack()),
                (DefinitelyLost, 7, foreign),
                (DefinitelyLost, 0, None),
                (DefinitelyLost, 5, None),
            ],
        );
        let expected = "a t;[call stack not recorded] 5\na t;a::make;malloc 321\na t;start;malloc 7\n";
        assert_eq!(run(vec![test]).0, expected);
    }

    #[test]
    fn names_cannot_be_taken_for_separators() {
        let unknown = Frame { module: Some("/lib/x;y.so".into()), address: 0x10, ..Frame::default() };
        let stack = vec![frame("<[u8; 4]>::to 12", true), frame("a\nb <c>&", true), unknown];
        let name = "x; 3";
        let mut test = with(name, &[(FindingKind::DefinitelyLost, 9, Some(stack))]);
        test.memory.findings[0].stack.as_mut().unwrap()[2].own = true;
        let (folded, svg) = run(vec![test]);
        assert_eq!(folded, "a x:_3;x:y.so+0x10;a\\nb <c>&;<[u8: 4]>::to_12 9\n");
        let titles = titles(&svg);
        assert!(titles.iter().any(|title| title.starts_with("a\\nb <c>& (9 bytes")), "{titles:?}");
    }

    /// The titles of a picture that is well-formed.
    fn titles(svg: &str) -> Vec<String> {
        let mut reader = quick_xml::Reader::from_str(svg);
        let (mut titles, mut inside) = (Vec::new(), false);
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(tag) if tag.name().as_ref() == b"title" => {
                    inside = true;
                    titles.push(String::new());
                }
                Event::End(_) => inside = false,
                Event::Text(text) if inside => titles.last_mut().unwrap().push_str(&text.decode().unwrap()),
                Event::GeneralRef(reference) if inside => {
                    let name = reference.decode().unwrap();
                    let text = quick_xml::escape::resolve_predefined_entity(&name).unwrap();
                    titles.last_mut().unwrap().push_str(text);
                }
                Event::Eof => return titles,
                _ => {}
            }
        }
    }

    #[test]
    fn the_picture_has_the_sum_and_every_frame() {
        let svg = run(vec![testing::leaking("one"), testing::leaking("two")]).1;
        let titles = titles(&svg);
        assert!(titles.contains(&"all (8,192 bytes, 100%)".to_owned()), "{titles:?}");
        let own = titles.iter().filter(|title| title.starts_with("a::tests::leaks (4,096 bytes"));
        assert_eq!(own.count(), 2, "{titles:?}");
        assert!(svg.contains("8192 B in 2 blocks, by tests and call stacks"));
        assert_eq!(svg, run(vec![testing::leaking("one"), testing::leaking("two")]).1);
    }

    #[test]
    fn where_nothing_is_lost_the_picture_says_so() {
        let (folded, svg) = run(vec![testing::test("t", Outcome::Passed, Verdict::Clean)]);
        assert_eq!(folded, "");
        assert!(svg.contains("No bytes were leaked"));
        assert!(titles(&svg).is_empty());
    }

    #[test]
    fn what_was_alive_at_peaks_is_summed_in_the_same_way() {
        let stack = || Some(vec![frame("malloc", false), frame("a::make", true), frame("test::run", false)]);
        let allocated = |bytes, stack| Allocated { measure: Measure { bytes, blocks: 1 }, stack };
        let mut one = testing::leaking("one");
        one.memory.left.at_peak = Some(AtPeak {
            stacks: vec![allocated(500, stack()), allocated(30, stack()), allocated(9, None)],
            rest: Measure { bytes: 7, blocks: 2 },
            unknown: None,
        });
        let mut two = testing::leaking("two");
        two.memory.left.at_peak = Some(AtPeak::unknown("why".into()));
        let (run, view) = (testing::run(vec![one, two]), testing::view());
        let text = |format: &dyn Format| String::from_utf8(format.bytes(&run, &view)).unwrap();
        let expected =
            "a one;[call stack not recorded] 9\na one;[other call stacks] 7\na one;a::make;malloc 530\n";
        assert_eq!(text(&Folded(Bytes::AtPeak)), expected);
        let titles = titles(&text(&FlameGraph(Bytes::AtPeak)));
        assert!(titles.contains(&"all (546 bytes, 100%)".to_owned()), "{titles:?}");
        let (run, view) = (testing::run(vec![testing::leaking("t")]), testing::view());
        let svg = String::from_utf8(FlameGraph(Bytes::AtPeak).bytes(&run, &view)).unwrap();
        assert!(svg.contains(">Nothing is known of peaks<"), "{svg}");
    }
}
