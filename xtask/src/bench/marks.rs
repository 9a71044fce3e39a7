//! What the calls of the crate `leakcheck` take that nobody traces, against a block that is allocated and freed.

use std::process::Command;

use super::number;
use super::table::{Row, Table};
use crate::command::{cargo, run as must};
use crate::{Result, repository};

const BLOCK: &str = "a Box, made and dropped";
const IGNORE: &str = "leakcheck::ignore";
const SCOPE: &str = "leakcheck::scope with a limit, left again";

/// Measures them.
pub fn measure(repeats: usize) -> Result<Table> {
    let build = ["build", "--release", "--package", "leakcheck", "--example", "cost"];
    must(cargo().args(build).current_dir(repository()))?;
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2).ok_or("this program is in no target directory")?;
    let program = target.join("release/examples/cost");
    let cost = |what: &str| number(Command::new(&program).args([what, "200000000"]));
    let rows = [
        Row { name: BLOCK, measure: Box::new(|| cost("block")), required: true },
        Row { name: IGNORE, measure: Box::new(|| cost("ignore")), required: true },
        Row { name: SCOPE, measure: Box::new(|| cost("scope")), required: true },
    ];
    let table = Table::measure("One call that nobody traces".to_owned(), "ns", &rows, repeats)?;
    Ok(table.bar(IGNORE, BLOCK, 0.25).bar(SCOPE, BLOCK, 0.5))
}
