//! What `cargo leakcheck list` prints.

use std::io::{self, Write};

use crate::model::{Budget, PlannedTest};

/// Writes one line a test: `package::target  name  budget`, in columns.
///
/// # Errors
/// Those of the writer.
pub fn print(tests: &[PlannedTest], out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<_> = tests
        .iter()
        .map(|test| (test.binary.id(), one_line(test.name.as_str()), budget(&test.budget)))
        .collect();
    let width = |column: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0)
    };
    let (ids, names) = (width(|row| &row.0), width(|row| &row.1));
    for (id, name, budget) in &rows {
        writeln!(out, "{id:ids$}  {name:names$}  {budget}")?;
    }
    Ok(())
}

fn budget(budget: &Budget) -> String {
    let Budget {
        bytes,
        blocks,
        reachable_bytes,
        reachable_blocks,
        outstanding_bytes,
        fds,
        kernel_bytes,
        ipc,
        children,
        threads,
        mapped_bytes,
        iterations,
        warmup,
        bytes_per_iteration,
        peak_bytes,
        total_blocks,
        ignore,
    } = budget;
    let limits = [
        ("bytes", bytes),
        ("blocks", blocks),
        ("reachable_bytes", reachable_bytes),
        ("reachable_blocks", reachable_blocks),
        ("outstanding_bytes", outstanding_bytes),
        ("fds", fds),
        ("kernel_bytes", kernel_bytes),
        ("ipc", ipc),
        ("children", children),
        ("threads", threads),
        ("mapped_bytes", mapped_bytes),
        ("iterations", iterations),
        ("warmup", warmup),
        ("bytes_per_iteration", bytes_per_iteration),
        ("peak_bytes", peak_bytes),
        ("total_blocks", total_blocks),
    ];
    let mut words: Vec<_> =
        limits.iter().filter_map(|(name, limit)| limit.map(|limit| format!("{name}={limit}"))).collect();
    words.extend(ignore.as_ref().map(|reason| format!("ignore={reason:?}")));
    if words.is_empty() { "default".to_owned() } else { words.join(" ") }
}

/// Control characters in a name must not break the lines.
fn one_line(name: &str) -> String {
    if name.chars().any(char::is_control) { name.escape_debug().to_string() } else { name.to_owned() }
}
