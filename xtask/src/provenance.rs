//! What the committed eBPF object was made from, and with what: `cargo-leakcheck/bpf/PROVENANCE.toml`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Result, repository};

/// What the file starts with.
const HEADER: &str = "\
# Written by `cargo xtask bpf` together with the objects; do not edit. `cargo test` compares the digests.
# Digest of the sources: of the output of `sha256sum` for the files below, in the order of their names,
# run at the root of the repository.
";

/// The sources, below the repository: files, and folders with all their Rust files.
const SOURCES: [&str; 4] =
    ["leakcheck-common/src", "leakcheck-ebpf/Cargo.lock", "leakcheck-ebpf/Cargo.toml", "leakcheck-ebpf/src"];

/// Contents of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// What it was built with.
    pub toolchain: Toolchain,
    /// SHA-256 digests.
    pub sha256: Digests,
}

/// The versions that decide about the object's bytes, as the programs tell them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// `rustc --version`.
    pub rustc: String,
    /// `bpf-linker --version`.
    pub bpf_linker: String,
    /// `llvm-config --version` of the LLVM that bpf-linker is linked with and whose llvm-strip is used.
    pub llvm: String,
}

/// Digests in hexadecimal.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// Of the sources, see the file's header.
    pub sources: String,
    /// Of `leakcheck.x86_64.o`.
    pub x86_64: String,
}

impl Digests {
    /// Of what is in the repository now.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn now() -> Result<Self> {
        Ok(Self { sources: sources()?, x86_64: sha256(&fs_err::read(object())?) })
    }
}

/// The committed object.
pub fn object() -> PathBuf {
    folder().join("leakcheck.x86_64.o")
}

/// Reads what is committed.
///
/// # Errors
/// The file is missing or damaged.
pub fn read() -> Result<Provenance> {
    Ok(toml::from_str(&fs_err::read_to_string(file())?)?)
}

/// Writes the file.
///
/// # Errors
/// It cannot be written.
pub fn write(provenance: &Provenance) -> Result<()> {
    fs_err::write(file(), format!("{HEADER}\n{}", toml::to_string(provenance)?))?;
    Ok(())
}

fn folder() -> PathBuf {
    repository().join("cargo-leakcheck/bpf")
}

fn file() -> PathBuf {
    folder().join("PROVENANCE.toml")
}

fn sources() -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut list = String::new();
    for file in files {
        let digest = sha256(&fs_err::read(repository().join(&file))?);
        list.push_str(&format!("{digest}  {}\n", file.display()));
    }
    Ok(sha256(list.as_bytes()))
}

/// Adds a file, or the Rust files in a folder; paths are relative to the repository.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let absolute = repository().join(path);
    if !absolute.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs_err::read_dir(absolute)? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        if entry.file_type()?.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_sha256sum() {
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }

    #[test]
    fn the_sources_are_those_that_the_header_names() {
        let script = "{ find leakcheck-common/src leakcheck-ebpf/src -name '*.rs'
            echo leakcheck-ebpf/Cargo.lock
            echo leakcheck-ebpf/Cargo.toml
        } | LC_ALL=C sort | xargs sha256sum | sha256sum";
        let output =
            std::process::Command::new("sh").arg("-c").arg(script).current_dir(repository()).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(output.split(' ').next().unwrap(), sources().unwrap());
    }
}
