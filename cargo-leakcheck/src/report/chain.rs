//! Why a block is still there, as lines of text.

use super::{View, stack, text};
use crate::model::{CheckedTest, Finding, FindingKind, Frame, Held, HeldBy, Step, Through, Verdict};

/// Whether the way to a finding's block is shown: around a lost cycle always; from a root where the finding counts and
/// a limit is exceeded, or everything is asked for.
pub(super) fn is_shown(finding: &Finding<Vec<Frame>>, test: &CheckedTest, view: &View) -> bool {
    let exceeded = matches!(test.memory.verdict, Verdict::Leaks(_));
    match finding.kind {
        _ if finding.origin.chain.is_empty() => false,
        FindingKind::StillReachable => exceeded || view.full_stacks || view.explain,
        _ => true,
    }
}

/// The lines of a way, with what they are.
pub(super) fn lines(finding: &Finding<Vec<Frame>>, view: &View) -> (&'static str, Vec<String>) {
    let chain = &finding.origin.chain;
    let is_cycle = !matches!(chain.first(), Some(Step::Root(_)));
    let mut lines: Vec<String> = chain.iter().map(|step| line(step, view)).collect();
    if is_cycle {
        lines.push("the first one".to_owned());
    }
    let lines = lines.iter().enumerate().map(|(index, line)| {
        let arrow = if index == 0 { "" } else { "→ " };
        text::line(&format!("{arrow}{line}")).into_owned()
    });
    (if is_cycle { "a cycle that nothing else refers to" } else { "held by" }, lines.collect())
}

fn line(step: &Step<Vec<Frame>>, view: &View) -> String {
    match step {
        Step::Root(held) => root(held, view),
        Step::More(count) => format!("… {}", text::count(*count, "more block")),
        Step::Block(Through { stack, bytes, type_name, offset }) => {
            let name = type_name.as_deref().unwrap_or("a block");
            let at = match stack.as_deref() {
                Some([frame, ..]) => format!(" at {}", stack::site_of(frame, view)),
                _ => String::new(),
            };
            let offset = offset.map_or_else(String::new, |offset| format!(", at offset {offset}"));
            format!("{name}{at} ({bytes} B){offset}")
        }
    }
}

fn root(Held { by, thread, module, symbol, offset }: &Held, view: &View) -> String {
    let of = match thread {
        Some(thread) => format!("thread {thread}"),
        None => "the main thread".to_owned(),
    };
    let file = module.as_deref().map(|module| view.own.shown(module));
    let variable = |kind: &str| {
        let at = if *offset == 0 { String::new() } else { format!(", at offset {offset}") };
        match (symbol, file) {
            (Some(symbol), Some(file)) => format!("{kind} {symbol} ({file}){at}"),
            (None, Some(file)) => format!("{kind} at {offset:#x} ({file})"),
            (_, None) => kind.to_owned(),
        }
    };
    match by {
        HeldBy::Static => variable("static"),
        HeldBy::ThreadLocal => format!("{} of {of}", variable("thread-local")),
        HeldBy::Stack => format!("the stack of {of}"),
        HeldBy::Registers => format!("a register of {of}"),
        HeldBy::ThreadDescriptor if thread.is_none() => "what the C library keeps of a thread".to_owned(),
        HeldBy::ThreadDescriptor => format!("what the C library keeps of {of}"),
        HeldBy::Mapping => match file {
            Some(file) => format!("mapped memory ({file})"),
            None => "memory that the program has mapped".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;
    use crate::report::testing;

    fn through(type_name: Option<&str>, bytes: u64, offset: Option<u64>) -> Step<Vec<Frame>> {
        let stack =
            testing::finding(FindingKind::StillReachable, bytes).stack.map(|frames| frames[1..].to_vec());
        Step::Block(Through { stack, bytes, type_name: type_name.map(str::to_owned), offset })
    }

    fn shown(chain: Vec<Step<Vec<Frame>>>) -> (&'static str, Vec<String>) {
        let mut finding = testing::finding(FindingKind::StillReachable, 8);
        finding.origin.chain = chain;
        lines(&finding, &testing::view())
    }

    #[test]
    fn the_way_from_a_variable() {
        let held = Held {
            by: HeldBy::Static,
            module: Some("/w/target/a-1".into()),
            symbol: Some("a::CACHE\n".into()),
            offset: 8,
            thread: None,
        };
        let block = Step::Block(Through { stack: None, bytes: 4, type_name: None, offset: None });
        let chain = vec![Step::Root(held), through(Some("Vec<u8>"), 24, Some(16)), Step::More(2), block];
        let expected = [
            "static a::CACHE\\n (target/a-1), at offset 8",
            "→ Vec<u8> at src/lib.rs:12:9 (24 B), at offset 16",
            "→ … 2 more blocks",
            "→ a block (4 B)",
        ];
        assert_eq!(shown(chain), ("held by", expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn roots_of_threads() {
        let held = |by, thread: Option<&str>| {
            let thread = thread.map(str::to_owned);
            shown(vec![Step::Root(Held { by, thread, ..Held::default() })]).1.remove(0)
        };
        assert_eq!(held(HeldBy::Stack, Some("keeper")), "the stack of thread keeper");
        assert_eq!(held(HeldBy::Registers, None), "a register of the main thread");
        assert_eq!(held(HeldBy::ThreadLocal, Some("keeper")), "thread-local of thread keeper");
        assert_eq!(held(HeldBy::Mapping, None), "memory that the program has mapped");
    }

    #[test]
    fn a_cycle_ends_where_it_begins() {
        let (title, lines) = shown(vec![through(Some("Rc<Node>"), 136, Some(120))]);
        assert_eq!(title, "a cycle that nothing else refers to");
        let expected = ["Rc<Node> at src/lib.rs:12:9 (136 B), at offset 120", "→ the first one"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_may_be_reachable_is_not_explained_unasked() {
        let mut finding = testing::finding(FindingKind::StillReachable, 8);
        let (clean, leaks) = (testing::test("t", Outcome::Passed, Verdict::Clean), testing::leaking("leaks"));
        let view = testing::view();
        assert!(!is_shown(&finding, &leaks, &view));
        finding.origin.chain = vec![through(None, 8, None)];
        assert!(is_shown(&finding, &leaks, &view) && !is_shown(&finding, &clean, &view));
        assert!(is_shown(&finding, &clean, &View { explain: true, ..view }));
    }
}
