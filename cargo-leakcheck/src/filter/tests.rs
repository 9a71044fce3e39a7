use proptest::prelude::*;

use super::*;

/// Tests as nextest would see them: package, binary, kind, name.
const TESTS: [(&str, &str, &str, &str); 6] = [
    ("alpha", "alpha", "lib", "parse::numbers"),
    ("alpha", "api", "test", "parse"),
    ("alpha", "alpha-tool", "bin", "run"),
    ("beta-core", "beta_core", "lib", "cache::drops"),
    ("beta-core", "speed", "bench", "parse/one, two)"),
    ("beta-macros", "beta_macros", "proc-macro", "cache"),
];

/// The numbers of the tests that an expression selects.
fn selects(source: &str) -> Vec<usize> {
    let filter = Filter::parse(source).unwrap_or_else(|error| panic!("{error}"));
    let matches = |(package, binary, kind, test): (&str, &str, &str, &str)| {
        let binary_id = match kind {
            "lib" | "proc-macro" => package.to_owned(),
            "test" => format!("{package}::{binary}"),
            kind => format!("{package}::{kind}/{binary}"),
        };
        filter.matches(&Subject { package, binary_id: &binary_id, binary, kind, test })
    };
    (0..TESTS.len()).filter(|number| matches(TESTS[*number])).collect()
}

#[test]
fn predicates_and_their_matchers() {
    for (source, expected) in [
        ("all()", &[0, 1, 2, 3, 4, 5][..]),
        ("none()", &[]),
        ("test(parse)", &[0, 1, 4]),
        ("test(~parse)", &[0, 1, 4]),
        ("test(=parse)", &[1]),
        ("test(/^parse$/)", &[1]),
        ("test(/^(parse|cache)::/)", &[0, 3]),
        ("test(#parse*)", &[0, 1, 4]),
        ("test(#*::*)", &[0, 3]),
        // The whole name, unlike a regular expression.
        ("test(#pars)", &[]),
        // Globs do not stop at slashes here.
        ("test(#parse*two?)", &[4]),
        ("package(alpha)", &[0, 1, 2]),
        ("package(beta-*)", &[3, 4, 5]),
        ("package(beta-{core,macros})", &[3, 4, 5]),
        ("package(beta)", &[]),
        ("package(~beta)", &[3, 4, 5]),
        ("binary(api)", &[1]),
        ("binary(beta_*)", &[3, 5]),
        ("binary_id(alpha)", &[0]),
        ("binary_id(alpha::*)", &[1, 2]),
        ("binary_id(=alpha::bin/alpha-tool)", &[2]),
        ("kind(lib)", &[0, 3]),
        ("kind(proc-macro)", &[5]),
        ("kind(/^b/)", &[2, 4]),
    ] {
        // What a brace holds has commas.
        let source = source.replace("{core,macros}", r"{core\,macros}");
        assert_eq!(selects(&source), expected, "{source}");
    }
}

#[test]
fn escapes() {
    for source in [
        r"test(one\, two\))",
        r"test(/one, two\)/)",
        r"test(parse\/one)",
        r"test(/parse\/one/)",
        r"test(\u{6F}ne\u{2C})",
    ] {
        assert_eq!(selects(source), [4], "{source}");
    }
    // Its own classes are left to the regular expression.
    assert_eq!(selects(r"test(/^\w+$/)"), [1, 2, 5]);
}

/// The examples of nextest's reference, and blanks where it allows them.
#[test]
fn operators_bind_as_in_nextest() {
    for (source, equivalent) in [
        ("test(run) & test(parse) | test(cache)", "(test(run) & test(parse)) | test(cache)"),
        ("test(run) | test(parse) & test(cache)", "test(run) | (test(parse) & test(cache))"),
        ("test(parse) & kind(lib) - test(numbers)", "(test(parse) & kind(lib)) - test(numbers)"),
        ("not test(parse) | test(numbers)", "(not test(parse)) | test(numbers)"),
        ("all() - kind(lib) - kind(bench)", "(all() - kind(lib)) & !kind(bench)"),
        ("not not test(run)", "test(run)"),
        ("!test(run)and!kind(lib)", "not test(run) and not kind(lib)"),
        ("not(test(run))", "! test ( run)"),
        ("test(run)\n  + kind(lib)\r\n", "test(run) or kind(lib)"),
    ] {
        assert_eq!(selects(source), selects(equivalent), "{source}");
    }
    assert_eq!(selects("test(run) | test(parse) & test(cache)"), [2]);
    assert_eq!(selects("(test(run) | test(cache)) & kind(lib)"), [3]);
    assert_eq!(selects("not test(parse) | test(numbers)"), [0, 2, 3, 5]);
    assert_eq!(selects("all() - kind(lib) - kind(bench)"), [1, 2, 5]);
}

#[test]
fn what_is_wrong_is_pointed_at() {
    for (source, at, words) in [
        ("", 0..0, "expected a predicate"),
        ("test(a) test(b)", 8..9, "expected an operator"),
        ("test(a))", 7..8, "unexpected `)`"),
        ("(test(a)", 0..1, "not closed"),
        ("test(a", 0..4, "not closed"),
        ("test()", 5..6, "expected a name"),
        ("test(=)", 6..7, "expected a name"),
        ("test(a,b)", 6..7, "unexpected `,`"),
        ("test", 0..4, "without parentheses"),
        ("all(x)", 4..5, "expected `)`"),
        ("notall()", 0..6, "unknown predicate `notall`"),
        ("tests(a)", 0..5, "unknown predicate `tests`"),
        ("deps(a)", 0..4, "nextest's only"),
        ("test(a) && test(b)", 8..10, "no operator `&&`"),
        ("test(a) || test(b)", 8..10, "no operator `||`"),
        ("& test(a)", 0..1, "expected a predicate"),
        ("test(a) &", 9..9, "expected a predicate"),
        ("test(/a", 5..6, "does not end"),
        ("test(/a(/)", 5..9, "no regular expression"),
        ("package(a[)", 8..10, "no glob"),
        (r"test(a\q)", 6..8, "unknown escape"),
        (r"test(a\u{110000})", 6..8, "unknown escape"),
        ("kind(unit)", 5..9, "no kind `unit`"),
    ] {
        let error = Filter::parse(source).map(|filter| filter.source).expect_err(source);
        assert!(error.message.contains(words), "{source}: {error}");
        assert_eq!(error.at, at, "{source}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(Filter::parse(&deep).unwrap_err().message.contains("levels"));
}

#[test]
fn an_error_shows_the_expression() {
    let shown = Filter::parse("package(x) & tset(y)").unwrap_err().to_string();
    let expected = "unknown predicate `tset`
  |
1 | package(x) & tset(y)
  |              ^^^^ there are test, package, binary, binary_id, kind, all and none";
    assert_eq!(shown, expected);
}

proptest! {
    /// Any text is an expression or an error with a place inside of it.
    #[test]
    fn no_text_panics(text in r"(test|kind|all|not|and|or|[()&|!/=~#\\,\- é]|[a-z]){0,20}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!(error.at.start <= error.at.end && error.at.end <= text.len());
            let _ = error.to_string();
        }
    }
}
