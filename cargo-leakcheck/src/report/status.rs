//! What a test came to, in a word and a line.

use anstyle::{AnsiColor, Style};

use super::{View, accepted, descriptors, growth, heap, left, mapped, text};
use crate::judge;
use crate::model::{CheckedTest, Compared, FindingKind, Measure, Outcome, Verdict};

const GREEN: Style = AnsiColor::Green.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// What a test came to.
pub(super) struct Status {
    /// At most 12 columns.
    pub word: String,
    pub style: Style,
    /// The rest: what was lost and why that matters. May be empty.
    pub detail: String,
}

/// Sums up a test.
pub(super) fn status(test: &CheckedTest, view: &View) -> Status {
    let memory = &test.memory;
    let mut details: Vec<String> = Vec::new();
    let failed = match &test.outcome {
        Outcome::Passed => None,
        Outcome::Failed { .. } => Some("FAIL"),
        Outcome::Signalled { signal } => Some(text::signal_name(*signal)),
        Outcome::TimedOut => Some("TIMEOUT"),
        Outcome::NotStarted { .. } => Some("NOT STARTED"),
    };
    // A failing assertion speaks for itself in the output.
    if !matches!(test.outcome, Outcome::Failed { .. } | Outcome::TimedOut) {
        details.extend(text::outcome(&test.outcome));
    }
    let (word, style) = match (&memory.verdict, failed) {
        (Verdict::Leaks(reasons), None) if memory.counts => {
            details.push(reasons.join(", "));
            ("LEAK".to_owned(), RED)
        }
        (Verdict::Leaks(reasons), Some(failed)) if memory.counts => {
            details.push(reasons.join(", "));
            (format!("{failed}+LEAK"), RED)
        }
        (Verdict::Leaks(reasons), failed) => {
            details.push(format!("also leaked {}, not counted", reasons.join(", ")));
            failed.map_or(("PASS".to_owned(), GREEN), |failed| (failed.to_owned(), RED))
        }
        (Verdict::Incomplete(losses), failed) => {
            let reasons: Vec<_> = losses.iter().map(ToString::to_string).collect();
            let reasons = reasons.join(", ");
            details.push(if failed.is_some() { format!("incomplete: {reasons}") } else { reasons });
            failed.map_or(("INCOMPLETE".to_owned(), YELLOW), |failed| (failed.to_owned(), RED))
        }
        (Verdict::NotChecked(reason), failed) => {
            details.push(if failed.is_some() {
                format!("leaks not checked: {reason}")
            } else {
                reason.clone()
            });
            failed.map_or(("NOT CHECKED".to_owned(), YELLOW), |failed| (failed.to_owned(), RED))
        }
        (Verdict::Clean, failed) => {
            failed.map_or(("PASS".to_owned(), GREEN), |failed| (failed.to_owned(), RED))
        }
    };
    let details = details.join("; ");
    let detail =
        [details, aside(test, view)].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>();
    Status { word, style, detail: detail.join(" ") }
}

/// What is reported without being judged: `(10000 B still reachable)`.
fn aside(test: &CheckedTest, view: &View) -> String {
    let compared = test.memory.acceptance.baseline.filter(|compared| *compared != Compared::default());
    let counted = accepted::counted(test);
    let test = &*counted;
    let totals = &test.memory.totals;
    let some = |measure: Measure, kind| {
        (measure.blocks > 0).then(|| format!("{} B {}", measure.bytes, text::kind(kind)))
    };
    let is_lost = |kind| matches!(kind, FindingKind::DefinitelyLost | FindingKind::IndirectlyLost);
    let lost = |judged: bool| -> Measure {
        let lost = test.memory.findings.iter().filter(|finding| is_lost(finding.kind));
        let lost = lost.filter(|finding| judge::is_judged(finding, &test.test.judge) == judged);
        lost.map(|finding| finding.measure).sum()
    };
    let (own, by_others) = (lost(true), lost(false));
    let within = matches!(test.memory.verdict, Verdict::Clean) && own.blocks > 0;
    let number = |once: bool| -> u64 {
        let of = test.memory.left.descriptors.iter().filter(|descriptor| descriptor.once == once);
        of.map(|descriptor| descriptor.numbers.len() as u64).sum()
    };
    let (open, kept) = (number(false), number(true));
    // Otherwise they are a reason of the verdict, or nobody is to judge.
    let open = (matches!(test.memory.verdict, Verdict::Clean) && open > 0).then(|| {
        let within = if descriptors::are_judged(test) { ", within the budget" } else { "" };
        format!("{} left open{within}", text::count(open, "descriptor"))
    });
    let ipc = test.memory.left.ipc.len() as u64;
    let ipc_within = matches!(test.memory.verdict, Verdict::Clean) && ipc > 0;
    let parts: Vec<String> = [
        compared.map(accepted::compared),
        open,
        (kept > 0).then(|| format!("{} kept by one-time initializers", text::count(kept, "descriptor"))),
        ipc_within.then(|| format!("{} left, within the budget", text::count(ipc, "IPC object"))),
        heap::aside(test),
        within.then(|| format!("{} B lost, within the budget", own.bytes)),
        (by_others.blocks > 0).then(|| format!("{} B lost by dependencies, not judged", by_others.bytes)),
        some(totals.possibly_lost, FindingKind::PossiblyLost),
        some(totals.still_reachable, FindingKind::StillReachable),
        (totals.bad_frees > 0).then(|| text::count(totals.bad_frees, "bad free")),
    ]
    .into_iter()
    .flatten()
    .chain(heap::unknown(test))
    .chain(growth::aside(test))
    .chain(left::aside(test))
    .chain(mapped::aside(test, view))
    .collect();
    if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;
    use crate::snapshot::Loss;

    fn seen(test: &CheckedTest) -> (String, String) {
        let status = status(test, &testing::view());
        assert!(status.word.len() <= 12, "{}", status.word);
        (status.word, status.detail)
    }

    #[test]
    fn every_pair_of_outcome_and_verdict_says_both() {
        let leak = "4096 B definitely lost in 1 block (budget 0 B)";
        let leaks = || Verdict::Leaks(vec![leak.to_owned()]);
        let incomplete = || Verdict::Incomplete(vec![Loss::NoBody]);
        let code = || Outcome::Failed { code: 101 };
        let segv = "ended by signal 11 (SIGSEGV)";
        let cases = [
            (Outcome::Passed, Verdict::Clean, true, "PASS", String::new()),
            (Outcome::Passed, leaks(), true, "LEAK", leak.to_owned()),
            (Outcome::Passed, leaks(), false, "PASS", format!("also leaked {leak}, not counted")),
            (Outcome::Passed, incomplete(), true, "INCOMPLETE", "no test body was entered".to_owned()),
            (Outcome::Passed, Verdict::NotChecked("cache".into()), true, "NOT CHECKED", "cache".to_owned()),
            (code(), Verdict::Clean, false, "FAIL", String::new()),
            (code(), leaks(), false, "FAIL", format!("also leaked {leak}, not counted")),
            (code(), leaks(), true, "FAIL+LEAK", leak.to_owned()),
            (code(), incomplete(), true, "FAIL", "incomplete: no test body was entered".to_owned()),
            (Outcome::Signalled { signal: 11 }, leaks(), true, "SIGSEGV+LEAK", format!("{segv}; {leak}")),
            (
                Outcome::Signalled { signal: 40 },
                Verdict::Clean,
                true,
                "SIGNAL",
                "ended by signal 40 (SIGNAL)".into(),
            ),
            (Outcome::TimedOut, leaks(), true, "TIMEOUT+LEAK", leak.to_owned()),
        ];
        for (outcome, verdict, counts, word, detail) in cases {
            let mut test = testing::test("t", outcome, verdict);
            test.memory.counts = counts;
            assert_eq!(seen(&test), (word.to_owned(), detail));
        }
    }

    #[test]
    fn what_is_not_judged_is_mentioned() {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.totals.still_reachable = Measure { bytes: 10_000, blocks: 2 };
        test.memory.totals.bad_frees = 1;
        assert_eq!(seen(&test), ("PASS".to_owned(), "(10000 B still reachable, 1 bad free)".to_owned()));
        test.memory.verdict = Verdict::Leaks(vec!["4 B".to_owned()]);
        assert_eq!(seen(&test).1, "4 B (10000 B still reachable, 1 bad free)");
    }
}
