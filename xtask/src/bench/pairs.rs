//! Nanoseconds for one malloc and free, 20 frames deep, in the same C program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{Row, Table};
use super::{clang, compile, number, source};
use crate::Result;
use crate::command::{capture, find};

const NATIVE: &str = "native";
const RECORDER: &str = "cargo leakcheck";
const UPROBE: &str = "cargo leakcheck --recorder uprobe";
const AT_ENTRY: &str = "the same, probes at the functions' entries";
const BPFTRACE: &str = "bpftrace, as BCC memleak";
const VALGRIND: &str = "valgrind memcheck";
const SANITIZER: &str = "clang LeakSanitizer";

/// Measures all of them; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Table> {
    let program = folder.join("deep");
    compile("deep.c", "cc", &[], &program)?;
    let recorder = |options: &[&str], pairs: &str| -> Result<f64> {
        let mut command = Command::new(tool);
        number(command.args(["leakcheck", "exec"]).args(options).arg("--").arg(&program).arg(pairs))
    };
    let uprobe = ["--recorder", "uprobe", "--probe-at-entry"];
    let sanitized = folder.join("deep-sanitized");
    let rows = [
        Row { name: NATIVE, measure: Box::new(|| native(&program)), required: true },
        Row { name: RECORDER, measure: Box::new(|| recorder(&[], "10000000")), required: true },
        Row { name: UPROBE, measure: Box::new(|| recorder(&uprobe[..2], "300000")), required: true },
        Row { name: AT_ENTRY, measure: Box::new(|| recorder(&uprobe, "300000")), required: true },
        Row { name: BPFTRACE, measure: Box::new(|| bpftrace(&program, folder)), required: false },
        Row { name: VALGRIND, measure: Box::new(|| valgrind(&program)), required: false },
        Row {
            name: SANITIZER,
            measure: Box::new(|| {
                if !sanitized.exists() {
                    compile(
                        "deep.c",
                        clang().ok_or("clang is not installed")?,
                        &["-fsanitize=leak"],
                        &sanitized,
                    )?;
                }
                number(Command::new(&sanitized).arg("3000000"))
            }),
            required: false,
        },
    ];
    let title = "One malloc and free, 20 frames deep".to_owned();
    Ok(Table::measure(title, "ns", &rows, repeats)?
        .bar(RECORDER, SANITIZER, 0.25)
        .bar(RECORDER, VALGRIND, 0.08)
        .bar(UPROBE, AT_ENTRY, 0.6)
        .bar(UPROBE, BPFTRACE, 0.6))
}

fn native(program: &Path) -> Result<f64> {
    number(Command::new(program).arg("30000000"))
}

fn valgrind(program: &Path) -> Result<f64> {
    let valgrind = find("valgrind").ok_or("valgrind is not installed")?;
    number(
        Command::new(valgrind)
            .args(["--quiet", "--leak-check=full", "--num-callers=40"])
            .arg(program)
            .arg("100000"),
    )
}

/// The script's probes are on a copy of the C library, as this tool's are: no other process of the
/// machine pays for them.
fn bpftrace(program: &Path, folder: &Path) -> Result<f64> {
    let bpftrace = find("bpftrace").ok_or("bpftrace is not installed")?;
    let libc = folder.join("libc.so.6");
    if !libc.exists() {
        fs_err::copy(loaded_libc(program)?, &libc)?;
    }
    let script = fs_err::read_to_string(source("pairs.bt"))?.replace("LIBC", &libc.display().to_string());
    let program = format!("/usr/bin/env LD_PRELOAD={} {} 100000", libc.display(), program.display());
    number(Command::new(bpftrace).args(["-e", &script, "-c", &program]).env("BPFTRACE_MAP_KEYS_MAX", "65536"))
}

fn loaded_libc(program: &Path) -> Result<PathBuf> {
    let output = capture(Command::new("ldd").arg(program))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim().starts_with("libc.so.6 "));
    let path = line.and_then(|line| line.split_whitespace().nth(2));
    Ok(path.ok_or_else(|| format!("ldd names no libc.so.6: {text}"))?.into())
}
