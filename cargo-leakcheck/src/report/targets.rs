//! How each target of the run was covered.

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Run, terminal, text};
use crate::model::{CheckedTest, Covered, Target, Verdict};

const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// A target and what became of it, as the JSON document has it.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    package: &'a str,
    name: &'a str,
    kind: &'static str,
    binary: &'a str,
    status: Status,
    /// Tests that it lists.
    tests: Option<usize>,
    /// Those of them that do not run because of their mark.
    ignored: usize,
    /// Those of them whose memory was judged.
    checked: usize,
    /// Why it was not checked, or not test by test.
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Test by test.
    Checked,
    /// As a whole.
    OneUnit,
    /// Not at all.
    NotChecked,
}

/// One row a target.
pub(super) fn rows(run: &Run) -> Vec<Row<'_>> {
    run.targets.iter().map(|target| row(target, run)).collect()
}

fn row<'a>(target: &'a Target, run: &Run) -> Row<'a> {
    let is_binary = target.kind != Target::DOCTEST;
    let ran: Vec<_> =
        run.tests.iter().filter(|test| is_binary && test.test.binary.id() == target.id).collect();
    let unseen: Vec<_> = ran.iter().filter_map(|test| unseen(test)).collect();
    let checked = ran.len() - unseen.len();
    let (status, reason) = match &target.covered {
        Covered::No { reason } => (Status::NotChecked, Some(reason.clone())),
        Covered::ByTest if checked > 0 => (Status::Checked, None),
        Covered::AsUnit { reason } if checked > 0 => (Status::OneUnit, Some(reason.clone())),
        Covered::ByTest | Covered::AsUnit { .. } => {
            (Status::NotChecked, Some(unseen.into_iter().next().unwrap_or_else(|| idle(target))))
        }
    };
    let Target { package, name, kind, id: binary, tests, ignored, .. } = target;
    Row { package, name, kind, binary, status, tests: *tests, ignored: *ignored, checked, reason }
}

/// Why the memory of a test that ran was not judged, if it was not.
fn unseen(test: &CheckedTest) -> Option<String> {
    match &test.memory.verdict {
        Verdict::Clean | Verdict::Leaks(_) => None,
        Verdict::Incomplete(losses) => {
            Some(losses.first().map_or_else(|| "incomplete".to_owned(), ToString::to_string))
        }
        Verdict::NotChecked(reason) => Some(reason.clone()),
    }
}

/// Why nothing of it ran.
fn idle(target: &Target) -> String {
    match target.tests {
        Some(0) => "it has no tests".to_owned(),
        Some(tests) if tests == target.ignored => {
            format!("{} ignored", text::count(tests as u64, "test"))
        }
        _ if target.selected == 0 => "nothing of it was selected".to_owned(),
        _ => "the run ended before".to_owned(),
    }
}

/// The lines for the terminal: of what was to be checked and was not, or of all targets. (What no test is in, and
/// what the user has not selected, is only among all.)
pub(super) fn lines(run: &Run, all: bool) -> String {
    let mut shown = String::new();
    for (target, row) in run.targets.iter().zip(rows(run)) {
        // The list of what is not checked has it.
        let listed = target.kind == Target::DOCTEST;
        let wanted = target.selected > 0 || row.ignored > 0;
        let name = text::line(row.binary);
        let reason = row.reason.as_deref().map(text::line).unwrap_or_default();
        let (word, style, line) = match row.status {
            Status::NotChecked if listed || !(all || wanted) => continue,
            Status::NotChecked => ("Not checked", YELLOW, format!("{name}: {reason}")),
            _ if !all => continue,
            Status::OneUnit => ("As one unit", GREEN, format!("{name}: {reason}")),
            Status::Checked => {
                let ignored =
                    if row.ignored > 0 { format!(", {} ignored", row.ignored) } else { String::new() };
                ("Checked", GREEN, format!("{name}: {}{ignored}", text::count(row.checked as u64, "test")))
            }
        };
        shown += &format!("{} {line}\n", terminal::word(word, style));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NotChecked, Outcome};
    use crate::report::testing;
    use crate::snapshot::Loss;

    fn target(id: &str, tests: Option<usize>, ignored: usize, selected: usize, covered: Covered) -> Target {
        let (package, name) = ("a".to_owned(), id.to_owned());
        let kind = if id.starts_with("doctests") { Target::DOCTEST } else { "lib" };
        Target { package, name, kind, id: id.to_owned(), tests, ignored, selected, covered }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn run(of_a: Vec<CheckedTest>) -> Run {
        let mut run = testing::run(of_a);
        let unit = || Covered::AsUnit { reason: "it lists no tests".into() };
        let no = || Covered::No { reason: "doctests are not run yet".into() };
        run.targets = vec![
            target("a", Some(4), 1, 3, Covered::ByTest),
            target("empty", Some(0), 0, 0, Covered::ByTest),
            target("ignored", Some(2), 2, 0, Covered::ByTest),
            target("other", Some(2), 0, 0, Covered::ByTest),
            target("unit", None, 0, 0, unit()),
            target("doctests of a", Some(3), 0, 0, no()),
        ];
        run.not_checked = vec![NotChecked { what: "3 doctests of a".into(), reason: "x".into() }];
        run
    }

    #[test]
    fn every_target_has_a_status_and_a_reason() {
        let unseen = Verdict::Incomplete(vec![Loss::NoBody]);
        let run = run(vec![
            testing::leaking("leaks"),
            testing::test("ok", Outcome::Passed, Verdict::Clean),
            testing::test("unseen", Outcome::Passed, unseen),
        ]);
        let rows = rows(&run);
        let seen: Vec<_> = rows.iter().map(|row| (row.status, row.checked, row.reason.as_deref())).collect();
        let not = Status::NotChecked;
        let expected = [
            (Status::Checked, 2, None),
            (not, 0, Some("it has no tests")),
            (not, 0, Some("2 tests ignored")),
            (not, 0, Some("nothing of it was selected")),
            (not, 0, Some("nothing of it was selected")),
            (not, 0, Some("doctests are not run yet")),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn people_see_what_was_to_be_checked_and_was_not() {
        let run =
            run(vec![testing::test("unseen", Outcome::Passed, Verdict::Incomplete(vec![Loss::NoBody]))]);
        let expected = " Not checked a: no test body was entered\n Not checked ignored: 2 tests ignored\n";
        assert_eq!(plain(&lines(&run, false)), expected);
    }

    #[test]
    fn people_see_every_target_if_they_want() {
        let run = run(vec![testing::test("ok", Outcome::Passed, Verdict::Clean)]);
        let expected = "     Checked a: 1 test, 1 ignored
 Not checked empty: it has no tests
 Not checked ignored: 2 tests ignored
 Not checked other: nothing of it was selected
 Not checked unit: nothing of it was selected
";
        assert_eq!(plain(&lines(&run, true)), expected);
    }
}
