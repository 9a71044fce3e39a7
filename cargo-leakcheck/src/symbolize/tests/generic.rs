//! What generic functions are called with.

use super::super::generics::Generics;
use super::{Program, RUST};

/// Legacy mangling has only the names of parameters; what they are, the debug information says.
#[test]
fn parameters_of_legacy_names_are_looked_up() {
    let text = RUST.replace("1_u64", "(1_u64, [2_u8; 3])");
    for more in [&["-g"][..], &["-O", "-Cdebuginfo=1"]] {
        let flags = ["rustc", "--edition=2024", "-Cforce-frame-pointers=yes"];
        let program = Program::compile("program.rs", &text, &[&flags, more].concat());
        let frames = program.frames();
        let names = Generics::open(program.binary.as_str()).at(frames[0].address - 1);
        assert_eq!(names, ["inlined", "generic<(u64, [u8; 3])>"], "{more:?}");
    }
    assert!(Generics::open("/dev/null").at(1).is_empty());
}
