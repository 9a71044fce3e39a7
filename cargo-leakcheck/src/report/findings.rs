//! Findings as annotated text: what and how much, the source line, the call stack.

use std::borrow::Cow;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::excerpt::Sources;
use super::{View, accepted, chain, descriptors, growth, ipc, left, mapped, owners, stack, text, totals};
use crate::judge;
use crate::model::{CheckedTest, Finding, FindingKind, Frame, Item, Limited, Measure};
use crate::options::Count;
use crate::snapshot::Before;
use crate::symbolize::site;

/// Findings of one test shown to people, unless all are asked for. The largest come first, and a
/// loop that leaks from thousands of places has been understood long before.
const MAX_SHOWN: usize = 20;

/// The findings of a test as text, largest first, the descriptors, IPC objects, processes, threads
/// and mappings it left; empty when there is nothing to show.
pub(super) fn render(test: &CheckedTest, view: &View, sources: &Sources, styled: bool) -> String {
    let counted = if view.full_stacks { Cow::Borrowed(test) } else { accepted::counted(test) };
    let test = &*counted;
    let all = test.memory.findings.iter().enumerate().filter(|(_, finding)| is_shown(finding, test, view));
    let all: Vec<_> = all.collect();
    let shown = if view.full_stacks || view.explain { all.len() } else { all.len().min(MAX_SHOWN) };
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    let mut parts: Vec<String> =
        all[..shown].iter().map(|(place, _)| render_one(test, *place, view, sources, &renderer)).collect();
    let rest: Measure = all[shown..].iter().map(|(_, finding)| finding.measure).sum();
    if shown < all.len() {
        let more = text::count((all.len() - shown) as u64, "smaller finding");
        parts.push(format!(
            "… and {more} ({}); --full-stacks shows them, --json lists them\n",
            text::measure(rest)
        ));
    }
    parts.extend(growth::render(test, view));
    parts.extend(descriptors::render(test, view));
    parts.extend(ipc::render(test, view));
    parts.extend(left::render(test, view));
    parts.extend(mapped::render(test, view));
    parts.extend(totals::render(test, view.full_stacks));
    parts.join("\n")
}

/// Whether a finding belongs in a text for people: what can fail the test, and bad frees. The rest
/// has been mentioned in the test's line.
pub(super) fn is_shown(finding: &Finding<Vec<Frame>>, test: &CheckedTest, view: &View) -> bool {
    let limits = finding.in_code.limits().map(Limited::budget);
    let budget = limits.as_ref().unwrap_or(&test.test.budget);
    // What counts may be another thing for a test than for the run; of results that are read again only the run's is known.
    let counts_all = [view.count, test.test.judge.count].contains(&Count::Outstanding);
    let outstanding = counts_all || budget.outstanding_bytes.is_some();
    match finding.kind {
        _ if view.explain => true,
        FindingKind::DefinitelyLost | FindingKind::IndirectlyLost => true,
        FindingKind::DoubleFree | FindingKind::UnknownFree => true,
        FindingKind::PossiblyLost => view.full_stacks || outstanding,
        FindingKind::StillReachable => {
            let judged = budget.reachable_bytes.is_some() || budget.reachable_blocks.is_some();
            view.full_stacks || outstanding || judged
        }
    }
}

fn render_one(
    test: &CheckedTest,
    place: usize,
    view: &View,
    sources: &Sources,
    renderer: &Renderer,
) -> String {
    let finding = &test.memory.findings[place];
    let is_judged = judge::is_judged(finding, &test.test.judge);
    let level = match finding.kind {
        _ if !is_judged => Level::NOTE,
        FindingKind::DefinitelyLost | FindingKind::IndirectlyLost => Level::ERROR,
        FindingKind::StillReachable => Level::NOTE,
        _ => Level::WARNING,
    };
    let aside = if is_judged { "" } else { ", not judged" };
    let title = title(finding) + &accepted::mark(test, Item::Finding(place)) + aside;
    let title = level.with_name(text::kind(finding.kind)).primary_title(title.as_str());
    let frames = finding.stack.as_deref().unwrap_or_default();
    let site = site(frames, &view.own);
    let excerpt = site.and_then(|site| Some((sources.excerpt(site, &view.own)?, site)));
    let label = match finding.kind {
        FindingKind::DoubleFree | FindingKind::UnknownFree => "freed here",
        _ => "allocated here",
    };
    let group = match &excerpt {
        Some((excerpt, site)) => {
            let file = text::line(view.own.shown(site.file.as_deref().unwrap_or_default()));
            let mark = AnnotationKind::Primary.span(excerpt.start..excerpt.end).label(label);
            let snippet = Snippet::source(excerpt.text.as_str()).path(file).annotation(mark);
            title.element(snippet.line_start(site.line.unwrap_or(1) as usize))
        }
        None => Group::with_title(title),
    };
    let mut rendered = renderer.render(&[group]);
    let lines = match &finding.stack {
        Some(frames) => stack::lines(frames, &view.own, view.full_stacks),
        None => vec!["the call stack was not recorded".to_owned()],
    };
    let mut parts = vec![(None, lines)];
    if finding.kind == FindingKind::DoubleFree {
        let lines = |frames: &Option<Vec<Frame>>, otherwise: &str| match frames {
            Some(frames) => stack::lines(frames, &view.own, view.full_stacks),
            None => vec![otherwise.to_owned()],
        };
        let Before { allocated, freed } = &finding.before;
        parts.push((Some("freed first"), lines(freed, "not noted; use --free-stacks")));
        parts.push((Some("allocated"), lines(allocated, "outside of the test's body")));
    }
    if let Some(line) = owners::line(finding, view) {
        rendered += &format!("\n   {line}");
    }
    if chain::is_shown(finding, test, view) {
        let (title, lines) = chain::lines(finding, view);
        parts.push((Some(title), lines));
    }
    if let Some(process) = &finding.process {
        rendered += &format!("\n   in child process: {}", text::line(process));
    }
    for (title, lines) in parts {
        if let Some(title) = title {
            rendered += &format!("\n   {title}:");
        }
        for line in lines {
            rendered += "\n    ";
            rendered += &line;
        }
    }
    rendered + "\n"
}

/// How much, for which type, what hangs below, who holds it.
fn title(finding: &Finding<Vec<Frame>>) -> String {
    let mut title = match finding.kind {
        FindingKind::DoubleFree | FindingKind::UnknownFree => text::count(finding.measure.blocks, "time"),
        _ => text::measure(finding.measure),
    };
    if let Some(name) = &finding.origin.type_name {
        title += &format!(" of {}", text::line(name));
    }
    if finding.below.blocks > 0 {
        title += &format!(", and {} below", text::measure(finding.below));
    }
    if let Some(thread) = &finding.held_by {
        title += &format!(", held by thread {}", text::line(thread));
    }
    if let Some(scope) = &finding.in_code.scope {
        title += &format!(", in scope '{}'", text::line(&scope.name));
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Outcome, Verdict};
    use crate::report::testing;

    fn rendered(finding: Finding<Vec<Frame>>, view: &View) -> String {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.findings = vec![finding];
        render(&test, view, &Sources::default(), false)
    }

    #[test]
    fn the_source_line_is_shown_with_a_caret_at_the_column() {
        let directory = tempfile::tempdir().unwrap();
        let mut view = testing::view();
        view.own.root = directory.path().to_owned().try_into().unwrap();
        view.own.packages = vec![view.own.root.clone()];
        std::fs::create_dir(directory.path().join("src")).unwrap();
        std::fs::write(directory.path().join("src/lib.rs"), "\n\nlet b = Box::new([0; 4096]);\n").unwrap();
        let mut finding = testing::finding(FindingKind::DefinitelyLost, 4096);
        let frame = &mut finding.stack.as_mut().unwrap()[1];
        frame.file = Some(format!("{}/src/lib.rs", view.own.root));
        (frame.line, frame.column) = (Some(3), Some(9));
        let expected = "\
definitely lost: 4096 B in 1 block
 --> src/lib.rs:3:9
  |
3 | let b = Box::new([0; 4096]);
  |         ^ allocated here
    … 1 frame of std
    at a::tests::leaks (src/lib.rs:3:9)
";
        assert_eq!(rendered(finding, &view), expected);
    }

    #[test]
    fn findings_that_cannot_fail_the_test_are_details() {
        let view = testing::view();
        let reachable = || testing::finding(FindingKind::StillReachable, 10);
        assert_eq!(rendered(reachable(), &view), "");
        let full = View { full_stacks: true, ..view.clone() };
        assert!(rendered(reachable(), &full).starts_with("still reachable: 10 B in 1 block\n"));
        let judged = View { count: Count::Outstanding, ..view.clone() };
        assert!(!rendered(reachable(), &judged).is_empty());
        let mut limited = reachable();
        let limits = Limited { by: "a".into(), reachable_bytes: Some(0), ..Limited::default() };
        let scope = crate::model::Scope { name: "b".into(), limited: Some(limits) };
        limited.in_code.scope = Some(std::sync::Arc::new(scope));
        assert!(!rendered(limited, &view).is_empty(), "by a scope's limit");
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.test.judge.count = Count::Outstanding;
        assert!(is_shown(&reachable(), &test, &view), "by an override");
        assert!(
            rendered(testing::finding(FindingKind::DoubleFree, 0), &view)
                .starts_with("double free: 1 time\n")
        );
    }

    #[test]
    fn lost_stacks_threads_and_trees_are_said() {
        let mut finding = testing::finding(FindingKind::DefinitelyLost, 24);
        finding.stack = None;
        finding.below = Measure { bytes: 72, blocks: 3 };
        finding.held_by = Some("wor\nker".into());
        let title = "definitely lost: 24 B in 1 block, and 72 B in 3 blocks below, held by thread wor\\nker";
        let expected = format!("{title}\n    the call stack was not recorded\n");
        assert_eq!(rendered(finding, &testing::view()), expected);
    }

    #[test]
    fn the_scope_is_said() {
        let mut finding = testing::finding(FindingKind::DefinitelyLost, 24);
        finding.stack = None;
        let scope = crate::model::Scope { name: "lo\nad".into(), limited: None };
        finding.in_code.scope = Some(std::sync::Arc::new(scope));
        let title = "definitely lost: 24 B in 1 block, in scope 'lo\\nad'";
        let expected = format!("{title}\n    the call stack was not recorded\n");
        assert_eq!(rendered(finding, &testing::view()), expected);
    }

    #[test]
    fn the_child_process_is_said() {
        let mut finding = testing::finding(FindingKind::DefinitelyLost, 24);
        finding.stack = None;
        finding.process = Some("target/server --port\n0".into());
        let lines = "   in child process: target/server --port\\n0\n    the call stack was not recorded\n";
        let expected = format!("definitely lost: 24 B in 1 block\n{lines}");
        assert_eq!(rendered(finding, &testing::view()), expected);
    }

    #[test]
    fn a_double_free_shows_what_was_before() {
        let mut finding = testing::finding(FindingKind::DoubleFree, 0);
        let stack = |line| {
            let mut frames = testing::finding(FindingKind::DoubleFree, 0).stack.unwrap();
            frames[1].line = Some(line);
            Some(frames)
        };
        finding.before = Before { allocated: stack(3), freed: stack(5) };
        let text = rendered(finding.clone(), &testing::view());
        let (first, rest) = text.split_once("\n   freed first:\n").unwrap();
        let (freed, allocated) = rest.split_once("\n   allocated:\n").unwrap();
        assert!(first.contains(":12:9)") && freed.contains(":5:9)") && allocated.contains(":3:9)"), "{text}");
        finding.before = Before::default();
        let text = rendered(finding, &testing::view());
        assert!(text.contains("   freed first:\n    not noted; use --free-stacks\n"), "{text}");
    }

    #[test]
    fn thousands_of_findings_are_cut_short() {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.findings = vec![testing::finding(FindingKind::DefinitelyLost, 5); 30];
        let text = render(&test, &testing::view(), &Sources::default(), false);
        assert_eq!(text.matches("definitely lost").count(), 20);
        assert!(text.ends_with(
            "… and 10 smaller findings (50 B in 10 blocks); --full-stacks shows them, --json lists them\n"
        ));
    }
}
