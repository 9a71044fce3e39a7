//! How a run was steered.

/// Who has told the recorder of bodies, threads and exits, and what could be looked at besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Why there were no eBPF programs; none where there were.
    pub without_ebpf: Option<String>,
    /// Whether descriptors were looked at; never without eBPF.
    pub descriptors: Availability,
}

/// Whether something is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// It is.
    #[default]
    Checked,
    /// The user does not want it.
    Off,
    /// It cannot be.
    Unavailable {
        /// Why.
        reason: String,
    },
}

const DESCRIPTORS: &str = "descriptors that are left open";

impl Steered {
    /// The public name of who it was.
    pub fn by(&self) -> &'static str {
        if self.without_ebpf.is_some() { "ptrace" } else { "ebpf" }
    }

    /// What can therefore not be checked.
    pub fn checks_off(&self) -> &'static [&'static str] {
        match (&self.without_ebpf, &self.descriptors) {
            (Some(_), _) => &[
                "tests that make their memory unreadable (`prctl(PR_SET_DUMPABLE)`)",
                "whether a test's own thread finds an allocator by `dlsym` in a library",
                DESCRIPTORS,
            ],
            (None, Availability::Checked) => &[],
            (None, Availability::Off | Availability::Unavailable { .. }) => &[DESCRIPTORS],
        }
    }

    /// For people: what is otherwise than usual.
    pub fn note(&self) -> Option<String> {
        if let (None, Availability::Unavailable { reason }) = (&self.without_ebpf, &self.descriptors) {
            return Some(format!("descriptors: not available: {reason}"));
        }
        let reason = self.without_ebpf.as_ref()?;
        let off = self.checks_off().join(", ");
        Some(format!(
            "eBPF is not available ({reason}): ptrace with hardware breakpoints takes its place; not checked: {off}"
        ))
    }
}
