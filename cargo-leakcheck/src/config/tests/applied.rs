//! What values come to.

use super::*;
use crate::options::{
    AcceptOptions, Action, Dependencies, JudgeOptions, KernelBytes, ReportOptions, Spawn, When,
};

#[test]
fn what_is_set_up_is_what_any_test_wants() {
    let text = "[profile.default]\nno-fds = true\n[[profile.default.overrides]]\nfilter = 'test(x)'\nno-fds = false\n\
                follow-children = true\nno-ipc = true\nkernel-bytes = 1\nretries = 2\n";
    let mut config = Config::choose(&options("default"), &read(text)).unwrap();
    let with = |layer: &Layer, mut trace: TraceOptions| {
        apply::trace(layer, &mut trace);
        trace
    };
    let run = with(&config.of_run(), TraceOptions::default());
    assert!(!run.descriptors && !run.follow_children && run.ipc);
    assert_eq!((run.kernel_bytes, run.retries), (KernelBytes::Off, 0));
    let widest = config.widest(&run);
    assert!(widest.descriptors && widest.follow_children && widest.ipc);
    assert_eq!((widest.kernel_bytes, widest.retries), (KernelBytes::Always, 2));
    let one = with(&config.of_test(&[true]), run.clone());
    assert!(one.descriptors && one.follow_children && !one.ipc);
    // The command line holds for all.
    config.given =
        [(Key::NoFds, Given { value: Value::Switch(true), origin: Origin::Option("no-fds") })].into();
    let widest = config.widest(&run);
    assert_eq!((widest.descriptors, widest.kernel_bytes), (false, KernelBytes::Off));
}

/// A run, in which nothing is done.
fn run(given: &[(Key, Value)]) -> Options {
    let given =
        given.iter().map(|(key, value)| (*key, Given { value: value.clone(), origin: Origin::Option("x") }));
    let config = ConfigOptions { given: given.collect(), ..options("default") };
    let (judge, report) = (JudgeOptions::default(), ReportOptions::default());
    Options {
        action: Action::Report(Vec::new()),
        sudo: true,
        trace: TraceOptions::default(),
        judge,
        accept: AcceptOptions::default(),
        report,
        config,
    }
}

/// Whoever adds a limit to [`Budget`] has to say here by which key it is set.
#[test]
fn every_limit_of_a_budget_has_a_key() {
    let numbers = KEYS.iter().filter(|known| matches!(known.kind, key::Kind::Size | key::Kind::Number));
    let text: Vec<_> = numbers
        .filter(|known| known.key != Key::Retries)
        .enumerate()
        .map(|(number, known)| format!("{} = {}\n", known.name, number + 1))
        .collect();
    let text = format!("[profile.default]\n{}ignore = 'why'\n", text.concat());
    let config = Config::choose(&options("default"), &read(&text)).unwrap();
    let mut budget = Budget::default();
    apply::budget(&config.of_run(), &mut budget);
    let Budget {
        bytes,
        blocks,
        reachable_bytes,
        reachable_blocks,
        outstanding_bytes,
        fds,
        kernel_bytes,
        ipc,
        children,
        threads,
        mapped_bytes,
        iterations,
        warmup,
        bytes_per_iteration,
        peak_bytes,
        total_blocks,
        ignore,
    } = budget;
    let limits = [
        bytes,
        blocks,
        reachable_bytes,
        reachable_blocks,
        outstanding_bytes,
        fds,
        kernel_bytes,
        ipc,
        children,
        threads,
        mapped_bytes,
        warmup,
        bytes_per_iteration,
        peak_bytes,
        total_blocks,
    ];
    // For how often its body is run a file has `growth`, which is no limit.
    assert_eq!(iterations, None);
    assert_eq!(limits, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(Some));
    assert_eq!(ignore.as_deref(), Some("why"));
}

/// Each key changes something of a run, of a test or of its budget.
#[test]
fn every_key_means_something() {
    let value = |known: &key::Known| match known.kind {
        key::Kind::Size | key::Kind::Number | key::Kind::Positive(_) => Value::Number(77),
        key::Kind::Switch => Value::Switch(true),
        key::Kind::Reason => Value::Reason("why".to_owned()),
        key::Kind::Time => Value::Time(Duration::from_secs(77)),
        key::Kind::Count => Value::Count(Count::Outstanding),
        key::Kind::Dependencies => Value::Dependencies(Dependencies::Report),
        key::Kind::Spawn => Value::Spawn(Spawn::Fork),
        key::Kind::Recorder => Value::Recorder(Recorder::Uprobe),
        key::Kind::When => Value::When(When::Never),
    };
    for known in &KEYS {
        let origin = Origin::File { place: "f:1".into(), profile: "default".into(), in_override: false };
        let profile = [(known.key, Given { value: value(known), origin })].into();
        let config = Config { profile, ..Config::default() };
        let (mut options, mut budget) = (run(&[]), Budget::default());
        let shown = |options: &Options, budget: &Budget| {
            format!(
                "{:?} {:?} {:?} {:?} {} {budget:?}",
                options.trace, options.judge, options.accept, options.report, options.sudo
            )
        };
        let before = shown(&options, &budget);
        config.resolve(&mut options).unwrap();
        apply::budget(&config.of_run(), &mut budget);
        assert_ne!(shown(&options, &budget), before, "{}", known.name);
    }
}

#[test]
fn an_end_after_failures_and_further_rounds_exclude_each_other() {
    let resolved = |text: &str, given: &[(Key, Value)]| {
        let mut options = run(given);
        Config::choose(&options.config, &read(text)).unwrap().resolve(&mut options)?;
        Ok::<_, Error>((options.trace.max_fail, options.trace.retries))
    };
    let both = "[profile.default]\nmax-fail = 3\nretries = 2\n";
    let error = resolved(both, &[]).unwrap_err().to_string();
    assert!(
        error.contains(&format!("`max-fail` ({FILE}:2")) && error.contains("exclude each other"),
        "{error}"
    );
    let by_override =
        "[profile.default]\nmax-fail = 3\n[[profile.default.overrides]]\nfilter = 'all()'\nretries = 2\n";
    assert!(resolved(by_override, &[]).is_err());
    assert_eq!(resolved("[profile.default]\nmax-fail = 3\nretries = 0\n", &[]).unwrap(), (Some(3), 0));
    // What is as it would be anyway excludes nothing.
    let none = [(Key::Retries, Value::Number(0))];
    assert_eq!(resolved(both, &none).unwrap(), (Some(3), 0));
    assert_eq!(resolved(by_override, &none).unwrap(), (Some(3), 0));
    // The command line says which.
    let retries = [(Key::Retries, Value::Number(5))];
    assert_eq!(resolved(both, &retries).unwrap(), (None, 5));
    let max_fail = [(Key::MaxFail, Value::Number(1)), (Key::Retries, Value::Number(0))];
    assert_eq!(resolved(by_override, &max_fail).unwrap(), (Some(1), 0));
    // None are none more than the tool's own default.
    let none = [(Key::Retries, Value::Number(0))];
    assert_eq!(resolved("[profile.default]\nmax-fail = 3\n", &none).unwrap(), (Some(3), 0));
}

#[test]
fn a_limit_and_what_is_not_looked_at_exclude_each_other() {
    let of_test = |text: &str, given: &[(Key, Value)]| {
        let mut options = run(given);
        let config = Config::choose(&options.config, &read(text))?;
        config.resolve(&mut options)?;
        let (layer, mut budget) = (config.of_test(&[true]), Budget::default());
        let mut trace = options.trace.clone();
        apply::trace(&layer, &mut trace);
        apply::budget(&layer, &mut budget);
        Ok::<_, Error>((trace.kernel_bytes, budget.kernel_bytes))
    };
    let error = of_test("[profile.default]\nno-fds = true\nfds = 3\n", &[]).unwrap_err().to_string();
    assert!(
        error.contains(&format!("`no-fds` ({FILE}:2")) && error.contains("exclude each other"),
        "{error}"
    );
    let limit = "[profile.default]\nkernel-bytes = '4 KiB'\n";
    let off = [(Key::NoKernelBytes, Value::Switch(true))];
    assert_eq!(of_test(limit, &[]).unwrap(), (KernelBytes::Always, Some(4096)));
    assert_eq!(of_test(limit, &off).unwrap(), (KernelBytes::Off, None));
    // What is nearer to a test goes first, either way.
    let override_of = |first: &str, second: &str| {
        format!("[profile.default]\n{first}\n[[profile.default.overrides]]\nfilter = 'all()'\n{second}\n")
    };
    let (limit, off) = ("kernel-bytes = 5", "no-kernel-bytes = true");
    assert_eq!(of_test(&override_of(limit, off), &[]).unwrap(), (KernelBytes::Off, None));
    assert_eq!(of_test(&override_of(off, limit), &[]).unwrap(), (KernelBytes::Always, Some(5)));
}
