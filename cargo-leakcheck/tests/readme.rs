//! What the README says about the command line is what the tool does. Its screen and its Rust code are
//! tested with the tool itself, in the package `leakcheck-tests`.

use std::collections::BTreeSet;
use std::ffi::OsString;

use cargo_leakcheck::cli::{self, Request, Surroundings};
use cargo_leakcheck::config::KEYS;
use cargo_leakcheck::error::Exit;

const README: &str = include_str!("../../README.md");

/// The contents of the fenced blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let blocks: Vec<_> =
        README.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty(), "the README has no {language}");
    blocks
}

fn parse(words: &[&str]) -> Result<Request, String> {
    let words = words.iter().map(OsString::from);
    cli::parse(words, Surroundings::current().unwrap()).map_err(|error| error.to_string())
}

#[test]
fn the_help_block_is_the_help() {
    let Ok(Request::Print(help)) = parse(&["cargo-leakcheck", "leakcheck", "--help"]) else {
        panic!("--help prints nothing")
    };
    let plain = anstream::adapter::strip_str(&help).to_string();
    let block = blocks("text").into_iter().find_map(|block| block.strip_prefix("$ cargo leakcheck --help\n"));
    assert_eq!(block.unwrap().trim_end(), plain.trim_end());
}

#[test]
fn the_command_lines_are_understood() {
    let mut seen = 0;
    for line in blocks("sh").into_iter().flat_map(str::lines) {
        let Some((_, command)) = line.split_once("cargo leakcheck") else { continue };
        let command = command.split(['#', ')']).next().unwrap();
        let words: Vec<&str> =
            ["cargo-leakcheck", "leakcheck"].into_iter().chain(command.split_whitespace()).collect();
        let request = parse(&words);
        assert!(
            matches!(request, Ok(Request::Run(_) | Request::Examine(_) | Request::Setup(_))),
            "{line}: {request:?}"
        );
        seen += 1;
    }
    assert!(seen >= 8, "{seen} command lines");
}

#[test]
fn the_exit_codes_are_those_of_the_tool() {
    let all = [
        Exit::Clean,
        Exit::Failed,
        Exit::Leaks,
        Exit::FailedAndLeaks,
        Exit::NothingRan,
        Exit::Incomplete,
        Exit::Tool,
        Exit::Build,
    ];
    let words = |exit| match exit {
        Exit::Clean => "clean",
        Exit::Failed => "tests failed, none leaks",
        Exit::Leaks => "tests leak, none failed",
        Exit::FailedAndLeaks => "tests failed and tests leak",
        Exit::NothingRan => "no test",
        Exit::Incomplete => "incomplete",
        Exit::Tool => "tool could not do its work",
        Exit::Build => "build failed",
    };
    let rows: BTreeSet<(u8, &str)> = README
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning)))
        .collect();
    assert_eq!(rows.len(), all.len(), "{rows:?}");
    for exit in all {
        let row = rows.iter().find(|row| row.0 == exit as u8);
        assert!(row.is_some_and(|row| row.1.contains(words(exit))), "{exit:?}: {row:?}");
    }
}

const STABILITY: &str = include_str!("../../STABILITY.md");

/// The help of a command.
fn help(command: &[&str]) -> String {
    let words = [&["cargo-leakcheck", "leakcheck"], command, &["--help"]].concat();
    let Ok(Request::Print(help)) = parse(&words) else { panic!("{words:?} prints nothing") };
    anstream::adapter::strip_str(&help).to_string()
}

/// The option's name at the beginning of a text.
fn name(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '-').collect()
}

#[test]
fn the_public_options_are_those_of_the_help() {
    let mut shown = BTreeSet::new();
    let commands = [
        &[][..],
        &["doctor"],
        &["exec"],
        &["list"],
        &["nextest"],
        &["setup"],
        &["show-config"],
        &["show-env"],
        &["report"],
        &["report", "merge"],
    ];
    for command in commands {
        let help = help(command);
        // An option is at the beginning of its line, its short form before it.
        let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        shown.extend(lines.filter_map(|line| Some(name(line.split_once("--")?.1))));
    }
    assert!(shown.len() > 50, "{shown:?}");
    let listed = STABILITY.split("## Exit codes").next().unwrap();
    let listed = listed.split("`--").skip(1).map(name).filter(|name| !name.is_empty() && name != "max-");
    assert_eq!(listed.collect::<BTreeSet<_>>(), shown);
}

#[test]
fn the_public_commands_are_those_of_the_help() {
    let help = help(&[]);
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let shown = commands.lines().filter_map(|line| line.split_whitespace().next());
    let listed =
        STABILITY.split("## Command line\n").nth(1).and_then(|rest| rest.split("and the options:").next());
    let listed =
        listed.unwrap().split("`cargo leakcheck").skip(1).map(|rest| rest.split('`').next().unwrap());
    let listed = listed.filter_map(|command| command.split_whitespace().next());
    assert_eq!(listed.collect::<BTreeSet<_>>(), shown.collect());
}

/// In both documents, those that an override may have before those of a whole run.
#[test]
fn the_keys_of_the_configuration_are_listed() {
    let named = |text: &'static str| text.split('`').skip(1).step_by(2);
    let expected = |of_run: bool| KEYS.iter().filter(move |it| it.of_run == of_run).map(|it| it.name);
    let lines = |start: &str| STABILITY.split(start).nth(1).and_then(|rest| rest.split("\n-").next());
    let keys = |start| named(lines(start).and_then(|text| text.split("\n\n").next()).unwrap());
    assert!(keys("- in profiles and overrides: ").eq(expected(false)));
    assert!(keys("- in profiles: ").eq(expected(true)));
    let readme =
        README.split("- Keys are the limits").nth(1).and_then(|rest| rest.split("\n-").next()).unwrap();
    let listed = named(readme).filter(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()));
    assert!(listed.eq(expected(false).chain(expected(true))));
}

#[test]
fn the_public_exit_codes_are_those_of_the_readme() {
    let codes = |text: &str| -> BTreeSet<u8> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        rows.filter_map(|(code, _)| code.parse().ok()).collect()
    };
    assert_eq!(codes(STABILITY), codes(README));
}
