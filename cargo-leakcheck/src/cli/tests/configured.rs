//! Of options that can be configured, and of the configuration that is asked for.

use clap::Args as _;

use super::*;

/// Options that are for one run, and none of a configuration.
const NO_KEYS: [&str; 21] = [
    "baseline",
    "config-file",
    "no-baseline",
    "leakcheck-profile",
    "junit",
    "json",
    "html",
    "sarif",
    "flamegraph",
    "folded",
    "peak-flamegraph",
    "peak-folded",
    "pprof",
    "color",
    "probe-at-entry",
    "spare-only",
    "timings",
    "fail-fast",
    "help",
    "suppressions",
    "write-rules",
];

#[test]
fn every_option_is_a_key_and_every_key_but_a_limit_of_blocks_is_an_option() {
    let command = args::RunArgs::augment_args(clap::Command::new(""));
    let flags: Vec<_> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let keys = crate::config::KEYS;
    for flag in &flags {
        let is_key = keys.iter().any(|known| known.name == *flag);
        assert_ne!(is_key, NO_KEYS.contains(flag), "--{flag}");
    }
    let limits = [
        "warmup",
        "bytes-per-iteration",
        "bytes",
        "blocks",
        "reachable-bytes",
        "reachable-blocks",
        "outstanding-bytes",
        "ignore",
    ];
    for known in keys.iter().filter(|known| !limits.contains(&known.name)) {
        assert!(flags.contains(&known.name), "{}", known.name);
        let flag = format!("--{}", known.name);
        let values = ["7", "ledger", "fork", "outstanding", "never", "report"];
        let lines = [vec![&*flag]].into_iter().chain(values.map(|value| vec![&*flag, value]));
        let given = lines.into_iter().find_map(|line| parse_in(&line, &[]).ok()).expect(&flag);
        let origin = &given.config.given[&known.key].origin;
        assert_eq!(origin.to_string(), flag);
    }
    assert!(options(&[]).config.given.is_empty());
}

/// Who asks for something looks for it, whatever files say.
#[test]
fn a_limit_asks_for_what_it_limits() {
    use crate::config::{Key, Value};
    let seeks = |line: &[&str], key: Key| options(line).config.given.get(&key).map(|it| it.value.clone());
    for (line, key) in [
        (["--fds", "1"], Key::NoFds),
        (["--kernel-bytes", "1"], Key::NoFds),
        (["--kernel-bytes", "1"], Key::NoKernelBytes),
        (["--ipc", "1"], Key::NoIpc),
        (["--children", "1"], Key::NoChildren),
        (["--threads", "1"], Key::NoChildren),
        (["--mapped-bytes", "1"], Key::NoMappings),
    ] {
        assert_eq!(seeks(&line, key), Some(Value::Switch(false)), "{line:?}");
        assert_eq!(options(&line).config.given[&key].origin.to_string(), line[0]);
    }
    for line in [&["--peak-stacks"][..], &["--peak-folded", "a"], &["--peak-flamegraph", "a"]] {
        assert_eq!(seeks(line, Key::PeakStacks), Some(Value::Switch(true)), "{line:?}");
        assert_eq!(options(line).config.given[&Key::PeakStacks].origin.to_string(), line[0]);
    }
    assert_eq!(seeks(&["--folded", "a"], Key::PeakStacks), None);
    // A run with an end of its own has no further rounds.
    assert_eq!(seeks(&["--fail-fast"], Key::Retries), Some(Value::Number(0)));
    assert_eq!(seeks(&["--retries", "2"], Key::MaxFail), None);
}

#[test]
fn the_configuration_that_is_asked_for() {
    let asked = |line: &[&str], variables: &[(&str, &str)]| {
        let config = parse_in(line, variables).unwrap().config;
        let text = |path: Option<Utf8PathBuf>| path.map(Utf8PathBuf::into_string).unwrap_or_default();
        (text(config.file), config.profile.unwrap_or_default(), text(config.start))
    };
    let words =
        |file: &str, profile: &str, start: &str| (file.to_owned(), profile.to_owned(), start.to_owned());
    assert_eq!(asked(&[], &[]), words("", "", "/work space"));
    let line = ["--config-file", "a/b.toml", "--leakcheck-profile", "ci", "--profile", "release"];
    let expected = words("/work space/a/b.toml", "ci", "/work space");
    assert_eq!(asked(&line, &[("LEAKCHECK_PROFILE", "x")]), expected);
    let by_variable = [("LEAKCHECK_PROFILE", "ci"), ("CARGO_MANIFEST_DIR", "/w/a")];
    assert_eq!(asked(&["--manifest-path", "/w/Cargo.toml"], &by_variable), words("", "ci", "/w/Cargo.toml"));
    assert_eq!(asked(&[], &[("LEAKCHECK_PROFILE", "")]), words("", "", "/work space"));
    let nextest = ["nextest", "run", "--manifest-path=a/Cargo.toml"];
    assert_eq!(asked(&nextest, &by_variable), words("", "ci", "/work space/a/Cargo.toml"));
    // A program is in no workspace, and a runner's test in that of its package.
    assert_eq!(asked(&["exec", "x"], &by_variable), words("", "", ""));
    assert_eq!(asked(&["exec", "--runner", "x"], &by_variable), words("", "ci", "/w/a"));
    let nextest = [by_variable[0], by_variable[1], ("NEXTEST_WORKSPACE_ROOT", "/w")];
    assert_eq!(asked(&["exec", "--runner", "x"], &nextest), words("", "ci", "/w"));
}

#[test]
fn show_config_explains_tests_if_any_are_selected() {
    for (line, selects) in [
        (&["show-config"][..], false),
        (&["show-config", "--test", "api", "--fds", "3"], false),
        (&["show-config", "name"], true),
        (&["show-config", "-E", "all()"], true),
        (&["show-config", "--", "--skip", "x"], true),
    ] {
        match options(line).action {
            Action::ShowConfig(_, selection) => assert_eq!(selection.is_some(), selects, "{line:?}"),
            other => panic!("{other:?}"),
        }
    }
}
