//! Compiles the ledger, a shared library without the standard library, so that installing the tool
//! needs the Rust compiler and a linker only.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    for input in ["ledger", "src/layout.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let variable = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join("ledger.so");
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition", "2024", "--crate-name", "leakcheck_ledger", "--crate-type", "cdylib"])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "debuginfo=0"])
        // The way to the caller's frame, and thread-local storage that never allocates.
        .args(["-C", "force-frame-pointers=yes", "-C", "strip=debuginfo", "-D", "warnings"])
        .args(["-C", "link-arg=-Wl,-soname,libleakcheck.so", "-C", "link-arg=-Wl,-z,now"])
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg("ledger/lib.rs");
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        command.arg("-C").arg(option);
    }
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} ended with {status}");
}
