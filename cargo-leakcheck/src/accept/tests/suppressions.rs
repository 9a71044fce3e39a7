use super::*;
use crate::accept::written;
use crate::model::{FindingKind, Leak, RuleFrom, StackPart};

fn stacks(imported: &Imported) -> Vec<String> {
    let part = |part: &StackPart| part.to_string();
    let stack = |rule: &Rule| match &rule.from {
        RuleFrom::Stack(parts) => parts.iter().map(part).collect::<Vec<_>>().join(" "),
        RuleFrom::Frame(patterns) => patterns.any.clone().unwrap_or_default(),
    };
    imported.rules.iter().map(stack).collect()
}

/// The examples of its documentation, and what its parser skips.
#[test]
fn lines_of_leak_sanitizer() {
    let text = "\u{feff}# known\nleak:FooBar\n\n  leak:^libfoo.so\nrace:Other\nleak:\n";
    let imported = parse("lsan.supp", text).unwrap();
    assert_eq!(stacks(&imported), ["FooBar", "^libfoo.so"]);
    assert_eq!(imported.rules[1].place, "lsan.supp:4");
    assert_eq!(
        imported.left_out,
        ["lsan.supp:5: `race:Other` is for no leaks", "lsan.supp:6: `leak:` is for no leaks"]
    );
}

#[test]
fn blocks_of_valgrind() {
    let text = "
# std's record of the main thread
{
   std_main
   Memcheck:Leak
   match-leak-kinds: possible, reachable
   fun:malloc
   fun:_ZN5alloc5alloc5alloc17h0123456789abcdefE
   ...
   fun:_ZN3std6thread*
}
{
   in a library
   Memcheck,Addrcheck:Leak
   fun:calloc
   obj:/usr/lib/*/libdbus-1.so.*
   fun:_ZN2ns3Box3putEi
   src:make.c
}
{
   v0
   Memcheck:Leak
   fun:*alloc
   fun:_RNvC7mycrate3foo
}
{
   no leak
   Memcheck:Cond
   fun:f
}
{
   everything
   Memcheck:Leak
   fun:malloc
   ...
}
{
   a line
   Memcheck:Leak
   fun:f
   src:make.c:12
}
{
   unreadable
   Memcheck:Leak
   fun:_ZN3std6th?ead4joinE*
}
";
    let imported = parse("v.supp", text).unwrap();
    assert_eq!(
        stacks(&imported),
        [
            "alloc::alloc::alloc ... std::thread*",
            "library:libdbus-1.so.* ns::Box::put file:*make.c",
            "mycrate::foo",
            "std::th?ead::join*"
        ]
    );
    let kinds = [FindingKind::PossiblyLost, FindingKind::StillReachable].map(Leak::Memory);
    assert_eq!(imported.rules[0].kinds, kinds);
    assert_eq!((&*imported.rules[0].name, &*imported.rules[0].place), ("std_main", "v.supp:3"));
    assert_eq!(
        imported.left_out,
        [
            "v.supp:26: 'no leak' is for Memcheck:Cond, which is no leak",
            "v.supp:31: 'everything' is for every leak",
            "v.supp:37: 'a line': `src:make.c:12` cannot be said by a rule",
        ]
    );
}

#[test]
fn what_is_neither_is_an_error() {
    assert_eq!(parse("x", "# nothing\n\n").unwrap(), Imported::default());
    for (text, reason) in [
        ("[profile]\n", "neither LeakSanitizer's"),
        ("{\n a\n Memcheck:Leak\n", "line 1: the braces are not closed"),
        ("{\n}\nx\n", "line 3: `x` is outside of braces"),
    ] {
        let error = parse("x", text).unwrap_err();
        assert!(error.starts_with(reason), "{error}");
    }
}

/// What is written is read again as the same rule.
#[test]
fn rules_are_written_as_they_are_read() {
    let text = "{\n a \"quoted\"\n Memcheck:Leak\n match-leak-kinds: definite\n obj:*/lib\\d.so\n ...\n fun:a::b*\n}\n";
    let mut rules = parse("v.supp", text).unwrap().rules;
    rules.extend(parse("l.supp", "leak:^a*b$\n").unwrap().rules);
    rules[0].limit = crate::model::Limit { bytes: Some(40), blocks: Some(2) };
    rules[0].expires = Some((2027, 1, 31));
    rules[1].test = Some("tests::*".to_owned());
    let file: String = rules.iter().map(|rule| written::toml(rule, "ci")).collect();
    let read = crate::config::rules_of(&file).unwrap();
    // Where they stand is another place.
    let placed = |rules: Vec<Rule>| {
        rules.into_iter().map(|rule| Rule { place: String::new(), ..rule }).collect::<Vec<_>>()
    };
    assert_eq!(placed(read), placed(rules), "{file}");
}
