//! The report for people, in cargo's style. Text with colours; who prints it removes them where they
//! are not wanted. The same lines appear on a terminal and in a file, so that a log shows what a
//! person would have seen.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use camino::Utf8Path;

use super::excerpt::Sources;
use super::status::{Status, status};
use super::{Run, View, accepted, files_left, findings, heap, owners, targets, text};
use crate::model::{CheckedTest, NotChecked, Outcome, OwnCode, Stdio, Verdict};

const GREEN: Style = AnsiColor::Green.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// Makes the lines of the report; each text ends with a line feed, or is empty.
pub struct Terminal {
    view: View,
    sources: Sources,
}

impl Terminal {
    /// Makes lines as `view` wants them.
    pub fn new(view: View) -> Self {
        Self { view, sources: Sources::default() }
    }

    /// Before the first test: `    Checking 12 tests in 3 binaries`.
    pub fn checking(&self, tests: usize, binaries: usize) -> String {
        let binaries = match binaries {
            1 => "1 binary".to_owned(),
            number => format!("{number} binaries"),
        };
        format!("{} {} in {binaries}\n", word("Checking", GREEN), text::count(tests as u64, "test"))
    }

    /// When a test has ended: `        PASS [   0.012s] mycrate tests::ok`.
    pub fn finished(&self, test: &CheckedTest) -> String {
        let Status { word: result, style, detail } = status(test, &self.view);
        let gap = if detail.is_empty() { "" } else { "  " };
        let detail = text::line(&detail);
        format!("{} {} {}{gap}{detail}\n", word(&result, style), seconds(test.duration), name(test))
    }

    /// Before tests run once more, to see what their descriptors hold in the kernel.
    pub fn weighing(&self, tests: usize) -> String {
        if tests == 0 {
            return String::new();
        }
        let tests = text::count(tests as u64, "test");
        let why =
            "to say what the descriptors that were left open hold in the kernel (--no-kernel-bytes does not)";
        format!("note: {tests} run once more, {why}\n")
    }

    /// After the run: the findings and the output of each test that has something to say.
    pub fn details(&self, run: &Run) -> String {
        run.tests.iter().map(|test| self.detail(test)).collect()
    }

    /// All that is known of the tests' findings.
    pub fn explained(&self, run: &Run) -> String {
        let explained = run.tests.iter().map(|test| {
            let findings = findings::render(test, &self.view, &self.sources, true);
            let Status { word: result, style, .. } = status(test, &self.view);
            let findings = if findings.is_empty() { "nothing was left\n" } else { &findings };
            let heap = heap::line(test).map_or_else(String::new, |heap| format!("{:13}{heap}\n", ""));
            format!("{} {}\n{heap}\n{findings}", word(&result, style), name(test))
        });
        explained.collect::<Vec<_>>().join("\n")
    }

    fn detail(&self, test: &CheckedTest) -> String {
        let findings = findings::render(test, &self.view, &self.sources, true);
        let unseen = matches!(test.memory.verdict, Verdict::Incomplete(_));
        // With the options of another run than the one that judged it, its findings may be details.
        let leaks = matches!(test.memory.verdict, Verdict::Leaks(_)) && test.memory.counts;
        let files = files_left::line(test);
        let files_asked_for = self.view.files && files.is_some();
        if test.outcome == Outcome::Passed && findings.is_empty() && !unseen && !leaks && !files_asked_for {
            return String::new();
        }
        let Status { word: result, style, detail } = status(test, &self.view);
        let mut shown = format!("\n{} {}\n", word(&result, style), name(test));
        if !detail.is_empty() {
            shown += &format!("{:13}{}\n", "", text::line(&detail));
        }
        let heap_asked_for = self.view.full_stacks || heap::is_limited(test);
        if let Some(heap) = heap::line(test).filter(|_| heap_asked_for) {
            shown += &format!("{:13}{heap}\n", "");
        }
        if let Some(files) = files {
            shown += &format!("{:13}{files}\n", "");
        }
        if test.outcome != Outcome::Passed && test.test.stdio == Stdio::Captured {
            let output = &test.output;
            shown += &stream("stdout", &output.stdout);
            shown += &stream("stderr", &output.stderr);
            if output.dropped_bytes > 0 {
                shown += &format!("{:13}{} B of output were not kept\n", "", output.dropped_bytes);
            }
        }
        if !findings.is_empty() {
            shown += "\n";
            shown += &findings;
        }
        shown
    }

    /// The last lines: what was not checked, and the counts.
    pub fn summary(&self, run: &Run) -> String {
        let summary = run.summary();
        let mut shown = "\n".to_owned();
        for NotChecked { what, reason } in &run.not_checked {
            let (what, reason) = (text::line(what), text::line(reason));
            shown += &format!("{} {what}: {reason}\n", word("Not checked", YELLOW));
        }
        shown += &targets::lines(run, self.view.full_stacks);
        shown += &owners::bars(run, &self.view);
        if run.interrupted {
            shown += &format!("{} before all tests had run\n", word("Interrupted", YELLOW));
        }
        let counts = [
            (summary.leaking, "leaking"),
            (summary.leaking_not_counted, "leaking but not counted"),
            (summary.failed, "failed"),
            (summary.incomplete, "incomplete"),
            (summary.not_checked, "not checked"),
        ];
        let style = match run.exit as u8 {
            0 => GREEN,
            4 | 10 => YELLOW,
            _ => RED,
        };
        for place in accepted::ignored(run) {
            shown += &format!("{} {place}\n", word("Ignored", style));
        }
        for rule in accepted::rules(run) {
            shown += &format!("{} {rule}\n", word("Rule", style));
        }
        if let Some(compared) = summary.baseline {
            let mends =
                if compared.fixed > 0 { " (`cargo leakcheck baseline update` takes it out)" } else { "" };
            shown += &format!("{} {}{mends}\n", word("Baseline", style), accepted::compared(compared));
        }
        let tests = text::count(summary.tests as u64, "test");
        let clean = summary.clean;
        shown += &format!("{} {} {tests} run: {clean} clean", word("Summary", style), seconds(run.duration));
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            // Writing to a string cannot fail.
            let _ = write!(shown, ", {count} {what}");
        }
        shown + "\n"
    }
}

/// The line for a binary that is not recorded by the ledger, as the others are.
pub fn by_uprobe(own: &OwnCode, binary: &Utf8Path, because: &str) -> String {
    let binary = own.shown(binary.as_str());
    format!("note: {}\n", text::line(&format!("{binary}: recorder uprobe: {because}")))
}

/// The line for a binary whose tests are not forked.
pub fn not_forked(own: &OwnCode, binary: &Utf8Path, because: &str) -> String {
    let binary = own.shown(binary.as_str());
    format!("note: {}\n", text::line(&format!("{binary}: started for each test: {because}")))
}

/// A word right-aligned in cargo's 12 columns.
pub(super) fn word(word: &str, style: Style) -> String {
    format!("{style}{word:>12}{style:#}")
}

fn seconds(duration: std::time::Duration) -> String {
    format!("[{:>8.3}s]", duration.as_secs_f64())
}

fn name(test: &CheckedTest) -> String {
    let (binary, name) = (test.test.binary.id(), test.test.name.as_str());
    text::line(&format!("{binary} {name}")).into_owned()
}

/// What a test wrote, indented so that no line of it can be taken for one of ours.
fn stream(name: &str, bytes: &[u8]) -> String {
    let output = text::output(bytes);
    if output.trim().is_empty() {
        return String::new();
    }
    let lines = output.trim_end().lines().map(|line| format!("    {line}\n"));
    format!("{}\n{}", word(name, Style::new().bold()), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;
    use crate::report::testing;

    fn plain(text: String) -> String {
        anstream::adapter::strip_str(&text).to_string()
    }

    fn terminal() -> Terminal {
        Terminal::new(testing::view())
    }

    #[test]
    fn lines_are_aligned_as_cargos() {
        let passed = testing::test("ok", Outcome::Passed, Verdict::Clean);
        assert_eq!(plain(terminal().checking(12, 3)), "    Checking 12 tests in 3 binaries\n");
        assert_eq!(plain(terminal().checking(1, 1)), "    Checking 1 test in 1 binary\n");
        assert_eq!(plain(terminal().finished(&passed)), "        PASS [   0.012s] a ok\n");
        let leak = "        LEAK [   0.012s] a leaks  4096 B definitely lost in 1 block (budget 0 B)\n";
        assert_eq!(plain(terminal().finished(&testing::leaking("leaks"))), leak);
    }

    #[test]
    fn a_binary_with_another_recorder_is_noted() {
        let note = by_uprobe(&testing::view().own, "/w/target/a-1".into(), "/lib/x.so calls __libc_malloc");
        assert_eq!(note, "note: target/a-1: recorder uprobe: /lib/x.so calls __libc_malloc\n");
    }

    #[test]
    fn details_show_both_results_of_a_failing_and_leaking_test() {
        let run = testing::run(vec![
            testing::test("ok", Outcome::Passed, Verdict::Clean),
            testing::failing("fails"),
            testing::leaking("leaks"),
        ]);
        let expected = "
        FAIL a fails
             also leaked 4096 B definitely lost in 1 block (budget 0 B), not counted
      stdout
    assertion <left> & ]]> red \u{fffd}
      stderr
    done
             3 B of output were not kept

definitely lost: 4096 B in 1 block
    … 1 frame of std
    at a::tests::leaks (src/lib.rs:12:9)

        LEAK a leaks
             4096 B definitely lost in 1 block (budget 0 B)

definitely lost: 4096 B in 1 block
    … 1 frame of std
    at a::tests::leaks (src/lib.rs:12:9)
";
        assert_eq!(plain(terminal().details(&run)), expected);
    }

    #[test]
    fn the_summary_counts_and_names_what_was_not_checked() {
        let unseen = Verdict::Incomplete(vec![crate::snapshot::Loss::NoBody]);
        let mut run = testing::run(vec![
            testing::test("ok", Outcome::Passed, Verdict::Clean),
            testing::test("unseen", Outcome::Passed, unseen),
            testing::failing("fails"),
            testing::leaking("leaks"),
        ]);
        run.interrupted = true;
        let expected = "
 Not checked a: doc tests: cannot be run one by one
 Interrupted before all tests had run
     Summary [   1.234s] 4 tests run: 1 clean, 1 leaking, 1 leaking but not counted, 1 failed, 1 incomplete, 1 not checked
";
        assert_eq!(plain(terminal().summary(&run)), expected);
    }

    #[test]
    fn a_clean_run_is_one_green_line() {
        let mut run = testing::run(vec![testing::test("ok", Outcome::Passed, Verdict::Clean)]);
        run.not_checked.clear();
        run.exit = Exit::Clean;
        assert_eq!(terminal().details(&run), "");
        let summary = terminal().summary(&run);
        assert!(summary.contains("\x1b[32m"), "{summary:?}");
        assert_eq!(plain(summary), "\n     Summary [   1.234s] 1 test run: 1 clean\n");
    }
}
