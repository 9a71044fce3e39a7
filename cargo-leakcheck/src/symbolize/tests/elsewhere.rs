//! Debug information that is not in the module, or not of it.

use super::*;

const FLAGS: [&str; 3] = ["rustc", "--edition=2024", "-Cforce-frame-pointers=yes"];

/// Function and line of the outer frame.
fn outer(program: &Program) -> (String, Option<u32>) {
    let frames = program.frames();
    let frame = frames.last().unwrap();
    (frame.function.clone().unwrap(), frame.line)
}

/// Moves the debug information to a file of its own, which the binary names.
fn separate(program: &Program, strip: &str) -> Utf8PathBuf {
    let debug = Utf8PathBuf::from(format!("{}.debug", program.binary));
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&program.binary).arg(&debug));
    run(Command::new("strip").arg(strip).arg(&program.binary));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={debug}")).arg(&program.binary));
    debug
}

#[test]
fn packed_beside_the_program() {
    let program =
        Program::compile("program.rs", RUST, &[&FLAGS[..], &["-g", "-Csplit-debuginfo=packed"]].concat());
    assert!(Utf8Path::new(&format!("{}.dwp", program.binary)).exists());
    assert_eq!(outer(&program), ("program::inner::generic".to_owned(), Some(program.line("outer"))));
}

#[test]
fn unpacked_leaves_the_names() {
    let program =
        Program::compile("program.rs", RUST, &[&FLAGS[..], &["-g", "-Csplit-debuginfo=unpacked"]].concat());
    assert_eq!(outer(&program).0, "program::inner::generic");
}

#[test]
fn linked_from_a_stripped_program() {
    let program = Program::compile("program.rs", RUST, &[&FLAGS[..], &["-g"]].concat());
    separate(&program, "--strip-all");
    assert_eq!(outer(&program), ("program::inner::generic".to_owned(), Some(program.line("outer"))));
}

#[test]
fn of_another_build_is_not_believed_and_costs_no_names() {
    let program = Program::compile("program.rs", RUST, &[&FLAGS[..], &["-g"]].concat());
    let debug = separate(&program, "--strip-debug");
    fs::OpenOptions::new()
        .append(true)
        .open(debug)
        .map(|mut file| std::io::Write::write_all(&mut file, b"x"))
        .unwrap()
        .unwrap();
    assert_eq!(outer(&program), ("program::inner::generic".to_owned(), None));
}
