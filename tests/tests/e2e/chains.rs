//! Why a block is still there: the way from a root to it, or around a lost cycle.

use fs_err as fs;
use leakcheck_tests::marker::Kind;
use leakcheck_tests::report::{Report, Step};
use leakcheck_tests::tool::Workshop;

use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("chains::by_every_recorder", by_every_recorder),
    ("chains::shown_where_a_limit_is_exceeded", shown),
    ("chains::explained_from_a_file", explained),
];

/// The tests, the kind and size of the finding, and its way.
const WAYS: [(&str, Kind, u64, &[&str]); 7] = [
    ("of_a_static", Kind::StillReachable, 40, &["static chains::of_a_static::CACHE", "40 B at B"]),
    (
        "of_a_static",
        Kind::StillReachable,
        100,
        &["static chains::of_a_static::CACHE", "40 B at B, offset 32", "100 B at A"],
    ),
    ("of_a_thread_local", Kind::StillReachable, 77, &["thread_local chains::SLOT of keeper", "77 B"]),
    ("of_a_stack", Kind::StillReachable, 55, &["stack of stacker", "55 B"]),
    ("around_a_cycle", Kind::DefinitelyLost, 128, &["128 B at C, offset 120", "128 B at D, offset 120"]),
    ("down_a_tree", Kind::StillReachable, 24, &["static chains::down_a_tree::TREE", "24 B at G"]),
    (
        "down_a_tree",
        Kind::StillReachable,
        99,
        &["static chains::down_a_tree::TREE", "24 B at G, offset 8", "24 B at F, offset 16", "99 B at E"],
    ),
];

/// What stands in a line, and its letter.
const LINES: [(&str, &str); 7] = [
    ("let text = Box::new", "A"),
    ("Box::new(table)", "B"),
    ("let first = ", "C"),
    ("let second = ", "D"),
    ("let leaf = ", "E"),
    ("Some(Box::new(Branch", "F"),
    ("let root = ", "G"),
];

/// A way in words, with letters for lines.
fn words(steps: &[Step], source: &str) -> Vec<String> {
    let letter = |line: usize| {
        let text = source.lines().nth(line.checked_sub(1)?)?;
        LINES.iter().find(|(code, _)| text.contains(code)).map(|(_, letter)| letter)
    };
    let word = |step: &Step| match step {
        Step::Root { by, thread, symbol, .. } => {
            let symbol = symbol.as_ref().map_or_else(String::new, |symbol| format!(" {symbol}"));
            let thread = thread.as_ref().map_or_else(String::new, |thread| format!(" of {thread}"));
            format!("{by}{symbol}{thread}")
        }
        Step::Block { bytes, offset, frame, .. } => {
            let line = frame.as_ref().and_then(|frame| letter(frame.line?));
            let at = line.map_or_else(String::new, |letter| format!(" at {letter}"));
            let offset = offset.map_or_else(String::new, |offset| format!(", offset {offset}"));
            format!("{bytes} B{at}{offset}")
        }
        Step::More { blocks } => format!("{blocks} more"),
    };
    steps.iter().map(word).collect()
}

fn checked(workshop: &Workshop, report: &Report) -> Outcome {
    let source = fs::read_to_string(workshop.fixtures().join("chains/src/lib.rs"))
        .map_err(|problem| problem.to_string())?;
    for (name, kind, bytes, way) in WAYS {
        let test = report.tests.iter().find(|test| test.name == name).ok_or(format!("no {name}"))?;
        let alike = test.findings.iter().filter(|finding| finding.kind == kind && finding.bytes == bytes);
        let ways: Vec<_> = alike.map(|finding| words(&finding.chain, &source)).collect();
        if !ways.iter().any(|found| found == way) {
            return Err(format!("{name}, {bytes} bytes: {ways:?}, and not {way:?}"));
        }
    }
    Ok(())
}

fn by_every_recorder(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "chains")?;
    for args in [&["--recorder", "ledger"][..], &["--recorder", "uprobe"], &["--release"]] {
        let (run, report) = desk.run(workshop, args, &[])?;
        checked(workshop, &report).map_err(|problem| format!("{args:?}: {problem}\n{}", run.describe()))?;
    }
    Ok(())
}

/// A cycle is shown always, a way from a root where something reachable is too much.
fn shown(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "chains")?;
    let (run, _) = desk.run(workshop, &["of_a_static", "around_a_cycle"], &[])?;
    let lines = [
        "a cycle that nothing else refers to:\n    Rc<Node> at chains/src/lib.rs:",
        "(128 B), at offset 120\n    → Rc<Node> at chains/src/lib.rs:",
        "(128 B), at offset 120\n    → the first one\n",
    ];
    run.expect(2, &lines)?;
    if run.stderr.contains("held by") {
        return Err(format!("nothing reachable is too much\n{}", run.describe()));
    }
    let (run, _) = desk.run(workshop, &["--count", "outstanding", "of_a_static"], &[])?;
    let lines = [
        "held by:\n    static chains::of_a_static::CACHE (",
        "→ Box<Table> at chains/src/lib.rs:",
        "(40 B), at offset 32\n    → Box<[u8; 100]> at chains/src/lib.rs:",
    ];
    run.expect(2, &lines)
}

/// Without the program, and without building anything.
fn explained(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "chains")?;
    let (_, _) = desk.run(workshop, &[], &[])?;
    let report = desk.file("report.json");
    let explain = |name: &str| {
        let mut command = workshop.command(&["explain", report.as_str(), name])?;
        let output = command.current_dir("/").output();
        let output = output.map_err(|problem| problem.to_string())?;
        Ok::<_, String>(leakcheck_tests::tool::Run::new(format!("{command:?}"), output))
    };
    let run = explain("down_a_tree")?;
    run.expect(0, &[])?;
    for line in [
        "still reachable: 99 B in 1 block of Box<[u8; 99]>\n",
        "   held by:\n    static chains::down_a_tree::TREE (",
        "(24 B), at offset 8\n    → Box<Branch> at chains/src/lib.rs:",
        "(24 B), at offset 16\n    → Box<[u8; 99]> at chains/src/lib.rs:",
    ] {
        if !run.stdout.contains(line) {
            return Err(format!("no `{line}`\n{}", run.describe()));
        }
    }
    if run.stdout.contains("of_a_static") || run.stdout.contains('\u{1b}') {
        return Err(format!("another test, or colours\n{}", run.describe()));
    }
    let run = explain("of_a_")?;
    match ["of_a_static", "of_a_stack", "of_a_thread_local"].iter().all(|name| run.stdout.contains(name)) {
        true => explain("no_such_test")?.expect(11, &["has no test whose name has `no_such_test` in it"]),
        false => Err(format!("not all whose name has it in it\n{}", run.describe())),
    }
}
