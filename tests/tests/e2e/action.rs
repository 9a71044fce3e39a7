//! The GitHub action: its shell steps, run here as its runner would, by a user who may use sudo.

use std::process::{Command, Stdio};

use camino::Utf8Path;
use fs_err as fs;
use leakcheck_tests::tool::{Run, Workshop, repository};
use leakcheck_tests::user::{Sudo, User};

use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[("action::finds_the_leak_of_the_example", finds_the_leak_of_the_example)];

/// The shell script of a step of `action.yml`.
fn step(name: &str) -> Result<String, String> {
    let action =
        fs::read_to_string(repository().join("action.yml")).map_err(|problem| problem.to_string())?;
    let start = format!("    - name: {name}\n");
    let step = action.split_once(&start).ok_or_else(|| format!("no step `{name}`"))?.1;
    let step = step.split("\n    - name: ").next().unwrap_or(step);
    let script = step.split_once("      run: |\n").ok_or_else(|| format!("`{name}` has no script"))?.1;
    let lines = script.lines().take_while(|line| line.is_empty() || line.starts_with("        "));
    Ok(lines.map(|line| line.trim_start_matches("        ").to_owned() + "\n").collect())
}

/// Runs it; standard output and error are one, as in a step's log.
fn run(user: &User, name: &str, directory: &Utf8Path, variables: &[(&str, &str)]) -> Result<Run, String> {
    let script = format!("{}.sh", name.to_lowercase());
    user.write(&script, &step(name)?)?;
    let mut command = user.command("bash");
    command.args(["--noprofile", "--norc", "-e", "-o", "pipefail"]).arg(user.home().join(script));
    let path = format!("{}:{}", user.home().join("bin"), user.path());
    command.env("PATH", path).envs(variables.iter().copied()).current_dir(directory);
    let output = command.stdin(Stdio::null()).output().map_err(|problem| problem.to_string())?;
    Ok(Run::new(format!("{command:?}"), output))
}

fn finds_the_leak_of_the_example(workshop: &Workshop) -> Outcome {
    let failed = |problem: std::io::Error| problem.to_string();
    let user = User::new(workshop, "action", Sudo::Free)?;
    let home = user.home();
    // The example without its dependency: the registry is not there.
    let example = repository().join("examples/leaky");
    let library = fs::read_to_string(example.join("src/lib.rs")).map_err(failed)?;
    let library: String = library
        .lines()
        .filter(|line| !line.contains("leak_budget"))
        .fold(String::new(), |text, line| text + line + "\n");
    user.write("repository/part/src/lib.rs", &library)?;
    user.write("repository/part/Cargo.toml", "[package]\nname = \"leaky\"\nedition = \"2024\"\n")?;
    for file in ["output", "summary"] {
        user.write(file, "")?;
    }
    user.write("bin/.here", "")?;
    let tool = home.join("bin/cargo-leakcheck");
    let copied = Command::new("install").args(["-m", "755"]).args([workshop.tool()?, &tool]).status();
    if !copied.is_ok_and(|status| status.success()) {
        return Err("the tool cannot be copied".into());
    }
    let (workspace, output, summary) = (home.join("repository"), home.join("output"), home.join("summary"));
    let (reports, part) = (home.join("reports"), workspace.join("part"));
    let variables = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_WORKSPACE", workspace.as_str()),
        ("GITHUB_OUTPUT", output.as_str()),
        ("GITHUB_STEP_SUMMARY", summary.as_str()),
        ("ARGS", "--workspace   knows"),
        ("REPORTS", reports.as_str()),
        ("REQUIRE_EBPF", "true"),
    ];
    run(&user, "Doctor", &part, &variables)?.expect(0, &[])?;
    let checked = run(&user, "Run", &part, &variables)?;
    let line =
        1 + library.lines().position(|line| line.contains("Box::new(Session")).ok_or("another example")?;
    let annotation = format!(
        "\n::error file=part/src/lib.rs,line={line},col=19,title=4096 B definitely lost in 1 block of Box<Session>::in leaky "
    );
    checked.expect(2, &["sudo has raised", annotation.as_str()])?;
    let read = |path: &Utf8Path| fs::read_to_string(path).map_err(failed);
    let (output, summary) = (read(&output)?, read(&summary)?);
    if output != "exit-code=2\n" || !summary.starts_with("## cargo leakcheck: 1 of 1 test leaking\n") {
        return Err(format!("{output}\n{summary}"));
    }
    for report in ["report.html", "report.json", "junit.xml"] {
        if !read(&reports.join(report))?.contains("knows_its_capacity") {
            return Err(format!("{report} does not name the test"));
        }
    }
    Ok(())
}
