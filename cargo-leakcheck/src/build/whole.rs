//! Keeps the functions by which Rust code calls its global allocator whole: where the optimizer makes one part of
//! its callers, nobody sees these calls. It has no such attribute on stable Rust, but LLVM takes one by name.

use std::path::Path;
use std::process::Command;

use cargo_config2::{Config, TargetTriple};

use crate::options::BuildOptions;

/// The functions, as `rustc` mangles their names behind that of their crate.
const FUNCTIONS: [&str; 4] =
    ["12___rust_alloc", "14___rust_dealloc", "14___rust_realloc", "19___rust_alloc_zeroed"];

/// The flags; none if the compiler's own names of these functions cannot be found out, as before Rust 1.87.
pub fn flags(options: &BuildOptions, config: &Config, target: &TargetTriple) -> Vec<String> {
    let mut command = Command::from(config.rustc());
    command.args(["--print", "target-libdir", "--target", target.triple()]);
    let output = command.current_dir(&options.directory).envs(&options.environment).output();
    let directory = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let Some(crate_name) = directory.and_then(|directory| crate_name(Path::new(directory.trim()))) else {
        return Vec::new();
    };
    let flag = |name| format!("-Cllvm-args=-force-attribute={crate_name}{name}:noinline");
    FUNCTIONS.into_iter().map(flag).collect()
}

/// The mangled name of the crate `__rustc`, which differs between compilers, out of std's library `alloc`, which
/// calls its functions.
fn crate_name(directory: &Path) -> Option<String> {
    let is_alloc = |name: &str| name.starts_with("liballoc-") && name.ends_with(".rlib");
    let mut files = std::fs::read_dir(directory).ok()?.filter_map(|file| Some(file.ok()?.path()));
    let library = files.find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_alloc))?;
    crate_name_in(&std::fs::read(library).ok()?)
}

fn crate_name_in(library: &[u8]) -> Option<String> {
    const CRATE: &[u8] = b"_7___rustc";
    let end = [CRATE, FUNCTIONS[0].as_bytes()].concat();
    let place = library.windows(end.len()).position(|bytes| bytes == end)?;
    let letters = library[..place].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let name = std::str::from_utf8(&library[place - letters..place + CRATE.len()]).ok()?;
    // The underscore in front of the name is no letter.
    name.starts_with("RNvC").then(|| format!("_{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_own_name_is_found() {
        let library =
            b"\0_RNvCsfLfy6EI15iL_7___rustc14___rust_dealloc\0_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc\0";
        assert_eq!(crate_name_in(library).as_deref(), Some("_RNvCsfLfy6EI15iL_7___rustc"));
        assert_eq!(crate_name_in(b"__rust_alloc\0"), None);
        assert_eq!(crate_name_in(b""), None);
    }
}
