//! A workspace with one of each: kinds of targets, harnesses, sources of flags and variables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes the test's whole environment to a file in `$SEEN`, one `NAME=value` a line.
const SEE: &str = r#"
#[allow(dead_code)]
fn see() {
    let Some(directory) = std::env::var_os("SEEN") else { return };
    let target = concat!(env!("CARGO_CRATE_NAME"), ".env");
    let mut lines: Vec<_> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    lines.push(format!("(directory)={}", std::env::current_dir().unwrap().display()));
    std::fs::write(std::path::Path::new(&directory).join(target), lines.join("\n")).unwrap();
}
"#;

const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", "[workspace]\nmembers = ['main crate', 'mac', 'bundled-sys']\nresolver = '3'\n"),
    (
        ".cargo/config.toml",
        r#"
        [build]
        rustflags = ["--cfg", "flag_of_config"]
        [env]
        OF_CONFIG = "a value"
        CFLAGS = "-DOF_CONFIG"
        RELATIVE = { value = "here", relative = true }
        "#,
    ),
    (
        "main crate/Cargo.toml",
        r#"
        package = { name = "main-crate", version = "0.1.0", edition = "2024" }
        dependencies = { mac = { path = "../mac" } }
        [[test]]
        name = "custom"
        harness = false
        [[test]]
        name = "speaks"
        harness = false
        [[example]]
        name = "tested"
        test = true
        [[bench]]
        name = "bench"
        test = true
        [lints.rust]
        unexpected_cfgs = "allow"
        "#,
    ),
    (
        "main crate/build.rs",
        r#"
        fn main() {
            println!("cargo::rustc-env=OF_BUILD=a value");
            println!("cargo::rerun-if-changed=build.rs");
            let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
            let value = |name| std::env::var(name).unwrap_or_default().replace('\x1f', " ");
            let flags = ["CARGO_ENCODED_RUSTFLAGS", "CFLAGS", "CXXFLAGS", "HOST_CFLAGS"].map(value);
            std::fs::write(out.join("flags"), flags.join("\n")).unwrap();
            std::fs::write(out.join("generated.rs"), "7").unwrap();
        }
        "#,
    ),
    (
        "main crate/src/lib.rs",
        r#"
        pub const GENERATED: u32 = include!(concat!(env!("OUT_DIR"), "/generated.rs"));
        pub const CONFIG: bool = cfg!(flag_of_config);
        pub const USER: bool = cfg!(flag_of_user);
        #[test] fn of_lib() { see(); assert!(cfg!(flag_of_config) || cfg!(flag_of_user)); }
        #[test] #[ignore] fn slow() {}
        "#,
    ),
    ("main crate/src/bin/tool.rs", "fn main() {}\n#[test] fn of_bin() { see() }"),
    (
        "main crate/tests/api.rs",
        r#"#[test] fn parse_one() { see(); assert_eq!(env!("OF_BUILD"), "a value"); assert_eq!(main_crate::GENERATED, 7) }"#,
    ),
    ("main crate/tests/custom.rs", r#"fn main() { see(); println!("hello"); }"#),
    (
        "main crate/tests/speaks.rs",
        r#"
        fn main() {
            let arguments: Vec<_> = std::env::args().collect();
            if arguments.contains(&"--list".into()) {
                println!("starting");
                if !arguments.contains(&"--ignored".into()) { println!("two words: test"); }
            }
            see();
        }
        "#,
    ),
    ("main crate/examples/tested.rs", "fn main() {}\n#[test] fn of_example() { see() }"),
    ("main crate/examples/plain.rs", "fn main() {}\n#[test] fn never() { see() }"),
    ("main crate/benches/bench.rs", "#[test] fn of_bench() { see() }"),
    (
        "mac/Cargo.toml",
        "package = { name = 'mac', version = '0.1.0', edition = '2024' }\nlib = { proc-macro = true, doctest = false }\n",
    ),
    (
        "mac/src/lib.rs",
        "#[proc_macro] pub fn nothing(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream { tokens }\n\
         #[test] fn of_macro() { see() }",
    ),
    (
        "bundled-sys/Cargo.toml",
        "package = { name = 'bundled-sys', version = '0.1.0', edition = '2024' }\nlib = { doctest = false }\n",
    ),
    // A shared library that only cargo's loader path finds.
    (
        "bundled-sys/build.rs",
        r#"
        use std::process::Command;
        fn main() {
            let out = std::env::var("OUT_DIR").unwrap();
            let source = format!("{out}/bundled.c");
            std::fs::write(&source, "int bundled(void) { return 7; }\n").unwrap();
            let library = format!("{out}/libbundled.so");
            assert!(Command::new("cc").args(["-shared", "-o", &library, &source]).status().unwrap().success());
            println!("cargo::rustc-link-search=native={out}\ncargo::rustc-link-lib=dylib=bundled");
        }
        "#,
    ),
    (
        "bundled-sys/src/lib.rs",
        "unsafe extern \"C\" { fn bundled() -> i32; }\n#[test] fn of_sys() { see(); assert_eq!(unsafe { bundled() }, 7) }",
    ),
];

/// The workspace in a directory of its own, whose path has a space.
pub struct Workspace {
    directory: tempfile::TempDir,
}

impl Workspace {
    pub fn new() -> Self {
        let workspace = Self { directory: tempfile::Builder::new().prefix("with space ").tempdir().unwrap() };
        for (path, text) in FILES {
            let needs_see = text.contains("see()");
            workspace.write(path, &if needs_see { format!("{text}\n{SEE}") } else { (*text).to_owned() });
        }
        workspace
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A command in the workspace, in an environment without what the outer cargo has set.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root()).env_clear();
        for (name, value) in std::env::vars_os() {
            let keep = ["HOME", "PATH", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
            if keep.iter().any(|kept| name == *kept) {
                command.env(name, value);
            }
        }
        command
    }

    pub fn leakcheck(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_cargo-leakcheck"));
        command.arg("leakcheck").args(arguments);
        command
    }

    /// What the build script of the main crate was given, by variable.
    pub fn flags(&self) -> Vec<String> {
        let build = self.root().join("target/leakcheck/debug/build");
        let mut found: Vec<PathBuf> =
            fs::read_dir(build).unwrap().map(|entry| entry.unwrap().path().join("out/flags")).collect();
        found.retain(|path| path.exists());
        assert_eq!(found.len(), 1, "{found:?}");
        let text = fs::read_to_string(&found[0]).unwrap();
        // Those for LLVM have a number of the compiler's in them: they count.
        let line = |line: &str| {
            let (llvm, rest): (Vec<&str>, _) =
                line.split(' ').partition(|flag| flag.starts_with("-Cllvm-args="));
            match llvm.len() {
                0 => rest.join(" "),
                number => format!("{} and {number} for LLVM", rest.join(" ")),
            }
        };
        text.lines().map(line).collect()
    }
}

/// Standard output, and a panic with everything unless the exit code is the expected one.
pub fn stdout(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(code), "{command:?}\n{stdout}\n{stderr}");
    stdout
}
