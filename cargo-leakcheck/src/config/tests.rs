use std::time::Duration;

use super::*;
use crate::options::{Count, Recorder};

mod applied;
mod found;

const FILE_TEXT: &str = "\
[profile.default]
bytes = \"4 KiB\"
timeout = \"60s\"
fds = 1
count = \"outstanding\"

[[profile.default.overrides]]
filter = 'test(slow)'
timeout = 600
fds = 2
no-ipc = true

[profile.ci]
fds = 3
recorder = \"uprobe\"

[[profile.ci.overrides]]
filter = 'package(a) & test(/^cache/)'
fds = 4

[[profile.ci.overrides]]
filter = 'all()'
fds = 5
ignore = \"all of them\"

[profile.nightly]
inherits = \"ci\"
jobs = 2
";

fn read(text: &str) -> Vec<(String, Profiles)> {
    let manifest = "[workspace.metadata.leakcheck.profile.default]\nbytes = 1\nipc = 9\n";
    let manifest = read::profiles("Cargo.toml", manifest, &["workspace", "metadata", "leakcheck"]).unwrap();
    vec![
        (FILE.to_owned(), read::profiles(FILE, text, &[]).unwrap_or_else(|error| panic!("{error}"))),
        ("Cargo.toml".to_owned(), manifest),
    ]
}

fn options(profile: &str) -> ConfigOptions {
    ConfigOptions { profile: Some(profile.to_owned()), ..ConfigOptions::default() }
}

fn config(profile: &str) -> Config {
    Config::choose(&options(profile), &read(FILE_TEXT)).unwrap()
}

/// Which overrides of the profile `ci`, in their order, are for a test.
const CACHE: [bool; 3] = [true, true, false];
const CACHE_SLOW: [bool; 3] = [true, true, true];
const SLOW: [bool; 3] = [false, true, true];
const QUICK: [bool; 3] = [false, true, false];

fn number(layer: &Layer, key: Key) -> Option<u64> {
    match layer.get(&key)?.value {
        Value::Number(number) => Some(number),
        ref other => panic!("{other:?}"),
    }
}

fn origin(layer: &Layer, key: Key) -> String {
    layer[&key].origin.to_string()
}

#[test]
fn the_file_comes_before_the_manifest_key_by_key() {
    let layer = config("default").of_run();
    assert_eq!((number(&layer, Key::Bytes), number(&layer, Key::Ipc)), (Some(4096), Some(9)));
    assert_eq!(origin(&layer, Key::Bytes), ".config/leakcheck.toml:2, profile default");
    assert_eq!(origin(&layer, Key::Ipc), "Cargo.toml:3, profile default");
    assert_eq!(layer[&Key::Timeout].value, Value::Time(Duration::from_secs(60)));
    assert_eq!(layer[&Key::Count].value, Value::Count(Count::Outstanding));
    assert_eq!(layer.get(&Key::Recorder), None);
}

#[test]
fn profiles_inherit_from_the_one_they_name_or_the_default() {
    for profile in ["ci", "nightly"] {
        let layer = config(profile).of_run();
        assert_eq!((number(&layer, Key::Fds), number(&layer, Key::Bytes)), (Some(3), Some(4096)));
        assert_eq!(layer[&Key::Recorder].value, Value::Recorder(Recorder::Uprobe));
    }
    assert_eq!(config("nightly").chain, ["nightly", "ci", "default"]);
    let unknown = Config::choose(&options("cI"), &read(FILE_TEXT)).unwrap_err();
    assert!(unknown.to_string().ends_with("there are: ci, default, nightly"), "{unknown}");
    assert_eq!(unknown.exit(), crate::error::Exit::Tool);
}

#[test]
fn overrides_come_before_profiles_and_the_first_one_has_a_key() {
    let fds = |profile: &str, means: &[bool]| number(&config(profile).of_test(means), Key::Fds);
    assert_eq!((fds("default", &[false]), fds("default", &[true])), (Some(1), Some(2)));
    assert_eq!(
        config("ci").filters().collect::<Vec<_>>(),
        ["package(a) & test(/^cache/)", "all()", "test(slow)"]
    );
    for profile in ["ci", "nightly"] {
        let fds = |means: &[bool]| fds(profile, means);
        assert_eq!((fds(&CACHE_SLOW), fds(&SLOW), fds(&QUICK)), (Some(4), Some(5), Some(5)));
    }
    // What an override does not set comes from the next one that does, and an inherited one is before a profile.
    let layer = config("ci").of_test(&CACHE_SLOW);
    assert_eq!(layer[&Key::Timeout].value, Value::Time(Duration::from_secs(600)));
    assert_eq!(layer[&Key::NoIpc].value, Value::Switch(true));
    assert_eq!(origin(&layer, Key::Fds), ".config/leakcheck.toml:19, override of profile ci");
}

#[test]
fn the_command_line_comes_before_files() {
    let given = Given { value: Value::Number(7), origin: Origin::Option("fds") };
    let options = ConfigOptions { given: [(Key::Fds, given)].into(), ..options("ci") };
    let config = Config::choose(&options, &read(FILE_TEXT)).unwrap();
    for layer in [config.of_run(), config.of_test(&CACHE)] {
        assert_eq!((number(&layer, Key::Fds), origin(&layer, Key::Fds)), (Some(7), "--fds".to_owned()));
    }
}

#[test]
fn the_attribute_comes_before_everything() {
    let layer = config("ci").of_test(&CACHE);
    let mut budget = Budget { fds: Some(8), threads: Some(1), ..Budget::default() };
    apply::budget(&layer, &mut budget);
    let expected = Budget {
        fds: Some(8),
        threads: Some(1),
        bytes: Some(4096),
        ipc: Some(9),
        ignore: Some("all of them".into()),
        ..Budget::default()
    };
    assert_eq!(budget, expected);
    // A limit of the command line stays the judge's, who asks for a test's own first.
    let given = Given { value: Value::Number(7), origin: Origin::Option("fds") };
    let mut budget = Budget::default();
    apply::budget(&[(Key::Fds, given)].into(), &mut budget);
    assert_eq!(budget, Budget::default());
}

/// Every key by its name, with the first value that it takes.
#[test]
fn every_key_is_read() {
    for known in &KEYS {
        let value = match known.kind {
            key::Kind::Size | key::Kind::Number | key::Kind::Positive(_) | key::Kind::Time => "1",
            key::Kind::Switch => "true",
            key::Kind::Reason => "'why'",
            key::Kind::Count => "'lost'",
            key::Kind::Dependencies => "'fail'",
            key::Kind::Recorder | key::Kind::Spawn | key::Kind::When => "'auto'",
        };
        let text = format!("[profile.default]\n{} = {value}\n", known.name);
        let profiles = read::profiles("f", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(profiles["default"].values.contains_key(&known.key), "{text}");
    }
}

/// What `show-config` prints can be put into a file, and comes to the same.
#[test]
fn what_is_shown_is_what_is_read() {
    for (key, value) in [
        (Key::Timeout, "'0.1ms'"),
        (Key::Timeout, "'0.000000001'"),
        (Key::Timeout, "'1.5m'"),
        (Key::Timeout, "'90h'"),
        (Key::Timeout, "9223372036854775807"),
        (Key::Bytes, "'18446744073709551615 B'"),
        (Key::Ignore, r#"'"\é'"#),
        (Key::Ignore, r#""it's \u200B \U0001F41B \u202e""#),
        (Key::Count, "'outstanding'"),
        (Key::Recorder, "'uprobe'"),
        (Key::Spawn, "'fork'"),
        (Key::Github, "'never'"),
    ] {
        let read = |value: &str| {
            let text = format!("[profile.default]\n{} = {value}\n", layer::name(key));
            let profiles = read::profiles("f", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
            profiles["default"].values[&key].value.clone()
        };
        let first = read(value);
        assert_eq!(read(&first.to_string()), first, "{value}");
    }
}

#[test]
fn errors_point_at_what_is_wrong() {
    let full = "unknown key `byte`
 --> leakcheck.toml:2:1
  |
2 | byte = 4
  | ^^^^ did you mean `bytes`?";
    assert_eq!(read::profiles("leakcheck.toml", "[profile.default]\nbyte = 4\n", &[]).unwrap_err(), full);
    for (text, place, words) in [
        ("profile = 3", "1:11", "expected a table, not a whole number"),
        ("[profiles.default]", "1:2", "did you mean `profile`?"),
        ("[profile.default]\nreachable_bytes = 4", "2:1", "did you mean `reachable-bytes`?"),
        ("[profile.default]\nnonsense = 4", "2:1", "`cargo leakcheck show-config` lists all keys"),
        (
            "[profile.default]\nbytes = -4",
            "2:9",
            "expected a number of bytes or a size such as \"4 KiB\", not `-4`",
        ),
        ("[profile.default]\nbytes = '4 kb'", "2:9", "as in \"4 KiB\""),
        ("[profile.default]\nfds = '4'", "2:7", "expected a whole number, not a string"),
        ("[profile.default]\nfds = 99999999999999999999", "2:7", "not `99999999999999999999`"),
        ("[profile.default]\njobs = 0", "2:8", "expected a whole number from 1 to"),
        ("[profile.default]\njobs = 2147483647", "2:8", "from 1 to 4194304, not `2147483647`"),
        ("[profile.default]\nmax-files = 134217729", "2:13", "from 1 to 134217728, not `134217729`"),
        ("[profile.default]\nno-fds = 1", "2:10", "expected true or false, not a whole number"),
        ("[profile.default]\ntimeout = '4d'", "2:11", "unknown unit `d`"),
        ("[profile.default]\ntimeout = 0", "2:11", "must be more than 0"),
        ("[profile.default]\ncount = 'all'", "2:9", "expected \"lost\" or \"outstanding\", not \"all\""),
        ("[profile.default]\nrecorder = true", "2:12", "not true or false"),
        ("[profile.default]\nignore = ' '", "2:10", "expected a reason"),
        ("[profile.default]\ninherits = 'a'", "2:1", "inherits from none"),
        ("[profile.a]\ninherits = 3", "2:12", "expected a string"),
        ("[profile.default]\noverrides = 3", "2:13", "[[profile.default.overrides]]"),
        ("[[profile.default.overrides]]\nfds = 3", "1:1", "without a filter"),
        ("[[profile.default.overrides]]\nfilter = 'all()'\njobs = 3", "3:1", "same for all tests of a run"),
        ("[[profile.default.overrides]]\nfilters = 'all()'", "2:1", "did you mean `filter`?"),
        ("[profile.default]\nfds = ", "2:7", ""),
        ("[profile.default]\nfds = 1\nfds = 2", "3:1", "duplicate key"),
    ] {
        let error = read::profiles("f", text, &[]).expect_err(text);
        assert!(error.contains(&format!("--> f:{place}\n")) && error.contains(words), "{text}\n{error}");
    }
}

/// Where the characters of the string are those of the expression, a part of it is pointed at.
#[test]
fn a_part_of_a_filter_is_pointed_at() {
    for (filter, part, place) in [
        ("'all() & tes(x)'", 8..11, "2:19"),
        ("'''\nall() &\n tes(x)'''", 9..12, "4:2"),
        ("\"t\\u0065s(x)\"", 0..3, "2:10"),
    ] {
        let text = format!("[[profile.default.overrides]]\nfilter = {filter}\n");
        let config = Config::choose(&options("default"), &read(&text)).unwrap();
        let error = config.wrong_filter(0, part, "no", "hint").to_string();
        assert!(error.contains(&format!("--> {FILE}:{place}\n")) && error.contains("^ hint"), "{error}");
    }
}

#[test]
fn inheritance_has_an_end() {
    for (text, place, words) in [
        ("[profile.a]\ninherits = 'b'", "2:12", "no profile `b`"),
        ("[profile.a]\ninherits = 'a'", "2:12", "inherits from itself"),
        ("[profile.a]\ninherits = 'b'\n[profile.b]\ninherits = 'a'", "4:12", "inherits from itself"),
    ] {
        let error = Config::choose(&options("a"), &read(text)).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&format!("{FILE}:{place}")), "{error}");
    }
}

/// What no file sets is what the judge takes then, and that depends on what it does set.
#[test]
fn defaults_are_those_of_the_judge() {
    let (none, zero) = ("no limit", "0");
    for (text, bytes, outstanding, count) in [
        ("", zero, none, "default"),
        ("blocks = 3", none, none, "default"),
        ("reachable-bytes = 3", zero, none, "default"),
        ("count = 'outstanding'", zero, none, "f:2, profile default"),
        ("count = 'outstanding'\nblocks = 3", none, none, "f:2, profile default"),
        ("count = 'outstanding'\nreachable-bytes = 3", zero, none, "f:2, profile default"),
        ("count = 'lost'\nreachable-bytes = 3", zero, none, "f:2, profile default"),
    ] {
        let profiles = read::profiles("f", &format!("[profile.default]\n{text}\n"), &[]).unwrap();
        let config = Config::choose(&options("default"), &[("f".to_owned(), profiles)]).unwrap();
        let shown = explain_run(&config);
        let line = |name: &str| {
            let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")).unwrap();
            line.split_once('#').map(|(value, origin)| (value.trim(), origin.trim())).unwrap()
        };
        let expected = [(bytes, "default"), (outstanding, "default")];
        assert_eq!([line("bytes"), line("outstanding-bytes")], expected, "{text}");
        assert_eq!(line("count").1, count, "{text}");
    }
    let text = "[profile.default]\ncount = 'outstanding'\noutstanding-bytes = 3\n";
    let profiles = read::profiles("f", text, &[]).unwrap();
    let config = Config::choose(&options("default"), &[("f".to_owned(), profiles)]).unwrap();
    assert!(explain_run(&config).contains("f:2, profile default, without effect beside outstanding-bytes\n"));
}

#[test]
fn the_explanation_names_rules_and_suppressions() {
    let text = "[profile.default]\nsuppressions = ['lsan.supp']\n\
                [[profile.default.rules]]\nname = 'init'\ncrate = 'a'\nreason = 'once'\n";
    let profiles = read::profiles("f", text, &[]).unwrap();
    let shown = explain_run(&Config::choose(&options("default"), &[("f".to_owned(), profiles)]).unwrap());
    assert!(shown.ends_with("\nrule at f:3: 'init', once\n\nsuppressions of lsan.supp\n"), "{shown}");
}

#[test]
fn the_explanation_names_each_origin() {
    let shown = explain_run(&config("ci"));
    for line in [
        "profile ci, which inherits from default",
        "configured in .config/leakcheck.toml, Cargo.toml",
        "bytes = 4096 # .config/leakcheck.toml:2, profile default",
        "fds = 3 # .config/leakcheck.toml:14, profile ci",
        "override at .config/leakcheck.toml:8: test(slow)",
        "    timeout = \"600s\"",
    ] {
        // Columns are as wide as what is in them.
        let squeezed = |shown: &str| match shown.split_once("  # ") {
            Some((setting, origin)) => format!("{} # {origin}", setting.trim_end()),
            None => shown.to_owned(),
        };
        assert!(shown.lines().any(|shown| squeezed(shown) == line), "{line}\n{shown}");
    }
    let set = |line: &&str| line.starts_with("threads = no limit") && line.ends_with("# default");
    assert!(shown.lines().any(|line| set(&line)), "{shown}");
}
