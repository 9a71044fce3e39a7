//! The leak check at a process's exit: its time, its memory, and how both grow with the heap.
//!
//! Both checks are timed where they run. LeakSanitizer's is called by the program, which looks at
//! the clock before and after; this tool says with `--timings` how long it has looked at the process while that was
//! kept at its exit, and how long it has thought about it since. Neither includes the end of the process. Memory is
//! the tool's peak less that of a run with one block.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{Row, Table};
use super::{clang, compile, number};
use crate::Result;
use crate::command::capture;

const SANITIZER: &str = "clang LeakSanitizer";
const LEAKCHECK: &str = "cargo leakcheck";
const RECORDS: &str = "records of the live blocks, 64 B each";
const KILO: [&str; 4] = ["10^4 blocks", "10^5 blocks", "10^6 blocks", "10^7 blocks"];
/// Numbers of blocks and their sizes in bytes.
const HEAPS: [(u64, u64); 2] = [(1_000_000, 1024), (10_000_000, 64)];

/// Measures all of it; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let program = folder.join("heap");
    compile("heap.c", "cc", &[], &program)?;
    let check = |blocks: u64, size: u64| leakcheck(tool, &program, blocks, size);
    let mut tables = Vec::new();
    for (blocks, size) in HEAPS {
        let sanitized = || sanitizer(folder, blocks, size);
        let ours = || Ok(check(blocks, size)?.milliseconds);
        let rows = [
            Row { name: SANITIZER, measure: Box::new(sanitized), required: false },
            Row { name: LEAKCHECK, measure: Box::new(ours), required: true },
        ];
        let title = format!("Leak check at exit, {blocks} blocks of {size} B");
        tables.push(Table::measure(title, "ms", &rows, repeats)?.bar(LEAKCHECK, SANITIZER, 0.8));

        let extra = || Ok(check(blocks, size)?.peak_mib - check(1, size)?.peak_mib);
        let rows = [
            Row { name: RECORDS, measure: Box::new(|| Ok((blocks * 64) as f64 / MIB)), required: true },
            Row { name: LEAKCHECK, measure: Box::new(extra), required: true },
        ];
        let title = format!("Peak memory of the tool for {blocks} blocks of {size} B");
        tables.push(Table::measure(title, "MiB", &rows, 1)?.bar(LEAKCHECK, RECORDS, 1.5));
    }
    let rows = std::array::from_fn::<_, 4, _>(|power| Row {
        name: KILO[power],
        measure: Box::new(move || Ok(check(10_u64.pow(4 + power as u32), 64)?.milliseconds)),
        required: true,
    });
    let table = Table::measure("Leak check at exit, blocks of 64 B".into(), "ms", &rows, repeats)?;
    // Linear is 10, and more where the heap outgrows a cache; quadratic would be 100.
    tables.push(KILO.windows(2).fold(table, |table, pair| table.bar(pair[1], pair[0], 20.0)));
    Ok(tables)
}

const MIB: f64 = 1024.0 * 1024.0;

/// What the tool says of one run.
struct Check {
    milliseconds: f64,
    peak_mib: f64,
}

fn leakcheck(tool: &Path, program: &Path, blocks: u64, size: u64) -> Result<Check> {
    let mut command = Command::new(tool);
    command.args(["leakcheck", "exec", "--timings", "--"]).arg(program);
    let output = capture(command.args([blocks, size].map(|number| number.to_string())))?;
    let text = String::from_utf8_lossy(&output.stderr);
    timings(&text).ok_or_else(|| format!("no timings in the output of {command:?}: {text}").into())
}

/// `leak check: 1 us to harvest, 2 us to classify, peak memory 3 kB`.
fn timings(text: &str) -> Option<Check> {
    let line = text.lines().find(|line| line.starts_with("leak check: "))?;
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [harvest, classify, peak] = numbers[..] else { return None };
    Some(Check { milliseconds: (harvest + classify) / 1000.0, peak_mib: peak / 1024.0 })
}

fn sanitizer(folder: &Path, blocks: u64, size: u64) -> Result<f64> {
    let program: PathBuf = folder.join("heap-sanitized");
    if !program.exists() {
        compile("heap.c", clang().ok_or("clang is not installed")?, &["-fsanitize=leak"], &program)?;
    }
    Ok(number(Command::new(program).args([blocks, size].map(|number| number.to_string())))? / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_read() {
        let text = "note: x\nleak check: 1500 us to harvest, 500 us to classify, peak memory 2048 kB\n";
        let check = timings(text).unwrap();
        assert_eq!((check.milliseconds, check.peak_mib), (2.0, 2.0));
        assert!(timings("leak check: nothing").is_none());
    }
}
