//! A program that leaks from as many places as are wanted.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use fs_err as fs;

/// Compiles a program that loses a block in each of the functions `site_0` and so on: one byte in the first, two in the
/// second.
///
/// # Errors
/// The C compiler fails.
pub fn compile(sites: usize, program: &Path) -> Result<(), String> {
    let mut source = "#include <stdlib.h>\n".to_owned();
    let mut calls = String::new();
    for site in 0..sites {
        // Writing to a string cannot fail.
        let _ = writeln!(
            source,
            "static void site_{site}(void) {{ void *volatile block = malloc({}); block = 0; }}",
            site + 1
        );
        let _ = writeln!(calls, "site_{site}();");
    }
    source += &format!("int main(void) {{\n{calls}return 0; }}\n");
    let path = program.with_extension("c");
    fs::write(&path, source).map_err(|problem| problem.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-g", "-O0", "-fno-omit-frame-pointer", "-o"]).arg(program).arg(&path);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}
