use super::*;

fn parsed(line: &str) -> (bool, Marker) {
    Marker::find(line).unwrap().unwrap()
}

#[test]
fn finding_beside_code() {
    let (alone, marker) = parsed("    leak(); //~ definitely_lost 4096 bytes 1 block");
    assert!(!alone);
    let amount = Amount::Exactly { bytes: 4096, blocks: 1, times: 1 };
    let announced = Announced::new(Kind::DefinitelyLost, amount);
    assert_eq!(marker, Marker { up: 0, tests: vec![], body: Body::Finding(announced) });
}

#[test]
fn everything_a_finding_can_say() {
    let (alone, marker) = parsed(
        "//~^^ [a, b c] still_reachable 8 bytes 2 blocks x30 held by pool in child b in scope c ignored site unknown of Vec<(u8, T)>",
    );
    assert!(alone);
    assert_eq!(marker.up, 2);
    assert_eq!(marker.tests, ["a", "b c"]);
    let amount = Amount::Exactly { bytes: 8, blocks: 2, times: 30 };
    let held_by = Some("pool".to_owned());
    let child = Some("b".to_owned());
    let announced = Announced {
        kind: Kind::StillReachable,
        amount,
        site_unknown: true,
        held_by,
        child,
        scope: Some("c".into()),
        ignored: true,
        type_name: Some("Vec<(u8, T)>".into()),
    };
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
    let object = |kind: &str, times, has_line| Body::Object(Object { kind: kind.into(), times, has_line });
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
    assert_eq!(body("//~ mapped shared memory 8192 bytes x2 once"), mapped("shared memory", 8192, 2, true));
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
    let heap = Heap { peak_bytes: 7, peak_bytes_at_least: None, total_bytes: 9, total_blocks: 1 };
    assert_eq!(body("//~ heap: peak 7 bytes, 9 bytes in 1 block"), Body::Heap(heap));
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
        "//~ heap: peak 7 bytes, 9 bytes",
        "//~ heap: peak many bytes, 9 bytes in 1 block",
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
