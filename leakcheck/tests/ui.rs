//! What the compiler says to right and to wrong uses of the attribute.

#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
