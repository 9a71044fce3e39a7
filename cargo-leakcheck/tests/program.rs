//! The program itself, where nobody takes what it prints.

use std::fs::File;
use std::process::{Command, Stdio};

/// The exit code with standard output and error that cannot be written to.
fn code(argument: &str) -> Option<i32> {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-leakcheck"));
    command.args(["leakcheck", argument]).stdout(full()).stderr(full()).status().unwrap().code()
}

#[test]
fn exit_codes_do_not_depend_on_listeners() {
    assert_eq!(code("--help"), Some(0));
    assert_eq!(code("--no-such-option"), Some(11));
}
