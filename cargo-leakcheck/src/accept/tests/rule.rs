use super::*;
use crate::model::{FindingKind, Item, Leak, Limit, Measure};

fn own() -> OwnCode {
    OwnCode { root: "/w".into(), packages: vec!["/w".into()] }
}

fn rule(from: RuleFrom) -> Rule {
    Rule {
        name: "r".into(),
        place: String::new(),
        reason: "why".to_owned(),
        from,
        kinds: Vec::new(),
        test: None,
        limit: Limit::default(),
        expires: None,
    }
}

fn frame(function: &str, file: &str, module: &str) -> Frame {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Frame { function: some(function), file: some(file), module: some(module), ..Frame::default() }
}

/// Innermost first: std, a dependency in C, the user's.
fn stack() -> Vec<Frame> {
    vec![
        frame("alloc::alloc::alloc", "/rustc/1/library/alloc/src/alloc.rs", "/w/target/a-1"),
        frame("make_it", "/home/u/.cargo/registry/src/x/sys-1.0.0/c/make.c", "/usr/lib/libmake.so.6.1"),
        frame("a::inner::Type<u8>::new::{closure#0}", "/w/src/inner.rs", "/w/target/a-1"),
        frame("a::tests::t", "/w/src/lib.rs", "/w/target/a-1"),
    ]
}

fn is_for(rule: &Rule, leak: Leak, root: Option<&[Frame]>) -> bool {
    let stack = stack();
    let measure = Measure { bytes: 1, blocks: 1 };
    let thing = Thing { item: Item::Finding(0), leak, what: None, stack: Some(&stack), root, measure };
    rule.is_for("a tests::t", &thing, &named(&thing), &own())
}

const LOST: Leak = Leak::Memory(FindingKind::DefinitelyLost);
const BELOW: Leak = Leak::Memory(FindingKind::IndirectlyLost);

fn by(set: impl FnOnce(&mut Patterns)) -> Rule {
    let mut patterns = Patterns::default();
    set(&mut patterns);
    rule(RuleFrom::Frame(patterns))
}

#[test]
fn a_pattern_is_all_of_the_text() {
    for (pattern, text, is) in [
        ("a::b", "a::b", true),
        ("a::b", "a::bc", false),
        ("a::*", "a::b::c", true),
        ("*::c", "a::b::c", true),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbY", false),
        ("*", "", true),
        ("", "", true),
        ("?x", "üx", true),
        ("a**", "a", true),
        ("*aab", "aaaab", true),
    ] {
        assert_eq!(matches(pattern, text), is, "{pattern} {text}");
    }
}

#[test]
fn each_pattern_looks_at_its_part_of_a_frame() {
    let function = |text: &'static str| by(|it| it.function = Some(text.to_owned()));
    let module = |text: &'static str| by(|it| it.module = Some(text.to_owned()));
    let krate = |text: &'static str| by(|it| it.krate = Some(text.to_owned()));
    let file = |text: &'static str| by(|it| it.file = Some(text.to_owned()));
    let library = |text: &'static str| by(|it| it.library = Some(text.to_owned()));
    let any = |text: &'static str| by(|it| it.any = Some(text.to_owned()));
    for (rule, is) in [
        (function("a::inner::Type::new"), true),
        (function("a::inner::Type<u8>::new::{closure#0}"), true),
        (function("a::inner"), false),
        (function("make_*"), true),
        (module("a::inner"), true),
        (module("a::tests"), true),
        (module("a"), true),
        (module("a::in"), false),
        (krate("a"), true),
        (krate("al*"), true),
        (krate("make_it"), false),
        (file("src/inner.rs"), true),
        (file("src/*"), true),
        (file("inner.rs"), false),
        (file("*/sys-*/c/*"), true),
        (library("libmake.so*"), true),
        (library("libmake"), false),
        (any("make"), true),
        (any("^make"), true),
        (any("^ake"), false),
        (any("so.6.1$"), true),
        // Only `*` is special there.
        (any("make?it"), false),
        (any("make*it"), true),
        (any("nowhere"), false),
    ] {
        assert_eq!(is_for(&rule, LOST, None), is, "{rule:?}");
    }
    // All of them in one frame.
    let both = |function: &str, file: &str| {
        let (function, file) = (Some(function.to_owned()), Some(file.to_owned()));
        is_for(&by(|it| (it.function, it.file) = (function, file)), LOST, None)
    };
    assert!(both("a::tests::t", "src/lib.rs"));
    assert!(!both("a::tests::t", "src/inner.rs"));
}

#[test]
fn a_stack_is_told_from_the_innermost_frame_on() {
    let is = |parts: &[&str]| {
        let parts = parts.iter().map(|part| StackPart::parse(part)).collect();
        is_for(&rule(RuleFrom::Stack(parts)), LOST, None)
    };
    assert!(is(&["alloc::*", "make_it"]));
    assert!(!is(&["make_it"]));
    assert!(is(&["...", "make_it", "a::inner::*"]));
    assert!(!is(&["...", "make_it", "a::tests::*"]));
    assert!(is(&["...", "library:libmake.so*", "...", "file:src/lib.rs"]));
    assert!(is(&["*", "*", "*", "*", "..."]));
    assert!(!is(&["*", "*", "*", "*", "*"]));
    // A way for each `...` to be as long as it likes would take for ever.
    assert!(!is(&[["..."; 40].as_slice(), &["nowhere"]].concat()));
    assert!(!is(&[["...", "*"].repeat(20), vec!["nowhere"]].concat()));
    assert!(is(&[["..."; 40].as_slice(), &["a::tests::t"]].concat()));
}

#[test]
fn kinds_and_tests_are_further_conditions() {
    let with = |set: &dyn Fn(&mut Rule)| {
        let mut rule = by(|it| it.krate = Some("a".to_owned()));
        set(&mut rule);
        rule
    };
    assert!(is_for(&with(&|rule| rule.kinds = vec![LOST]), LOST, None));
    assert!(!is_for(&with(&|rule| rule.kinds = vec![Leak::Descriptor]), LOST, None));
    for (pattern, is) in
        [("tests::t", true), ("a tests::*", true), ("*::t", true), ("b *", false), ("tests", false)]
    {
        assert_eq!(is_for(&with(&|rule| rule.test = Some(pattern.to_owned())), LOST, None), is, "{pattern}");
    }
}

#[test]
fn what_hangs_below_a_root_is_where_the_root_is() {
    let root = [frame("a::root", "/w/src/root.rs", "")];
    let of_root = by(|it| it.function = Some("a::root".to_owned()));
    let of_block = by(|it| it.function = Some("a::tests::t".to_owned()));
    assert!(is_for(&of_root, BELOW, Some(&root)));
    assert!(!is_for(&of_block, BELOW, Some(&root)));
    // A rule for lost roots covers what hangs below them.
    let of_kind = Rule { kinds: vec![LOST], ..of_root };
    assert!(is_for(&of_kind, BELOW, Some(&root)));
    assert!(!is_for(&of_kind, BELOW, None));
}

#[test]
fn limits_say_what_is_too_much() {
    let limit = |bytes, blocks| Limit { bytes, blocks };
    let measure = Measure { bytes: 64, blocks: 2 };
    assert_eq!(limit(None, None).exceeded(measure), None);
    assert_eq!(limit(Some(64), Some(2)).exceeded(measure), None);
    assert_eq!(limit(Some(64), Some(1)).exceeded(measure).as_deref(), Some("2 > 1"));
    assert_eq!(limit(Some(63), Some(2)).exceeded(measure).as_deref(), Some("64 B > 63 B"));
}

#[test]
fn a_rule_applies_until_the_end_of_its_last_day() {
    let rule = Rule { expires: Some((2027, 2, 28)), ..by(|it| it.krate = Some("a".to_owned())) };
    assert_eq!(
        [(2026, 12, 31), (2027, 2, 28), (2027, 3, 1), (2028, 1, 1)].map(|day| rule.applies_on(day)),
        [true, true, false, false]
    );
}

/// By the calendar.
#[test]
fn days_are_those_of_the_calendar() {
    for (seconds, expected) in [
        (0, (1970, 1, 1)),
        (86_399, (1970, 1, 1)),
        (951_782_400, (2000, 2, 29)),
        (951_868_800, (2000, 3, 1)),
        (1_735_689_599, (2024, 12, 31)),
        (1_735_689_600, (2025, 1, 1)),
        (4_107_542_400, (2100, 3, 1)),
    ] {
        assert_eq!(day(seconds), expected);
    }
}
