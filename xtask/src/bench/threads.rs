//! How the ledger bears two threads at once: what a malloc and free takes each of them, against one
//! thread alone. Natively it is the C library that decides.

use std::path::Path;
use std::process::Command;

use super::table::{Row, Table};
use super::{compile, number};
use crate::Result;

const NATIVE: &str = "native";
const LEDGER: &str = "cargo leakcheck --recorder ledger";

/// Measures both; `folder` is for files.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Table> {
    let program = folder.join("deep");
    compile("deep.c", "cc", &["-pthread"], &program)?;
    let scaling = |command: &dyn Fn() -> Command, pairs: &str| -> Result<f64> {
        let with = |threads: &str| number(command().args([pairs, threads]));
        Ok(with("2")? / with("1")?)
    };
    let native = || Command::new(&program);
    let ledger = || {
        let mut command = Command::new(tool);
        command.args(["leakcheck", "exec", "--recorder", "ledger", "--"]).arg(&program);
        command
    };
    let rows = [
        Row { name: NATIVE, measure: Box::new(|| scaling(&native, "30000000")), required: true },
        Row { name: LEDGER, measure: Box::new(|| scaling(&ledger, "10000000")), required: true },
    ];
    let title = "One malloc and free, two threads at once : one thread".to_owned();
    Ok(Table::measure(title, "ratio", &rows, repeats)?.bar(LEDGER, NATIVE, 1.0))
}
