//! Time of whole runs of the tests of real crates that allocate, everything built before.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::suite::{self, FORK, LEAKCHECK, NEXTEST};
use super::table::Table;
use crate::Result;
use crate::command::{capture, cargo};

/// The crates, and the versions of them that are measured.
pub const CRATES: [(&str, &str); 5] = [
    ("indexmap", "2.14.2"),
    ("petgraph", "0.8.3"),
    ("serde_json", "1.0.154"),
    ("winnow", "1.0.5"),
    ("bytes", "1.12.2"),
];

/// Measures all of them; `folder` is for their sources.
pub fn measure(tool: &Path, folder: &Path, repeats: usize) -> Result<Vec<Table>> {
    let tables = CRATES.into_iter().map(|(name, version)| {
        let root = unpack(name, version, folder)?;
        let title = format!("A whole run of the tests of {name} {version}");
        // Two of the thousand tests of bytes take seconds each: a whole run shows these, and not what a short test costs.
        let short: &[&str] = match name {
            "bytes" => &["--skip", "advance_bytes_mut_remaining_capacity", "--skip", "stress"],
            _ => &[],
        };
        let table = suite::compare(tool, &root, title, short, repeats)?.bar(LEAKCHECK, NEXTEST, 1.3);
        Ok(match name {
            // Too few tests for what starting a run takes to be little.
            "serde_json" => table,
            "bytes" => table.bar(FORK, NEXTEST, 0.6),
            _ => table.bar(FORK, NEXTEST, 0.8),
        })
    });
    tables.collect()
}

/// Copies a crate from cargo's registry; its folder.
///
/// # Errors
/// Cargo cannot get it, or it cannot be copied.
pub fn unpack(name: &str, version: &str, folder: &Path) -> Result<PathBuf> {
    let asks = folder.join(format!("asks-{name}"));
    fs_err::create_dir_all(asks.join("src"))?;
    fs_err::write(asks.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"asks\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n"
    );
    fs_err::write(asks.join("Cargo.toml"), manifest)?;
    let output =
        capture(suite::clean(&mut cargo()).args(["metadata", "--format-version=1"]).current_dir(&asks))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end = format!("/{name}-{version}/Cargo.toml\"");
    let found = text.split("\"manifest_path\":\"").find_map(|rest| {
        let path = rest.split_inclusive('"').next().filter(|path| path.ends_with(&end))?;
        Some(Path::new(&path[..path.len() - 1]).parent()?.to_owned())
    });
    let source = found.ok_or_else(|| format!("cargo metadata does not tell where {name} {version} is"))?;
    let root = folder.join(name);
    capture(Command::new("cp").args(["-r", "--no-preserve=mode"]).arg(source).arg(&root))?;
    let manifest = root.join("Cargo.toml");
    let text = fs_err::read_to_string(&manifest)?;
    // It is no member of whatever is above.
    fs_err::write(&manifest, format!("{text}\n[workspace]\n"))?;
    Ok(root)
}
