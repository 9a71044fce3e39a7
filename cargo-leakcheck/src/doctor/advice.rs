//! What mends what is missing: one command, where there is one. Pure.

use super::facts::Facts;
use crate::options::Raised;
use crate::raise::installed::Setup;
use crate::sys::Capability;

/// Who has given the capabilities.
pub(super) fn whose(facts: &Facts) -> String {
    match (&facts.raised, facts.user) {
        (Raised::BySudo, _) => "yes, raised by sudo for the tracer only",
        (Raised::BySetup, _) => "yes, raised by `cargo leakcheck setup` for the tracer only",
        (_, 0) => "yes, as root",
        _ => "yes",
    }
    .to_owned()
}

/// How a capability is had.
pub(super) fn capability(facts: &Facts, capability: Capability) -> String {
    if facts.user == 0 {
        let name = capability.name().trim_start_matches("CAP_");
        return format!("docker run --cap-add={name} …");
    }
    if facts.no_new_privileges {
        return "docker run --security-opt no-new-privileges=false … (sudo has no effect here)".to_owned();
    }
    match &facts.raised {
        // Once with a password, from then on without.
        Raised::Refused(reason) if reason.contains("password") => "cargo leakcheck setup".to_owned(),
        _ if matches!(facts.setup, Setup::Refused(_)) => "cargo leakcheck setup".to_owned(),
        _ => "sudo -E env \"PATH=$PATH\" cargo leakcheck doctor".to_owned(),
    }
}

/// How what is set up works again.
pub(super) fn setup(facts: &Facts) -> String {
    let command = if facts.no_new_privileges {
        "docker run --security-opt no-new-privileges=false …"
    } else {
        "cargo leakcheck setup"
    };
    command.to_owned()
}

/// How eBPF is had, where its programs were refused.
pub(super) fn ebpf(facts: &Facts) -> String {
    let missing =
        [Capability::Bpf, Capability::Perfmon].into_iter().find(|one| !facts.capabilities.has(*one));
    match missing {
        Some(missing) => capability(facts, missing),
        None if facts.seccomp => "docker run --privileged …".to_owned(),
        None => "install a later kernel".to_owned(),
    }
}

/// How a part of it is had.
pub(super) fn part(facts: &Facts) -> String {
    let missing = Capability::ALL.into_iter().find(|one| !facts.capabilities.has(*one));
    missing.map_or_else(|| ebpf(facts), |missing| capability(facts, missing))
}

/// What to do where the tool does not see what it has planted.
pub(super) fn self_test(facts: &Facts) -> String {
    if facts.seccomp {
        "docker run --cap-add=SYS_PTRACE …".to_owned()
    } else {
        "mend what is above; otherwise report it with the output of `cargo leakcheck doctor --json`"
            .to_owned()
    }
}
