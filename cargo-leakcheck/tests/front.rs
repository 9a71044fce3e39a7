//! Everything before the trace, on a real workspace with the real cargo. Needs no privileges.

#[path = "front/workspace.rs"]
mod workspace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_leakcheck::build::{self, build};
use cargo_leakcheck::cli::{self, Request, Surroundings};
use cargo_leakcheck::discover;
use cargo_leakcheck::model::TargetKind;
use cargo_leakcheck::options::{Action, BuildOptions};

use workspace::{Workspace, stdout};

/// One line a test that plain `cargo test` would run.
/// In nextest's order: by package, then the library, tests, and the other kinds.
const LIST: &str = "\
bundled-sys                 of_sys       default
mac                         of_macro     default
main-crate                  of_lib       default
main-crate::api             parse_one    default
main-crate::custom          custom       default
main-crate::speaks          two words    default
main-crate::bench/bench     of_bench     default
main-crate::bin/tool        of_bin       default
main-crate::example/tested  of_example   default
";

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            line.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect::<Vec<_>>().join("|")
        })
        .collect()
}

#[test]
fn list_has_every_test_of_every_kind_of_target() {
    let workspace = Workspace::new();
    let output = workspace.leakcheck(&["list"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(lines(std::str::from_utf8(&output.stdout).unwrap()), lines(LIST));
    let notes: Vec<_> = stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    let expected = "note: main-crate::custom runs as one test: its harness is not libtest, and asked by `--list` it lists no tests";
    // Of doctests, which there are none, nothing is said.
    assert_eq!(notes, [expected]);

    // Selection by package, target and name; from another directory; nothing selected.
    let selected = |arguments: &[&str]| lines(&stdout(&mut workspace.leakcheck(arguments), 0));
    assert_eq!(
        selected(&["list", "-p", "main-crate", "--test", "api", "--lib", "o"]),
        ["main-crate|of_lib|default", "main-crate::api|parse_one|default"]
    );
    assert_eq!(
        selected(&["list", "-p", "main-crate", "--lib", "--", "--ignored"]),
        ["main-crate|slow|default"]
    );
    assert_eq!(
        selected(&["list", "--workspace", "--exclude", "main-crate", "of_", "--", "--skip", "macro"]),
        ["bundled-sys|of_sys|default"]
    );
    // That no test would run has an exit code of its own.
    assert_eq!(lines(&stdout(&mut workspace.leakcheck(&["list", "nothing_is_called_so"]), 4)), [""; 0]);
    let manifest = workspace.root().join("mac/Cargo.toml");
    let mut elsewhere = workspace.leakcheck(&["list", "--manifest-path", manifest.to_str().unwrap()]);
    assert_eq!(lines(&stdout(elsewhere.current_dir("/"), 0)), ["mac|of_macro|default"]);

    // The user's own target directory is left alone.
    let entries: Vec<_> = fs::read_dir(workspace.root().join("target"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(entries.iter().all(|name| name == "leakcheck" || name == "CACHEDIR.TAG"), "{entries:?}");
}

#[test]
fn flags_are_added_to_those_of_the_configuration() {
    let workspace = Workspace::new();
    stdout(&mut workspace.leakcheck(&["list", "-p", "main-crate", "--lib"]), 0);
    assert_eq!(
        workspace.flags(),
        [
            "--cfg flag_of_config -Cdebuginfo=1 -Cforce-frame-pointers=yes -Cstrip=none -Csplit-debuginfo=off and 16 for LLVM",
            "-DOF_CONFIG -fno-omit-frame-pointer -g",
            "-fno-omit-frame-pointer -g",
        ]
    );
}

#[test]
fn flags_are_added_to_those_of_the_environment() {
    let workspace = Workspace::new();
    let mut command = workspace.leakcheck(&["list", "-p", "main-crate", "--lib"]);
    command.env("RUSTFLAGS", "--cfg flag_of_user -g").env("HOST_CFLAGS", "-O1").env("CXXFLAGS", "-O2");
    stdout(&mut command, 0);
    assert_eq!(
        workspace.flags(),
        [
            "--cfg flag_of_user -g -Cforce-frame-pointers=yes -Cstrip=none -Csplit-debuginfo=off and 16 for LLVM",
            "-DOF_CONFIG -fno-omit-frame-pointer -g",
            "-O2 -fno-omit-frame-pointer -g",
            "-O1 -fno-omit-frame-pointer -g",
        ]
    );
}

/// The environments that tests have written down, with what depends on the target directory and on
/// hashes of flags made equal.
fn seen(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let mut seen = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace("/target/leakcheck/", "/target/");
        let mut lines: Vec<_> = text.lines().map(without_hashes).collect();
        lines.sort();
        seen.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), lines);
        fs::remove_file(path).unwrap();
    }
    seen
}

/// Takes the 16 hexadecimal digits out of names like `main-crate-0123456789abcdef`.
fn without_hashes(line: &str) -> String {
    let hash = |part: &str| {
        part.len() >= 16
            && part.is_char_boundary(16)
            && part[..16].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    line.split('-').map(|part| if hash(part) { &part[16..] } else { part }).collect::<Vec<_>>().join("-")
}

fn build_options(command: &Command, workspace: &Workspace) -> BuildOptions {
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let surroundings = Surroundings {
        environment: variables.collect(),
        directory: workspace.root().to_owned(),
        executable: env!("CARGO_BIN_EXE_cargo-leakcheck").into(),
        cpus: 1,
        today: (2026, 1, 31),
    };
    match cli::parse(["cargo-leakcheck".into()], surroundings).unwrap() {
        Request::Run(options) => match options.action {
            Action::Test(build, _) => build,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Runs all tests under plain `cargo test` and then as built by us, and compares what they see.
fn compare_environments(variables: &[(&str, &str)]) {
    let workspace = Workspace::new();
    let directory = tempfile::tempdir().unwrap();
    let mut plain = workspace.command("cargo");
    plain.arg("test").env("SEEN", directory.path()).envs(variables.iter().copied());
    stdout(&mut plain, 0);
    let expected = seen(directory.path());
    let names: Vec<_> = expected.keys().map(String::as_str).collect();
    let all = ["api", "bench", "bundled_sys", "custom", "mac", "main_crate", "speaks", "tested", "tool"];
    assert_eq!(names, all.map(|name| format!("{name}.env")));

    let built = {
        let options = build_options(&plain, &workspace);
        build(&options, build::Workspace::find(&options).unwrap())
    }
    .unwrap();
    assert_eq!(built.not_checked, []);
    let libraries: Vec<_> = built.doctests.iter().map(|doctests| &*doctests.rustdoc.package).collect();
    assert_eq!(libraries, ["main-crate"]);
    // It has none of its own, and no file of this run is needed to find out.
    assert_eq!(discover::doctests::count(&built.doctests[0]), Ok(0));
    for binary in &built.binaries {
        let mut command = Command::new(&binary.path);
        command.current_dir(&binary.directory).env_clear();
        command.envs(binary.environment.iter().map(|(name, value)| (name, value)));
        stdout(&mut command, 0);
    }
    assert_eq!(seen(directory.path()), expected);

    // The whole way, as `cargo leakcheck`; the two harnesses of their own run while they are listed.
    let subcommands = tempfile::tempdir().unwrap();
    let link = subcommands.path().join("cargo-leakcheck");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cargo-leakcheck"), link).unwrap();
    let mut path = subcommands.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let whole = |arguments: &[&str]| {
        let mut command = workspace.command("cargo");
        command
            .args(arguments)
            .env("SEEN", directory.path())
            .env("PATH", &path)
            .envs(variables.iter().copied());
        stdout(&mut command, 0);
        seen(directory.path())
    };
    let ours = whole(&["leakcheck", "list", "--test", "custom", "--test", "speaks"]);
    let theirs = whole(&["test", "--test", "custom", "--test", "speaks"]);
    assert_eq!(theirs.len(), 2);
    assert_eq!(ours, theirs);
}

#[test]
fn tests_see_the_environment_that_cargo_gives() {
    compare_environments(&[]);
}

#[test]
fn tests_see_the_users_variables_and_none_of_ours() {
    compare_environments(&[
        ("RUSTFLAGS", "--cfg unused"),
        ("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}flag_of_user"),
        ("CFLAGS_x86_64-unknown-linux-gnu", "-O1"),
        ("CXXFLAGS", "-O2"),
        ("RUSTDOC", "/bin/true"),
        ("CARGO_TERM_COLOR", "always"),
        ("LD_LIBRARY_PATH", "/of/the user"),
        ("EMPTY", ""),
    ]);
}

#[test]
fn kinds_and_order_are_cargos() {
    let workspace = Workspace::new();
    let mut options = build_options(&workspace.command("cargo"), &workspace);
    options.cargo_args.extend(["-p", "main-crate"].map(OsString::from));
    let built = build(&options, build::Workspace::find(&options).unwrap()).unwrap();
    let seen: Vec<_> = built.binaries.iter().map(|binary| (binary.target.as_str(), binary.kind)).collect();
    let expected = [
        ("main_crate", TargetKind::Lib),
        ("tool", TargetKind::Bin),
        ("api", TargetKind::Test),
        ("custom", TargetKind::Test),
        ("speaks", TargetKind::Test),
        ("bench", TargetKind::Bench),
        ("tested", TargetKind::Example),
    ];
    assert_eq!(seen.into_iter().collect::<BTreeMap<_, _>>(), expected.into());
    assert_eq!(built.notes, [""; 0]);
    // What tests can start: their own binaries, the package's programs, its examples.
    let programs =
        ["tool", "examples/plain"].map(|name| options.directory.join("target/leakcheck/debug").join(name));
    for program in
        built.binaries.iter().map(|binary| binary.path.as_std_path()).chain(programs.iter().map(|it| &**it))
    {
        assert!(
            built.executables.iter().any(|path| path == program),
            "{} in {:?}",
            program.display(),
            built.executables
        );
    }
}

#[test]
fn an_explicit_target_changes_no_test() {
    let workspace = Workspace::new();
    let version = stdout(workspace.command("rustc").arg("-vV"), 0);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let listed = stdout(&mut workspace.leakcheck(&["list", "--target", host]), 0);
    assert_eq!(lines(&listed), lines(LIST));
    assert!(workspace.root().join("target/leakcheck").join(host).is_dir());
}

#[test]
fn what_differs_from_cargo_test_is_said() {
    let workspace = Workspace::new();
    workspace.write(
        ".cargo/config.toml",
        "[target.'cfg(unix)']\nrunner = ['/bin/false', 'x']\n[env]\nCFLAGS = { value = '-O3', force = true }\n",
    );
    let output = workspace.leakcheck(&["list", "-p", "mac"]).output().unwrap();
    assert_eq!(lines(std::str::from_utf8(&output.stdout).unwrap()), ["mac|of_macro|default"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("note: the runner `/bin/false` is not used"), "{stderr}");
    assert!(stderr.contains("note: cargo's configuration forces CFLAGS: "), "{stderr}");
}

#[test]
fn a_build_directory_of_the_users_is_left_alone() {
    let workspace = Workspace::new();
    workspace.write(".cargo/config.toml", "build.build-dir = 'intermediate'\n");
    let listed = stdout(&mut workspace.leakcheck(&["list", "-p", "mac"]), 0);
    assert_eq!(lines(&listed), ["mac|of_macro|default"]);
    let entries = |path: &str| -> Vec<_> {
        let entries = fs::read_dir(workspace.root().join(path)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).filter(|name| name != "CACHEDIR.TAG").collect()
    };
    assert_eq!(entries("intermediate"), ["leakcheck"]);
}

#[test]
fn the_target_directory_of_the_option_or_the_variable() {
    let workspace = Workspace::new();
    stdout(&mut workspace.leakcheck(&["list", "-p", "mac", "--target-dir", "by option"]), 0);
    assert!(workspace.root().join("by option/leakcheck/debug").is_dir());
    stdout(workspace.leakcheck(&["list", "-p", "mac"]).env("CARGO_TARGET_DIR", "by variable"), 0);
    assert!(workspace.root().join("by variable/leakcheck/debug").is_dir());
    assert!(!workspace.root().join("target").exists());
}

#[test]
fn a_failed_build_shows_the_compilers_words_and_a_command_to_paste() {
    let workspace = Workspace::new();
    workspace.write("mac/src/lib.rs", "#[test] fn broken() { let x: u8 = \"text\"; }");
    let output = workspace.leakcheck(&["list", "-p", "mac"]).output().unwrap();
    assert_eq!(output.status.code(), Some(12));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("mismatched types"), "{stderr}");
    let line = stderr.lines().rfind(|line| line.starts_with("error: the build failed: `")).unwrap();
    let pasted = line.split('`').nth(1).unwrap();
    let again = workspace.command("bash").arg("-c").arg(pasted).output().unwrap();
    assert_eq!(again.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&again.stderr).contains("mismatched types"));
}

#[test]
fn what_cannot_be_done_is_an_error_of_the_tool() {
    let workspace = Workspace::new();
    for arguments in
        [&["--no-such-option"][..], &["--timeout", "never"], &["list", "--config", "build.rustflags='-g'"]]
    {
        let output = workspace.leakcheck(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(11), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: ") && !stderr.starts_with("error: error"), "{stderr}");
    }
    let output = workspace.leakcheck(&["list"]).env("CARGO", "/nowhere/cargo").output().unwrap();
    assert_eq!(output.status.code(), Some(11));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/cargo"));
    for flag in ["--help", "--version"] {
        assert!(!stdout(&mut workspace.leakcheck(&[flag]), 0).is_empty());
    }
}
