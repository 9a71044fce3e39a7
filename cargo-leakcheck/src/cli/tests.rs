use std::time::Duration;

use super::*;

fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: "/work space".into(),
        executable: "/bin/cargo-leakcheck".into(),
        cpus: 3,
    }
}

fn parse_in(line: &[&str], variables: &[(&str, &str)]) -> Result<Options> {
    let arguments = std::iter::once("cargo-leakcheck").chain(line.iter().copied()).map(OsString::from);
    match parse(arguments, surroundings(variables))? {
        Request::Run(options) => Ok(*options),
        Request::Print(text) => panic!("printed {text}"),
    }
}

fn options(line: &[&str]) -> Options {
    parse_in(line, &[]).unwrap()
}

fn test_action(options: Options) -> (BuildOptions, Selection) {
    match options.action {
        Action::Test(build, selection) => (build, selection),
        other => panic!("{other:?}"),
    }
}

fn usage(line: &[&str]) -> String {
    let error = parse_in(line, &[]).unwrap_err();
    assert_eq!(error.exit(), crate::error::Exit::Tool);
    error.to_string()
}

#[test]
fn cargos_own_first_argument_is_no_filter() {
    for line in [&["leakcheck", "-p", "a", "parse_"][..], &["-p", "a", "parse_"]] {
        let (build, selection) = test_action(options(line));
        assert_eq!(selection.filters, ["parse_"]);
        assert_eq!(build.cargo_args, ["--package", "a"]);
    }
}

#[test]
fn selection_of_targets_passes_through_and_only_the_shared_part_goes_to_metadata() {
    let (build, _) = test_action(options(&[
        "--manifest-path",
        "x y/Cargo.toml",
        "--config",
        "a.b=1",
        "--locked",
        "-F",
        "f g",
        "--release",
        "--lib",
        "--test",
        "api",
        "--all",
        "--exclude",
        "z",
        "--target",
        "t",
        "-vv",
        "--build-jobs",
        "2",
        "--target-dir",
        "out",
    ]));
    let shared = ["--manifest-path", "x y/Cargo.toml", "--config", "a.b=1", "--locked"];
    assert_eq!(build.metadata_args, shared);
    assert_eq!(build.cargo_args[..5], shared);
    let rest: Vec<_> = build.cargo_args[5..].iter().map(|argument| argument.to_str().unwrap()).collect();
    assert_eq!(
        rest.join(" "),
        "--workspace --lib --release --exclude z --test api --features f g --target t --jobs 2 --verbose --verbose"
    );
    assert_eq!(build.target_dir.unwrap(), "out");
    assert_eq!(build.targets, ["t"]);
}

#[test]
fn arguments_behind_the_dashes_select_as_libtest_does() {
    let (_, selection) = test_action(options(&[
        "one",
        "--",
        "a",
        "b",
        "--skip",
        "c",
        "--skip=d",
        "--exact",
        "--include-ignored",
    ]));
    assert_eq!(selection.filters, ["one", "a", "b"]);
    assert_eq!(selection.skip, ["c", "d"]);
    assert!(selection.exact);
    assert_eq!(selection.ignored, Ignored::Include);
    let (_, selection) = test_action(options(&["--", "--ignored"]));
    assert_eq!(selection.ignored, Ignored::Only);
}

#[test]
fn test_threads_are_jobs() {
    assert_eq!(options(&[]).trace.jobs, 3);
    assert_eq!(options(&["-j", "5"]).trace.jobs, 5);
    assert_eq!(options(&["--", "--test-threads", "7"]).trace.jobs, 7);
    assert!(usage(&["-j", "5", "--", "--test-threads=7"]).contains("contradicts"));
}

#[test]
fn defaults() {
    let options = options(&[]);
    assert_eq!(options.trace.timeout, None);
    assert_eq!(options.trace.max_blocks, 2_097_152);
    assert_eq!(options.trace.max_stacks, 65_536);
    assert_eq!(options.trace.max_threads, 16_384);
    assert_eq!(options.trace.max_bad_frees, 16_384);
    assert_eq!(options.trace.max_files, 16_384);
    assert!(options.trace.descriptors && options.trace.ipc && options.trace.files);
    assert!(!options.trace.follow_children);
    assert!(!options.trace.probe_at_entry && !options.report.timings);
    let judge = JudgeOptions {
        count: Count::Lost,
        count_failed: false,
        count_should_panic: false,
        count_bad_frees: false,
        fds: None,
        ipc: 0,
        children: None,
        threads: None,
    };
    assert_eq!(options.judge, judge);
    assert_eq!(options.report.color, Color::Auto);
}

#[test]
fn own_options() {
    let options = options(&[
        "--timeout",
        "2m",
        "--count",
        "outstanding",
        "--count-failed",
        "--count-should-panic",
        "--deny-bad-frees",
        "--fds",
        "2",
        "--ipc",
        "3",
        "--children",
        "3",
        "--threads",
        "4",
        "--json",
        "-",
        "--junit",
        "j.xml",
        "--full-stacks",
        "--max-blocks",
        "9",
        "--probe-at-entry",
        "--timings",
        "--follow-children",
    ]);
    assert_eq!(options.trace.timeout, Some(Duration::from_secs(120)));
    let judge = JudgeOptions {
        count: Count::Outstanding,
        count_failed: true,
        count_should_panic: true,
        count_bad_frees: true,
        fds: Some(2),
        ipc: 3,
        children: Some(3),
        threads: Some(4),
    };
    assert_eq!(options.judge, judge);
    assert_eq!(options.report.json.unwrap(), "-");
    assert_eq!(options.report.junit.unwrap(), "j.xml");
    assert!(options.report.full_stacks);
    assert_eq!(options.trace.max_blocks, 9);
    assert!(options.trace.probe_at_entry && options.report.timings && options.trace.follow_children);
}

/// What a key says by a file must be the same as what its option says.
#[test]
fn every_key_but_a_limit_of_blocks_is_an_option() {
    let limits = ["bytes", "blocks", "reachable-bytes", "reachable-blocks", "outstanding-bytes", "ignore"];
    for known in crate::config::KEYS.iter().filter(|known| !limits.contains(&known.name)) {
        let flag = format!("--{}", known.name);
        let by = |line: &[&str]| parse_in(line, &[]);
        let given = [&[&*flag][..], &[&flag, "7"], &[&flag, "ledger"], &[&flag, "outstanding"]]
            .into_iter()
            .find_map(|line| by(line).ok())
            .unwrap_or_else(|| panic!("{flag} is no option"));
        let origin = &given.config.given[&known.key].origin;
        assert_eq!(origin.to_string(), flag);
        // The options say the same as the layer that is put over a file's.
        let mut again = options(&[]);
        again.config = given.config.clone();
        let config = crate::config::Config::load(&again.config, None).unwrap();
        let again = config.resolve(&again);
        assert_eq!(format!("{:?}", again.trace), format!("{:?}", given.trace), "{flag}");
        let limit = ["fds", "ipc", "children", "threads"].contains(&known.name);
        assert!(limit || again.judge == given.judge, "{flag}");
        assert_eq!(again.report.full_stacks, given.report.full_stacks, "{flag}");
    }
    assert!(options(&[]).config.given.is_empty());
}

#[test]
fn the_configuration_that_is_asked_for() {
    let asked = |line: &[&str], variables: &[(&str, &str)]| {
        let config = parse_in(line, variables).unwrap().config;
        (config.file.map(|file| file.to_string()), config.profile)
    };
    assert_eq!(asked(&[], &[]), (None, None));
    let line = ["--config-file", "a/b.toml", "--leakcheck-profile", "ci", "--profile", "release"];
    let ci = || Some("ci".to_owned());
    assert_eq!(asked(&line, &[("LEAKCHECK_PROFILE", "x")]), (Some("/work space/a/b.toml".into()), ci()));
    assert_eq!(asked(&[], &[("LEAKCHECK_PROFILE", "ci")]), (None, ci()));
    assert_eq!(asked(&[], &[("LEAKCHECK_PROFILE", "")]), (None, None));
    assert_eq!(asked(&["exec", "x"], &[("LEAKCHECK_PROFILE", "ci")]), (None, None));
}

#[test]
fn expressions_are_read_where_they_are_given() {
    let (_, selection) = test_action(options(&["-E", "test(a)", "--filter-expr", "kind(lib)", "name"]));
    let sources: Vec<_> = selection.expressions.iter().map(Filter::source).collect();
    assert_eq!(sources, ["test(a)", "kind(lib)"]);
    let text = usage(&["--filterset", "tets(a)"]);
    assert!(text.contains("--filterset: unknown predicate `tets`") && text.contains("^^^^"), "{text}");
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

#[test]
fn list_and_exec() {
    match options(&["list", "-p", "a", "name", "--", "--skip", "b"]).action {
        Action::List(build, selection) => {
            assert_eq!(build.cargo_args, ["--package", "a"]);
            assert_eq!((selection.filters, selection.skip), (vec!["name".to_owned()], vec!["b".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
    for line in
        [&["exec", "--timeout", "1", "--", "./p", "-x", "--", "y"][..], &["exec", "./p", "-x", "--", "y"]]
    {
        match options(line).action {
            Action::Exec(exec) => assert_eq!(exec.command, ["./p", "-x", "--", "y"]),
            other => panic!("{other:?}"),
        }
    }
    // Behind the dashes the words are names of tests.
    let (_, selection) = test_action(options(&["--", "list"]));
    assert_eq!(selection.filters, ["list"]);
}

#[test]
fn colour_comes_from_the_option_then_cargo_then_no_color() {
    let colour = |line: &[&str], variables: &[(&str, &str)]| parse_in(line, variables).unwrap().report.color;
    let both = [("NO_COLOR", "1"), ("CARGO_TERM_COLOR", "always")];
    assert_eq!(colour(&["--color", "never"], &both), Color::Never);
    assert_eq!(colour(&["--color", "auto"], &both), Color::Auto);
    assert_eq!(colour(&[], &both), Color::Always);
    assert_eq!(colour(&[], &both[..1]), Color::Never);
    assert_eq!(colour(&[], &[("NO_COLOR", "")]), Color::Auto);
    assert_eq!(colour(&["list", "--color", "always"], &[]), Color::Always);
}

#[test]
fn cargo_is_the_one_that_called() {
    let (build, _) = test_action(parse_in(&[], &[("CARGO", "/tool chain/cargo")]).unwrap());
    assert_eq!(build.cargo, "/tool chain/cargo");
    assert_eq!(test_action(options(&[])).0.cargo, "cargo");
}

#[test]
fn what_is_not_understood_is_named() {
    for (line, words) in [
        (&["--no-such"][..], "--no-such"),
        (&["--timeout", "soon"], "--timeout"),
        (&["--max-blocks", "0"], "--max-blocks"),
        (&["-j", "0"], "--jobs"),
        (&["--count", "all"], "--count"),
        (&["--", "--format", "json"], "--format"),
        (&["--", "--nocapture"], "--nocapture"),
        (&["--", "--no-capture"], "--nocapture"),
        (&["--", "--show-output"], "--show-output"),
        (&["--", "--list"], "cargo leakcheck list"),
        (&["--", "--ignored", "--include-ignored"], "--ignored"),
        (&["exec"], "PROGRAM"),
        (&["-p", "a", "list"], "comes first"),
    ] {
        let text = usage(line);
        assert!(text.contains(words), "{line:?}: {text}");
        assert!(!text.starts_with("error"), "{text}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for flag in ["--help", "-h", "--version", "-V"] {
        let arguments = ["cargo-leakcheck", "leakcheck", flag].map(OsString::from);
        assert!(matches!(parse(arguments, surroundings(&[])), Ok(Request::Print(_))), "{flag}");
    }
}
