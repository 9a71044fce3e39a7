//! Every place the attribute may stand in, in a crate with strict lints, and whether its record is in
//! this very binary.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]

use leakcheck::leak_budget;

#[leak_budget(bytes = 1)]
#[test]
fn above() {}

#[test]
#[leak_budget(bytes = 2)]
fn below() {}

#[should_panic]
#[leak_budget(bytes = 3)]
#[test]
fn panics() {
    panic!("on purpose");
}

#[test]
#[leak_budget(bytes = 4)]
fn returns_result() -> Result<(), std::fmt::Error> {
    Ok(())
}

#[leak_budget(bytes = 5)]
#[tokio::test]
async fn async_above() {
    tokio::task::yield_now().await;
}

#[tokio::test]
#[leak_budget(bytes = 6)]
async fn async_below() {
    tokio::task::yield_now().await;
}

mod nested {
    pub(super) mod r#loop {
        #[leakcheck::leak_budget(bytes = 7)]
        #[test]
        fn r#type() {}
    }

    // Names that the record's code uses mean something else here.
    mod core {}
    #[expect(dead_code, reason = "only its name matters")]
    const TEXT: u8 = 0;
    #[expect(dead_code, reason = "only its name matters")]
    const RECORD: u8 = 0;

    #[test]
    #[leakcheck::leak_budget(bytes = 8)]
    fn shadowed() {}
}

macro_rules! made {
    ($name:ident, $literal:literal, $expression:expr, $reason:expr) => {
        #[test]
        #[leak_budget(bytes = $literal, blocks = $expression, ignore = $reason)]
        fn $name() {}
    };
}
made!(made_by_macro, "9 B", 10, "for a reason");

#[leak_budget(
    bytes = "1 KiB",
    blocks = 2,
    reachable_bytes = 3_000,
    reachable_blocks = 4,
    outstanding_bytes = "5 MB",
    ignore = "ünïcode = \"quoted\", {braces}"
)]
#[test]
#[ignore = "ignored tests have budgets too"]
fn everything() {}

/// The record as its format is documented in `leakcheck-common`.
fn record(test: &str, lines: &str) -> Vec<u8> {
    let text = format!("positions::{test}\n{lines}");
    let length = u32::try_from(text.len()).expect("a short text");
    [b"LKB".as_slice(), b"1", &length.to_le_bytes(), text.as_bytes()].concat()
}

#[test]
fn each_has_its_record() {
    let binary = std::fs::read("/proc/self/exe").expect("this binary");
    for (test, lines) in [
        ("above", "bytes=1\n"),
        ("below", "bytes=2\n"),
        ("panics", "bytes=3\n"),
        ("returns_result", "bytes=4\n"),
        ("async_above", "bytes=5\n"),
        ("async_below", "bytes=6\n"),
        ("nested::r#loop::r#type", "bytes=7\n"),
        ("nested::shadowed", "bytes=8\n"),
        ("made_by_macro", "bytes=9\nblocks=10\nignore=for a reason\n"),
        (
            "everything",
            "bytes=1024\nblocks=2\nreachable_bytes=3000\nreachable_blocks=4\noutstanding_bytes=5000000\n\
             ignore=ünïcode = \"quoted\", {braces}\n",
        ),
    ] {
        let record = record(test, lines);
        assert!(binary.windows(record.len()).any(|window| window == record), "no record of {test}");
    }
}
