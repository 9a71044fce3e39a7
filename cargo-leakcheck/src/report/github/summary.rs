//! The step's summary, in GitHub's Markdown. Text of strangers is in HTML, where nothing of it has a meaning.

use std::cmp::Reverse;

use crate::model::{CheckedTest, NotChecked, Outcome, Verdict};
use crate::report::excerpt::Sources;
use crate::report::status::{Status, status};
use crate::report::{Format, Run, View, findings, text};

/// GitHub passes over summaries of more than 1 MiB without a word.
const MOST: u64 = 900_000;
/// What is left free for the last lines.
const LAST: usize = 1000;

/// The Markdown document.
pub struct StepSummary {
    room: usize,
}

impl StepSummary {
    /// One that follows so many bytes of others.
    pub fn after(bytes: u64) -> Self {
        Self { room: usize::try_from(MOST.saturating_sub(bytes)).unwrap_or(0).saturating_sub(LAST) }
    }
}

impl Format for StepSummary {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let mut parts = vec![head(run)];
        parts.extend(run.steered.note().map(|note| format!("{}\n\n", escaped(&note))));
        let mut tests: Vec<_> = run.tests.iter().filter(|test| is_shown(test)).collect();
        let lost =
            |test: &CheckedTest| test.memory.totals.definitely_lost + test.memory.totals.indirectly_lost;
        tests.sort_by_key(|test| Reverse((test.memory.counts, lost(test).bytes, lost(test).blocks)));
        let sources = Sources::default();
        parts.extend(tests.iter().map(|test| detail(test, view, &sources)));
        parts.extend(run.not_checked.iter().map(|NotChecked { what, reason }| {
            format!("- not checked: <code>{}</code>: {}\n", escaped(what), escaped(reason))
        }));
        let mut document = String::new();
        for (place, part) in parts.iter().enumerate() {
            if document.len() + part.len() > self.room {
                let more = text::count((parts.len() - place) as u64, "more result");
                document += &format!("\n… and {more}: see the JSON or JUnit report.\n");
                break;
            }
            document += part;
        }
        (document + "\n").into_bytes()
    }
}

fn head(run: &Run) -> String {
    let summary = run.summary();
    format!(
        "## cargo leakcheck: {}\n\n\
         | Clean | Leaking | Leaking, not counted | Failed | Incomplete | Not checked | Time | Exit code |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|\n\
         | {} | {} | {} | {} | {} | {} | {:.1} s | {} |\n\n",
        run.headline(),
        summary.clean,
        summary.leaking,
        summary.leaking_not_counted,
        summary.failed,
        summary.incomplete,
        summary.not_checked,
        run.duration.as_secs_f64(),
        run.exit as u8,
    )
}

fn is_shown(test: &CheckedTest) -> bool {
    test.outcome != Outcome::Passed
        || matches!(test.memory.verdict, Verdict::Leaks(_) | Verdict::Incomplete(_))
}

/// A test's line, which opens to its findings.
fn detail(test: &CheckedTest, view: &View, sources: &Sources) -> String {
    let Status { word, detail, .. } = status(test, view);
    let name = test.test.id();
    let line = format!("{} <code>{}</code> {}", escaped(&word), escaped(&name), escaped(&detail));
    match findings::render(test, view, sources, false) {
        none if none.is_empty() => format!("- {line}\n\n"),
        findings => format!(
            "<details><summary>{line}</summary>\n\n<pre>{}</pre>\n\n</details>\n\n",
            escaped(findings.trim_end())
        ),
    }
}

/// Text in HTML. Line feeds stay: in `<pre>` they are none of Markdown's.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '`' | '*' | '_' | '[' | ']' | '|' | '\\' | '#' | '@' | '~' | ':' => {
                escaped += &format!("&#{};", u32::from(letter));
            }
            letter if letter.is_control() && letter != '\n' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;
    use crate::model::Steered;
    use crate::report::testing;

    fn written(tests: Vec<CheckedTest>, before: u64) -> String {
        let bytes = StepSummary::after(before).bytes(&testing::run(tests), &testing::view());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn counts_and_findings() {
        let text = written(vec![testing::leaking("tests::leaks")], 0);
        assert!(text.starts_with("## cargo leakcheck: 1 of 1 test leaking\n\n| Clean |"), "{text}");
        assert!(text.contains("\n| 0 | 1 | 0 | 0 | 0 | 1 | 1.2 s | 3 |\n"), "{text}");
        let line = "LEAK <code>a tests&#58;&#58;leaks</code> 4096 B definitely lost in 1 block (budget 0 B)";
        assert!(text.contains(&format!("<details><summary>{line}</summary>\n\n<pre>")), "{text}");
        assert!(text.contains("src/lib.rs&#58;12"), "{text}");
        assert!(text.contains("- not checked: <code>a&#58; doc tests</code>"), "{text}");
    }

    #[test]
    fn tests_that_are_clean_are_counted_only() {
        let text = written(vec![testing::test("tests::fine", Outcome::Passed, Verdict::Clean)], 0);
        assert!(text.starts_with("## cargo leakcheck: no leak in 1 test\n"), "{text}");
        assert!(!text.contains("fine"), "{text}");
    }

    #[test]
    fn what_is_off_is_said() {
        let mut run = testing::run(vec![]);
        run.steered = Steered { without_ebpf: Some("no <b>".into()), ..Steered::default() };
        let text = String::from_utf8(StepSummary::after(0).bytes(&run, &testing::view())).unwrap();
        assert!(text.contains("eBPF is not available (no &lt;b&gt;)"), "{text}");
    }

    #[test]
    fn a_run_without_tests_is_not_called_free_of_leaks() {
        let mut run = testing::run(vec![]);
        run.exit = Exit::Build;
        let text = String::from_utf8(StepSummary::after(0).bytes(&run, &testing::view())).unwrap();
        assert!(text.starts_with("## cargo leakcheck: no test was checked\n"), "{text}");
    }

    #[test]
    fn names_are_no_markup() {
        let text = written(vec![testing::leaking("</code><script>`|[x](y)")], 0);
        assert!(
            text.contains("<code>a &lt;/code&gt;&lt;script&gt;&#96;&#124;&#91;x&#93;(y)</code>"),
            "{text}"
        );
    }

    #[test]
    fn the_largest_come_first_and_the_document_is_cut() {
        let tests = |number: u64| {
            let mut test = testing::leaking(&format!("t{number}"));
            test.memory.totals.definitely_lost.bytes = number;
            test
        };
        let text = written((1..=5000).map(tests).collect(), 0);
        assert!((800_000..900_000).contains(&text.len()), "{}", text.len());
        let place = |name: &str| text.find(&format!("<code>a {name}</code>"));
        assert!(place("t5000").unwrap() < place("t4999").unwrap());
        assert_eq!(place("t1"), None);
        assert!(text.trim_end().ends_with("more results: see the JSON or JUnit report."));
        // What other commands of the step have written takes room too.
        assert!(written((1..=5000).map(tests).collect(), 700_000).len() < 200_000);
        assert!(written((1..=5000).map(tests).collect(), 2_000_000).len() < 1000);
    }
}
