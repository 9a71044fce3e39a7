//! The grammar of the comments, one at a time. `fixtures/README.md` describes it for people.

use serde::Deserialize;

/// The kinds of finding, as the report names them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No reference anywhere.
    DefinitelyLost,
    /// Referenced from lost blocks only.
    IndirectlyLost,
    /// Referenced by a disguised word only.
    PossiblyLost,
    /// Referenced.
    StillReachable,
    /// A free of a freed block.
    DoubleFree,
    /// A free of what never was a block.
    UnknownFree,
}

/// Every kind with its name in comments and in the report.
pub const KINDS: [(&str, Kind); 6] = [
    ("definitely_lost", Kind::DefinitelyLost),
    ("indirectly_lost", Kind::IndirectlyLost),
    ("possibly_lost", Kind::PossiblyLost),
    ("still_reachable", Kind::StillReachable),
    ("double_free", Kind::DoubleFree),
    ("unknown_free", Kind::UnknownFree),
];

/// How much a finding comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this, in each of `times` findings with stacks of their own.
    Exactly {
        /// Sum of the requested sizes.
        bytes: u64,
        /// Number of blocks.
        blocks: u64,
        /// Number of findings.
        times: usize,
    },
    /// Bad frees: their number.
    Frees(u64),
    /// Any number of findings of any size, also none: memory that belongs to std or the C library, in
    /// sizes that are theirs.
    Any,
}

/// A finding that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its kind.
    pub kind: Kind,
    /// Its size.
    pub amount: Amount,
    /// The user's line may be missing from the stack, as a library without frame pointers is in between.
    pub site_unknown: bool,
    /// The running thread that holds the blocks.
    pub held_by: Option<String>,
    /// A word of the child process that it is in.
    pub child: Option<String>,
}

/// Descriptors left open that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// What they are, as the report names it.
    pub kind: String,
    /// How many refer to one file.
    pub numbers: usize,
    /// How many files.
    pub times: usize,
    /// The running thread that has made them.
    pub held_by: Option<String>,
    /// They were made in a one-time initializer.
    pub once: bool,
    /// Whether the line that made them is known.
    pub has_line: bool,
}

/// IPC objects left behind that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What they are, as the report names it.
    pub kind: String,
    /// How many.
    pub times: usize,
    /// Whether the line that made them is known.
    pub has_line: bool,
}

/// Memory left mapped that a comment announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// What it is, as the report names it.
    pub kind: String,
    /// What is left of it.
    pub bytes: u64,
    /// How many mappings.
    pub count: u64,
    /// It was made in a one-time initializer.
    pub once: bool,
}

/// What of a test a comment announces to be left running or waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What it is.
    pub what: Remains,
    /// A word of its command line, or of a thread's name.
    pub word: Option<String>,
    /// How many; none for any number, also none.
    pub times: Option<usize>,
    /// The process that has started it is gone: without eBPF nobody knows whose it is.
    pub orphaned: bool,
}

/// What can be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// A process that runs.
    Running,
    /// A process that has ended, and was not waited for.
    Zombie,
    /// A thread.
    Thread,
}

/// How a crate is run: more arguments for the tool, and variables in its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rerun {
    /// Words that begin with `-`.
    pub args: Vec<String>,
    /// `NAME=VALUE`.
    pub variables: Vec<(String, String)>,
}

/// What a comment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A finding with its site at the comment's line.
    Finding(Announced),
    /// Descriptors with their site at the comment's line, or, above a test, without one.
    Open(Open),
    /// IPC objects with their site at the comment's line, or, above a test, without one.
    Object(Object),
    /// Mappings with their site at the comment's line.
    Mapped(Mapped),
    /// A process or thread with its site at the comment's line.
    Left(Left),
    /// How many timers the test leaves.
    Timers(usize),
    /// The test's outcome.
    Outcome(String),
    /// The test's verdict.
    Verdict(String),
    /// The test's findings are not looked at.
    FindingsAny,
    /// How many files the test leaves in its temporary directory.
    Files(u64),
    /// The tool's exit code for the crate.
    CrateExit(i32),
    /// More arguments for the tool.
    CrateArgs(Vec<String>),
    /// Run the crate once more, in another way.
    CrateRerun(Rerun),
    /// Something in the report's list of what was not checked must contain this.
    CrateNotChecked(String),
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Lines above the comment's own; 0 is its own (or the next, when it stands alone).
    pub up: usize,
    /// The tests it is meant for; empty where it stands in the test itself.
    pub tests: Vec<String>,
    /// What it says.
    pub body: Body,
}

impl Marker {
    /// Reads the marker of a line of source, if it has one. `Err` says what cannot be understood.
    pub fn find(line: &str) -> Result<Option<(bool, Self)>, String> {
        let Some(at) = line.find("//~") else {
            let squeezed: String = line.split_whitespace().collect();
            if squeezed.contains("//~") || squeezed.contains("/*~") {
                return Err("a marker begins with `//~`".into());
            }
            return Ok(None);
        };
        let alone = line[..at].trim().is_empty();
        let text = &line[at + 3..];
        let marker = Self::parse(text).map_err(|problem| format!("`//~{text}`: {problem}"))?;
        if marker.up > 0 && !alone {
            return Err(format!("`//~{text}`: a marker for a line above stands on a line of its own"));
        }
        Ok(Some((alone, marker)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let rest = text.trim_start_matches('^');
        let up = text.len() - rest.len();
        let mut rest = rest.trim();
        let mut tests = Vec::new();
        if let Some(list) = rest.strip_prefix('[') {
            let (names, after) = list.split_once(']').ok_or("`]` is missing")?;
            tests = names.split(',').map(|name| name.trim().to_owned()).collect();
            if tests.iter().any(String::is_empty) {
                return Err("a name is missing between `[` and `]`".into());
            }
            rest = after.trim();
        }
        Ok(Self { up, tests, body: body(rest)? })
    }
}

fn body(text: &str) -> Result<Body, String> {
    if let Some((key, value)) = text.split_once(':') {
        let value = value.trim();
        let one_of = |allowed: &[&str]| match allowed.contains(&value) {
            true => Ok(value.to_owned()),
            false => Err(format!("`{value}` is none of {}", allowed.join(", "))),
        };
        return match key {
            "outcome" => one_of(&["passed", "failed", "signalled", "timed_out"]).map(Body::Outcome),
            "verdict" => one_of(&["clean", "leaks", "incomplete", "not_checked", "any"]).map(Body::Verdict),
            "files" => value.parse().map(Body::Files).map_err(|problem| format!("`{value}`: {problem}")),
            "timers" => number(value).map(Body::Timers),
            "findings" => one_of(&["any"]).map(|_| Body::FindingsAny),
            "crate exit" => number(value).map(Body::CrateExit),
            "crate args" => Ok(Body::CrateArgs(value.split_whitespace().map(str::to_owned).collect())),
            "crate rerun" => rerun(value).map(Body::CrateRerun),
            "crate not checked" => Ok(Body::CrateNotChecked(value.to_owned())),
            _ => Err(format!("`{key}:` is not known")),
        };
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((&name, words)) = words.split_first() else { return Err("it says nothing".into()) };
    if name == "open" {
        return open(words).map(Body::Open);
    }
    if name == "left" {
        return object(words).map(Body::Object);
    }
    if name == "mapped" {
        return mapped(words).map(Body::Mapped);
    }
    match (name, words) {
        ("child", ["running", rest @ ..]) => return left(Remains::Running, rest).map(Body::Left),
        ("child", ["zombie", rest @ ..]) => return left(Remains::Zombie, rest).map(Body::Left),
        ("child", _) => return Err("a child is `running` or a `zombie`".into()),
        ("thread", rest) => return left(Remains::Thread, rest).map(Body::Left),
        _ => {}
    }
    let (_, kind) =
        *KINDS.iter().find(|(known, _)| *known == name).ok_or(format!("`{name}` is not known"))?;
    finding(kind, words).map(Body::Finding)
}

fn left(what: Remains, words: &[&str]) -> Result<Left, String> {
    let mut left = Left { what, word: None, times: Some(1), orphaned: false };
    for word in words {
        match word.strip_prefix('x').and_then(|times| times.parse().ok()) {
            Some(times) => left.times = Some(times),
            None if *word == "any" => left.times = None,
            None if *word == "orphaned" => left.orphaned = true,
            None if left.word.is_none() => left.word = Some((*word).to_owned()),
            None => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(left)
}

fn open(words: &[&str]) -> Result<Open, String> {
    let (&kind, mut rest) = words.split_first().ok_or("the kind of descriptor is missing")?;
    let mut open = Open {
        kind: kind.replace('-', " "),
        numbers: 1,
        times: 1,
        held_by: None,
        once: false,
        has_line: true,
    };
    loop {
        rest = match rest {
            [] => return Ok(open),
            [count, "numbers", rest @ ..] => {
                open.numbers = number(count)?;
                rest
            }
            ["once", rest @ ..] => {
                open.once = true;
                rest
            }
            ["without", "a", "line", rest @ ..] => {
                open.has_line = false;
                rest
            }
            ["held", "by", name, rest @ ..] => {
                open.held_by = Some((*name).to_owned());
                rest
            }
            [times, rest @ ..] if times.starts_with('x') => {
                open.times = number(&times[1..])?;
                rest
            }
            _ => return Err(format!("`{}` is not known", rest.join(" "))),
        }
    }
}

fn object(mut words: &[&str]) -> Result<Object, String> {
    let has_line = match words {
        [rest @ .., "without", "a", "line"] => {
            words = rest;
            false
        }
        _ => true,
    };
    let times = match words {
        [rest @ .., last] if last.starts_with('x') => {
            words = rest;
            number(&last[1..])?
        }
        _ => 1,
    };
    if words.is_empty() {
        return Err("the kind of object is missing".into());
    }
    Ok(Object { kind: words.join(" "), times, has_line })
}

fn mapped(words: &[&str]) -> Result<Mapped, String> {
    let size = words.iter().position(|word| *word == "bytes").filter(|place| *place > 1);
    let size = size.ok_or("the size is missing, for example `anonymous 4096 bytes`")? - 1;
    let mut mapped =
        Mapped { kind: words[..size].join(" "), bytes: number(words[size])?, count: 1, once: false };
    for word in &words[size + 2..] {
        match word.strip_prefix('x') {
            Some(count) => mapped.count = number(count)?,
            None if *word == "once" => mapped.once = true,
            None => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(mapped)
}

fn finding(kind: Kind, words: &[&str]) -> Result<Announced, String> {
    let (amount, mut rest) = match (kind, words) {
        (Kind::DoubleFree | Kind::UnknownFree, [count, rest @ ..]) => (Amount::Frees(number(count)?), rest),
        (_, ["any", rest @ ..]) => (Amount::Any, rest),
        (_, [bytes, "bytes", blocks, "block" | "blocks", rest @ ..]) => {
            let (times, rest) = match rest {
                [times, rest @ ..] if times.starts_with('x') => (number(&times[1..])?, rest),
                _ => (1, rest),
            };
            (Amount::Exactly { bytes: number(bytes)?, blocks: number(blocks)?, times }, rest)
        }
        _ => return Err("the size is missing, for example `40 bytes 1 block`".into()),
    };
    let mut announced = Announced { kind, amount, site_unknown: false, held_by: None, child: None };
    loop {
        rest = match rest {
            [] => return Ok(announced),
            ["site", "unknown", rest @ ..] => {
                announced.site_unknown = true;
                rest
            }
            ["held", "by", name, rest @ ..] => {
                announced.held_by = Some((*name).to_owned());
                rest
            }
            ["in", "child", word, rest @ ..] => {
                announced.child = Some((*word).to_owned());
                rest
            }
            _ => return Err(format!("`{}` is not known", rest.join(" "))),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn rerun(text: &str) -> Result<Rerun, String> {
    let mut rerun = Rerun::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            _ if word.starts_with('-') => rerun.args.push(word.to_owned()),
            Some((name, value)) => rerun.variables.push((name.to_owned(), value.to_owned())),
            None => return Err(format!("`{word}` is neither NAME=VALUE nor an option")),
        }
    }
    Ok(rerun)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (bool, Marker) {
        Marker::find(line).unwrap().unwrap()
    }

    #[test]
    fn finding_beside_code() {
        let (alone, marker) = parsed("    leak(); //~ definitely_lost 4096 bytes 1 block");
        assert!(!alone);
        let amount = Amount::Exactly { bytes: 4096, blocks: 1, times: 1 };
        let announced =
            Announced { kind: Kind::DefinitelyLost, amount, site_unknown: false, held_by: None, child: None };
        assert_eq!(marker, Marker { up: 0, tests: vec![], body: Body::Finding(announced) });
    }

    #[test]
    fn everything_a_finding_can_say() {
        let (alone, marker) = parsed(
            "//~^^ [a, b c] still_reachable 8 bytes 2 blocks x30 held by pool in child b site unknown",
        );
        assert!(alone);
        assert_eq!(marker.up, 2);
        assert_eq!(marker.tests, ["a", "b c"]);
        let amount = Amount::Exactly { bytes: 8, blocks: 2, times: 30 };
        let held_by = Some("pool".to_owned());
        let child = Some("b".to_owned());
        let announced = Announced { kind: Kind::StillReachable, amount, site_unknown: true, held_by, child };
        assert_eq!(marker.body, Body::Finding(announced));
    }

    #[test]
    fn other_bodies() {
        let body = |line| parsed(line).1.body;
        assert_eq!(body("//~ outcome: signalled"), Body::Outcome("signalled".into()));
        assert_eq!(body("//~ verdict: any"), Body::Verdict("any".into()));
        assert_eq!(body("//~ findings: any"), Body::FindingsAny);
        assert_eq!(body("//~ files: 3"), Body::Files(3));
        assert_eq!(body("//~ crate exit: 3"), Body::CrateExit(3));
        assert_eq!(body("//~ crate args: -- --exact"), Body::CrateArgs(vec!["--".into(), "--exact".into()]));
        let rerun = Rerun { args: vec!["--release".into()], variables: vec![("A".into(), "1".into())] };
        assert_eq!(body("//~ crate rerun: A=1 --release"), Body::CrateRerun(rerun));
        assert_eq!(body("//~ crate not checked: doc"), Body::CrateNotChecked("doc".into()));
        let Body::Finding(double) = body("f(); //~ double_free 2") else { panic!() };
        assert_eq!((double.kind, double.amount), (Kind::DoubleFree, Amount::Frees(2)));
    }

    #[test]
    fn descriptors() {
        let open = |kind: &str, numbers, times| {
            Body::Open(Open { kind: kind.into(), numbers, times, held_by: None, once: false, has_line: true })
        };
        let body = |line| Marker::find(line).unwrap().unwrap().1.body;
        assert_eq!(body("//~ open file"), open("file", 1, 1));
        assert_eq!(body("//~ open socket 2 numbers x3"), open("socket", 2, 3));
        let Body::Open(unknown) = body("//~ open pipe 2 numbers without a line") else { panic!() };
        assert!(!unknown.has_line && unknown.numbers == 2);
        let Body::Open(held) = body("//~ open file held by holder") else { panic!() };
        assert_eq!(held.held_by.as_deref(), Some("holder"));
    }

    #[test]
    fn ipc_objects() {
        let object =
            |kind: &str, times, has_line| Body::Object(Object { kind: kind.into(), times, has_line });
        let body = |line| Marker::find(line).unwrap().unwrap().1.body;
        assert_eq!(body("//~ left shared memory"), object("shared memory", 1, true));
        assert_eq!(body("//~ left POSIX queue x3"), object("POSIX queue", 3, true));
        assert_eq!(body("//~ left semaphore set x2 without a line"), object("semaphore set", 2, false));
    }

    #[test]
    fn mappings() {
        let mapped =
            |kind: &str, bytes, count, once| Body::Mapped(Mapped { kind: kind.into(), bytes, count, once });
        let body = |line| Marker::find(line).unwrap().unwrap().1.body;
        assert_eq!(body("//~ mapped file 4096 bytes"), mapped("file", 4096, 1, false));
        assert_eq!(
            body("//~ mapped shared memory 8192 bytes x2 once"),
            mapped("shared memory", 8192, 2, true)
        );
    }

    #[test]
    fn what_is_left() {
        let left = |what, word: Option<&str>, times| {
            Body::Left(Left { what, word: word.map(str::to_owned), times, orphaned: false })
        };
        let body = |line| Marker::find(line).unwrap().unwrap().1.body;
        assert_eq!(body("//~ child running sleep x2"), left(Remains::Running, Some("sleep"), Some(2)));
        assert_eq!(body("//~ child zombie"), left(Remains::Zombie, None, Some(1)));
        assert_eq!(body("//~ thread pool any"), left(Remains::Thread, Some("pool"), None));
        let Body::Left(orphaned) = body("//~ child running x3 orphaned") else { panic!() };
        assert!(orphaned.orphaned && orphaned.times == Some(3) && orphaned.word.is_none());
        assert_eq!(body("//~ timers: 2"), Body::Timers(2));
    }

    #[test]
    fn lines_without_marker() {
        for line in ["", "let a = 1; // a comment", "a ~ b // c", "//", "!~x"] {
            assert_eq!(Marker::find(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn mistakes_are_errors() {
        for line in [
            "// ~ definitely_lost 1 bytes 1 block",
            "/// ~ definitely_lost 1 bytes 1 block",
            "/*~ definitely_lost 1 bytes 1 block */",
            "//~",
            "//~ definitely_losst 1 bytes 1 block",
            "//~ definitely_lost 1 byte 1 block",
            "//~ definitely_lost one bytes 1 block",
            "//~ definitely_lost 1 bytes",
            "//~ definitely_lost 1 bytes 1 block xy",
            "//~ definitely_lost 1 bytes 1 block site unknwon",
            "//~ double_free",
            "//~ left",
            "//~ left without a line",
            "//~ left queue xy",
            "//~ mapped",
            "//~ mapped 4096 bytes",
            "//~ mapped file 4096",
            "//~ mapped file 4096 bytes twice",
            "//~ open",
            "//~ open file 2",
            "//~ open file two numbers",
            "//~ open file xy",
            "//~ child",
            "//~ child sleep",
            "//~ thread a b",
            "//~ timers: many",
            "//~ [] definitely_lost 1 bytes 1 block",
            "//~ [a definitely_lost 1 bytes 1 block",
            "//~ verdict: leak",
            "//~ files: two",
            "//~ outcome: ok",
            "//~ crate exit: none",
            "//~ crate rerun: A",
            "//~ crat exit: 0",
            "code(); //~^ definitely_lost 1 bytes 1 block",
        ] {
            assert!(Marker::find(line).is_err(), "{line}");
        }
    }
}
