//! Made-up machines.

use super::*;
use crate::doctor::facts::Trial;
use crate::model::Steered;
use crate::options::Raised;
use crate::raise::installed::Setup;
use crate::sys::Capabilities;

/// The numbers of the five in include/uapi/linux/capability.h.
const FIVE: u64 = 1 << 19 | 1 << 21 | 1 << 34 | 1 << 38 | 1 << 39;

/// Root on a machine where everything is there.
fn root() -> Facts {
    let trial = |recorder| Trial { recorder, steered: Some(Steered::default()), result: Ok(()) };
    Facts {
        kernel: "6.6.0-13-amd64".into(),
        types: Ok(()),
        user: 0,
        capabilities: Capabilities(FIVE),
        perf_event_paranoid: Some(4),
        unprivileged_bpf_disabled: Some(2),
        ptrace_scope: Some(1),
        kptr_restrict: Some(1),
        lockdown: Some("integrity".into()),
        proc: Ok(()),
        pid_namespaces: 1,
        cargo: Ok("cargo 1.95.0".into()),
        rustc: Ok("rustc 1.95.0".into()),
        raised: Raised::No,
        setup: Setup::No,
        seccomp: false,
        no_new_privileges: false,
        locked_memory: Some("8388608 8388608 bytes".into()),
        hidepid: None,
        trials: vec![trial("ledger"), trial("uprobe")],
    }
}

/// A plain user, whom nobody has given anything.
fn user() -> Facts {
    let steered = Steered {
        without_ebpf: Some("make table BLOCKS: Operation not permitted".into()),
        descriptors: Availability::Off,
        objects: Availability::Off,
        ipc: Availability::Unavailable { reason: "not permitted".into() },
        ipc_calls: Availability::Off,
        children: Availability::Checked,
        mappings: Availability::Off,
    };
    let trials = vec![Trial { recorder: "ledger", steered: Some(steered), result: Ok(()) }];
    Facts { user: 1000, capabilities: Capabilities(0), trials, ..root() }
}

/// What does not hold, with its state and what mends it.
fn wrong(facts: &Facts) -> Vec<(String, State, String)> {
    let all = requirements(facts).into_iter();
    let wrong = all.filter(|one| one.state != State::Met || one.mend.is_some());
    wrong.map(|one| (one.name, one.state, one.mend.expect("it says what mends it"))).collect()
}

fn names(facts: &Facts) -> Vec<String> {
    wrong(facts).into_iter().map(|(name, ..)| name).collect()
}

/// The one thing that does not hold.
fn only(facts: &Facts) -> (String, State, String) {
    let wrong = wrong(facts);
    let [one] = &wrong[..] else { panic!("{wrong:?}") };
    one.clone()
}

#[test]
fn everything_is_there() {
    let all = requirements(&root());
    assert_eq!(wrong(&root()), []);
    assert_eq!(exit(&all), Exit::Clean);
    assert!(all.len() >= 20, "{}", all.len());
}

#[test]
fn a_plain_user_can_work() {
    let expected = [
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_PTRACE",
        "CAP_SYS_ADMIN",
        "CAP_SYSLOG",
        "eBPF programs",
        "IPC namespaces",
    ];
    assert_eq!(names(&user()), expected);
    assert_eq!(exit(&requirements(&user())), Exit::Incomplete);
}

#[test]
fn what_gives_capabilities_depends_on_who_asks() {
    let mend = |facts: Facts| wrong(&facts)[0].2.clone();
    assert!(mend(user()).starts_with("sudo -E env"));
    let refused = Raised::Refused("sudo: a password is required".into());
    assert_eq!(mend(Facts { raised: refused.clone(), ..user() }), "cargo leakcheck setup");
    let closed = Facts { raised: refused, no_new_privileges: true, ..user() };
    assert!(mend(closed).contains("no-new-privileges=false"));
    // Root without them is root in a container.
    let container = Facts { user: 0, ..user() };
    assert_eq!(mend(container), "docker run --cap-add=BPF …");
}

#[test]
fn the_administrators_capability_is_enough_to_load_programs() {
    let facts = Facts { capabilities: Capabilities(FIVE & !(1 << 38 | 1 << 39)), ..root() };
    assert_eq!(wrong(&facts), []);
}

#[test]
fn each_setting_by_itself() {
    let cases = [
        (Facts { kernel: "6.5.13".into(), ..root() }, "Linux 6.6 or later", State::Reduced),
        (Facts { types: Err("no".into()), ..root() }, "kernel types (BTF)", State::Reduced),
        (Facts { kptr_restrict: Some(2), ..root() }, "kernel.kptr_restrict", State::Reduced),
        (Facts { ptrace_scope: Some(3), ..root() }, "kernel.yama.ptrace_scope", State::Missing),
        (Facts { lockdown: Some("confidentiality".into()), ..root() }, "kernel lockdown", State::Reduced),
        (Facts { proc: Err("strange".into()), ..root() }, "/proc", State::Missing),
        (Facts { cargo: Err("not found".into()), ..root() }, "cargo", State::Missing),
    ];
    for (facts, name, state) in cases {
        let (found, is, _) = only(&facts);
        assert_eq!((found.as_str(), is), (name, state));
    }
}

#[test]
fn what_was_set_up_for_another_version_is_told() {
    let refused = || Setup::Refused("it is another version".into());
    let (name, state, mend) = only(&Facts { setup: refused(), ..root() });
    assert_eq!(
        (name.as_str(), state, mend.as_str()),
        ("cargo leakcheck setup", State::Reduced, "cargo leakcheck setup")
    );
    // Where the capabilities are missing for it, one command mends all of it.
    let all =
        wrong(&Facts { setup: refused(), raised: Raised::Refused("it is another version".into()), ..user() });
    assert!(all.iter().all(|one| one.2 == "cargo leakcheck setup"), "{all:?}");
    assert_eq!(wrong(&Facts { setup: Setup::Works, raised: Raised::BySetup, user: 1000, ..root() }), []);
}

#[test]
fn settings_that_do_no_harm() {
    for facts in [
        Facts { kernel: "10.0".into(), ..root() },
        Facts { kernel: "6.18.44-fc-v657".into(), ..root() },
        Facts { ptrace_scope: None, ..root() },
        Facts { ptrace_scope: Some(2), ..root() },
        Facts { perf_event_paranoid: Some(-1), ..root() },
        Facts { unprivileged_bpf_disabled: Some(1), ..root() },
        Facts { lockdown: None, ..root() },
        Facts { hidepid: Some("2".into()), ..root() },
        Facts { seccomp: true, ..root() },
        // Whom the kernel shows addresses anyway.
        Facts {
            capabilities: Capabilities(FIVE & !(1 << 34)),
            kptr_restrict: Some(0),
            perf_event_paranoid: Some(1),
            ..root()
        },
    ] {
        assert_eq!(wrong(&facts), [], "{facts:?}");
    }
}

#[test]
fn yama_may_want_a_capability() {
    let facts = Facts { ptrace_scope: Some(2), ..user() };
    assert!(names(&facts).iter().any(|name| name == "kernel.yama.ptrace_scope"));
    assert_eq!(exit(&requirements(&facts)), Exit::Tool);
}

#[test]
fn a_filter_is_suspected_where_privileges_do_not_explain_it() {
    let refused = || user().trials;
    let suspected = |facts: Facts| names(&facts).contains(&"seccomp".to_owned());
    assert!(suspected(Facts { seccomp: true, trials: refused(), ..root() }));
    assert!(!suspected(Facts { trials: refused(), ..root() }));
    assert!(!suspected(Facts { seccomp: true, ..user() }));
}

#[test]
fn a_recorder_that_does_not_see_is_told() {
    let blind = |recorder, steered| Trial { recorder, steered, result: Err("nothing found".into()) };
    let mut facts = root();
    facts.trials[1] = blind("uprobe", Some(Steered::default()));
    assert_eq!(only(&facts).1, State::Reduced);
    facts = root();
    facts.trials = vec![blind("ledger", None)];
    let (name, state, _) = only(&facts);
    assert_eq!((name.as_str(), state), ("self-test (ledger)", State::Missing));
}
