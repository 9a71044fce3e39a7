// Outside of test builds nothing is left: an orphan static would need an unknown lint to be silent.
#![forbid(unsafe_code, dead_code, missing_docs, non_upper_case_globals)]
#![deny(warnings)]
//! Docs.

#[leakcheck::leak_budget(bytes = 0)]
#[test]
fn above() {}

#[test]
#[leakcheck::leak_budget(bytes = 0)]
fn below() {}

fn main() {
    let program = std::fs::read("/proc/self/exe").unwrap();
    let needle = ["leakcheck", "budget"].join("_");
    assert!(!program.windows(needle.len()).any(|window| window == needle.as_bytes()));
}
