//! The README's screen and its code, with the tool on the real kernel.

use fs_err as fs;
use leakcheck_tests::document::{blocks, without_times};
use leakcheck_tests::tool::{Workshop, repository};

/// The fenced block of the README that follows a line.
fn block(before: &str) -> String {
    blocks("README.md", before).into_iter().next().expect("the README has the line")
}

#[test]
fn the_screen_is_what_the_example_shows() {
    let workshop = Workshop::open().unwrap();
    let manifest = repository().join("examples/leaky/Cargo.toml");
    let target = workshop.path().join("target");
    let arguments =
        ["--jobs", "1", "--locked", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
    let run = workshop.run(&arguments, &[]).unwrap();
    run.expect(2, &[]).unwrap();
    let (screen, shown) = (without_times(&run.stderr), without_times(&block("$ cargo leakcheck")));
    assert!(shown.contains("LEAK") && screen.contains(&shown), "{shown}\n--- is not in\n{screen}");
}

#[test]
fn the_budgets_of_the_code_are_read_and_kept() {
    let workshop = Workshop::open().unwrap();
    let root = workshop.path().join("readme");
    fs::create_dir_all(root.join("tests")).unwrap();
    fs::write(root.join("tests/code.rs"), block("```rust")).unwrap();
    let manifest = format!(
        "[package]\nname = \"readme\"\nedition = \"2024\"\n\n[[test]]\nname = \"code\"\n\n\
         [dev-dependencies]\nleakcheck = {{ path = \"{}\" }}\n\n[workspace]\n",
        repository().join("leakcheck")
    );
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    // The versions that are known to be there.
    fs::copy(repository().join("examples/leaky/Cargo.lock"), root.join("Cargo.lock")).unwrap();
    let manifest = root.join("Cargo.toml");
    let run = workshop.run(&["--manifest-path", manifest.as_str()], &[]).unwrap();
    run.expect(0, &["2 tests run: 1 clean, 1 not checked"]).unwrap();
}

#[test]
fn the_continuous_integration_runs_the_test_command() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let command = readme.lines().find(|line| line.starts_with("cargo test")).unwrap();
    let script = fs::read_to_string(repository().join(".ci/run")).unwrap();
    assert!(script.lines().any(|line| line.starts_with(&format!("{command} "))), "{command}\n{script}");
}
