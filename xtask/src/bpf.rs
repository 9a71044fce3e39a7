//! Rebuilds the eBPF object. The bytes depend on the sources and the toolchain only, not on where the
//! repository or cargo's home is: paths are remapped, and what is built is built from nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{capture, cargo, find, first_line, run};
use crate::provenance::{self, Digests, Provenance, Toolchain};
use crate::{Result, repository};

/// The version that bpf-linker must have; it decides about bytes.
const LINKER: &str = "0.13.0";
const TARGET: &str = "bpfel-unknown-none";

/// How to get the toolchain.
const INSTALL: &str = "\
on Debian 12:
  apt-get install --no-install-recommends rustc-web libstd-rust-web-dev-bpf llvm-22-dev libpolly-22-dev zlib1g-dev libzstd-dev
  LLVM_PREFIX=/usr/lib/llvm-22 LLVM_SYS_221_PREFIX=/usr/lib/llvm-22 \\
    cargo install bpf-linker --version 0.13.0 --no-default-features --features llvm-22
`BPF_RUSTC` and `BPF_LLVM` name another compiler and another LLVM folder";

/// Replaces the committed object and writes down what it was made from.
///
/// # Errors
/// The toolchain is missing, or the build fails.
pub fn rebuild() -> Result<()> {
    let tools = Tools::find()?;
    let toolchain = tools.versions()?;
    fs_err::write(provenance::object(), tools.build()?)?;
    let provenance = Provenance { toolchain, sha256: Digests::now()? };
    provenance::write(&provenance)?;
    eprintln!("{} is now {}", provenance::object().display(), provenance.sha256.x86_64);
    Ok(())
}

/// Compares the committed object with a fresh build.
///
/// # Errors
/// They differ, or the toolchain is missing, or the build fails.
pub fn check() -> Result<()> {
    let tools = Tools::find()?;
    let (recorded, found) = (provenance::read()?.toolchain, tools.versions()?);
    let committed = fs_err::read(provenance::object())?;
    let same = committed == tools.build()?;
    match (same, recorded == found) {
        (true, true) => eprintln!("the object is what the sources and the toolchain make"),
        (true, false) => {
            eprintln!(
                "note: toolchain moved, but the bytes are the same\n  recorded: {recorded:?}\n  found:    {found:?}"
            );
        }
        (false, false) => {
            return Err(format!(
                "toolchain moved: the object cannot be compared. Rebuild it with `cargo xtask bpf` and review, or \
                 install what was recorded\n  recorded: {recorded:?}\n  found:    {found:?}"
            )
            .into());
        }
        (false, true) => {
            return Err(
                "object differs: the same toolchain makes other bytes from these sources. Rebuild it with \
                        `cargo xtask bpf` and commit it together with them"
                    .into(),
            );
        }
    }
    Ok(())
}

/// Where the toolchain is.
struct Tools {
    rustc: PathBuf,
    linker: PathBuf,
    llvm: PathBuf,
}

impl Tools {
    fn find() -> Result<Self> {
        let variable = |name: &str, default: &str| {
            std::env::var_os(name).map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        let rustc = variable("BPF_RUSTC", "/usr/bin/rustc");
        let llvm = variable("BPF_LLVM", "/usr/lib/llvm-22");
        let library = first_line(Command::new(&rustc).args(["--print", "target-libdir", "--target", TARGET]))
            .map_err(|error| format!("{error}\n{INSTALL}"))?;
        if !Path::new(&library).exists() {
            return Err(format!("{} has no standard library for {TARGET}; {INSTALL}", rustc.display()).into());
        }
        let linker = find("bpf-linker").ok_or_else(|| format!("bpf-linker is not in PATH; {INSTALL}"))?;
        Ok(Self { rustc, linker, llvm })
    }

    fn versions(&self) -> Result<Toolchain> {
        let version = |program: &Path| first_line(Command::new(program).arg("--version"));
        let toolchain = Toolchain {
            rustc: version(&self.rustc)?,
            bpf_linker: version(&self.linker)?,
            llvm: version(&self.llvm.join("bin/llvm-config"))
                .map_err(|error| format!("{error}\n{INSTALL}"))?,
        };
        if toolchain.bpf_linker != format!("bpf-linker {LINKER}") {
            eprintln!("note: {} is not the version {LINKER} that is expected", toolchain.bpf_linker);
        }
        Ok(toolchain)
    }

    /// The bytes of a fresh object.
    fn build(&self) -> Result<Vec<u8>> {
        let target = tempfile::tempdir()?;
        let home = cargo_home()?;
        let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        let flags = [
            "--cfg=bpf_target_arch=\"x86_64\"".to_owned(),
            format!("-Clinker={}", self.linker.display()),
            "-Clink-arg=--btf".into(),
            "-Ctarget-cpu=v3".into(),
            // The last that fits wins: cargo's home may be inside the repository.
            remap(repository(), "/leakcheck"),
            remap(&home, "/cargo"),
        ];
        let mut command = cargo();
        command
            .args(["build", "--release", "--locked", "--target", TARGET])
            .current_dir(repository().join("leakcheck-ebpf"))
            // core's atomic intrinsics are unstable; a released compiler is taken all the same, as it is
            // one that stays the same.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &self.rustc)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .env("CARGO_TARGET_DIR", target.path())
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env_remove("RUSTUP_TOOLCHAIN");
        run(&mut command)?;
        let built = target.path().join(TARGET).join("release/leakcheck");
        let stripped = target.path().join("stripped.o");
        // Without DWARF, which holds paths and is not read by anyone; BTF stays.
        capture(
            Command::new(self.llvm.join("bin/llvm-strip")).arg("-g").arg("-o").args([&stripped, &built]),
        )?;
        Ok(fs_err::read(stripped)?)
    }
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cargo"))
}
