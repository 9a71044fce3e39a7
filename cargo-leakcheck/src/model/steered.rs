//! How a run was steered.

/// Who has told the recorder of bodies, threads and exits, and what could be looked at besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Why there were no eBPF programs; none where there were.
    pub without_ebpf: Option<String>,
    /// Whether descriptors were looked at; never without eBPF.
    pub descriptors: Availability,
    /// Whether it can be said what those hold in the kernel, and what the kernel has allocated; never without eBPF.
    pub objects: Availability,
    /// Whether tests had IPC namespaces of their own, and what was left there was looked at.
    pub ipc: Availability,
    /// Whether calls that make IPC objects were noted; never without eBPF.
    pub ipc_calls: Availability,
    /// Whether processes and threads were looked at; without the kernel side's account, only those that
    /// `/proc` shows as the test's.
    pub children: Availability,
    /// Whether mappings were looked at; never without eBPF.
    pub mappings: Availability,
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
const OBJECTS: &str = "what descriptors hold in the kernel";
const IPC: &str = "System V IPC objects and POSIX queues that are left behind";
const SHARED: &str = "POSIX shared memory and semaphores that are left behind";
const CHILDREN: &str = "children, threads and timers that are left behind";
const MAPPINGS: &str = "memory that is left mapped";
const ORPHANS: &str = "processes that have outlived the child that had started them";

impl Steered {
    /// The public name of who it was.
    pub fn by(&self) -> &'static str {
        if self.without_ebpf.is_some() { "ptrace" } else { "ebpf" }
    }

    /// What can therefore not be checked.
    pub fn checks_off(&self) -> Vec<&'static str> {
        let mut off = Vec::new();
        let without = self.without_ebpf.is_some();
        if without {
            off.push("tests that make their memory unreadable (`prctl(PR_SET_DUMPABLE)`)");
            off.push("whether a test's own thread finds an allocator by `dlsym` in a library");
        }
        if without || self.descriptors != Availability::Checked {
            off.push(DESCRIPTORS);
        }
        if without || [&self.descriptors, &self.objects].iter().any(|it| **it != Availability::Checked) {
            off.push(OBJECTS);
        }
        if self.ipc != Availability::Checked {
            off.push(IPC);
        }
        // By these calls they are known, without a namespace.
        if without || self.ipc_calls != Availability::Checked {
            off.push(SHARED);
        }
        match self.children {
            Availability::Off => off.push(CHILDREN),
            Availability::Checked if !without => {}
            Availability::Checked | Availability::Unavailable { .. } => off.push(ORPHANS),
        }
        if without || self.mappings != Availability::Checked {
            off.push(MAPPINGS);
        }
        off
    }

    /// What has steered a run whose report says so: why it was not eBPF, and what was not checked.
    pub fn told(without_ebpf: Option<String>, checks_off: &[String]) -> Self {
        let is_off = |what: &str| checks_off.iter().any(|off| off == what);
        let without = without_ebpf.is_some();
        let unless = |off: bool| if off { Availability::Off } else { Availability::Checked };
        let children = match (is_off(CHILDREN), is_off(ORPHANS) && !without) {
            (true, _) => Availability::Off,
            (_, true) => Availability::Unavailable { reason: "as the report of the run says".to_owned() },
            (false, false) => Availability::Checked,
        };
        Self {
            descriptors: unless(is_off(DESCRIPTORS)),
            objects: unless(is_off(OBJECTS)),
            ipc: unless(is_off(IPC)),
            ipc_calls: unless(is_off(SHARED)),
            children,
            mappings: unless(is_off(MAPPINGS)),
            without_ebpf,
        }
    }

    /// What was checked by both of two runs.
    pub fn and(self, other: Self) -> Self {
        let both = |one: Availability, other: Availability| match one {
            Availability::Checked => other,
            one => one,
        };
        Self {
            without_ebpf: self.without_ebpf.or(other.without_ebpf),
            descriptors: both(self.descriptors, other.descriptors),
            objects: both(self.objects, other.objects),
            ipc: both(self.ipc, other.ipc),
            ipc_calls: both(self.ipc_calls, other.ipc_calls),
            children: both(self.children, other.children),
            mappings: both(self.mappings, other.mappings),
        }
    }

    /// For people: what is otherwise than usual.
    pub fn note(&self) -> Option<String> {
        if let Some(reason) = &self.without_ebpf {
            let off = self.checks_off().join(", ");
            return Some(format!(
                "eBPF is not available ({reason}): ptrace with hardware breakpoints takes its place; not checked: {off}"
            ));
        }
        let parts = [
            ("descriptors", &self.descriptors),
            ("what they hold in the kernel", &self.objects),
            ("System V IPC and POSIX queues", &self.ipc),
            ("calls that make IPC objects", &self.ipc_calls),
            ("what children have left", &self.children),
            ("mappings", &self.mappings),
        ];
        let unavailable = parts.iter().filter_map(|(what, availability)| match availability {
            Availability::Unavailable { reason } => Some(format!("{what}: not available: {reason}")),
            Availability::Checked | Availability::Off => None,
        });
        let notes = unavailable.collect::<Vec<_>>().join("; ");
        (!notes.is_empty()).then_some(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_tells_is_told_again() {
        let no = || Availability::Unavailable { reason: "no".into() };
        for without_ebpf in [None, Some("x".to_owned())] {
            for children in [Availability::Checked, Availability::Off, no()] {
                for other in [Availability::Checked, no()] {
                    let steered = Steered {
                        without_ebpf: without_ebpf.clone(),
                        objects: other.clone(),
                        ipc: other.clone(),
                        mappings: other,
                        children: children.clone(),
                        ..Steered::default()
                    };
                    let off: Vec<_> = steered.checks_off().into_iter().map(str::to_owned).collect();
                    let told = Steered::told(without_ebpf.clone(), &off);
                    assert_eq!((told.by(), told.checks_off()), (steered.by(), steered.checks_off()));
                    let all = Steered::default().and(steered.clone());
                    assert_eq!((all.by(), all.checks_off()), (steered.by(), steered.checks_off()));
                }
            }
        }
    }

    #[test]
    fn what_is_not_available_is_said_once_and_the_rest_is_checked() {
        let reason = || Availability::Unavailable { reason: "no".into() };
        let seen = |without_ebpf: Option<&str>,
                    descriptors: Availability,
                    ipc: Availability,
                    children: Availability| {
            let ipc_calls = if ipc == Availability::Off { ipc.clone() } else { Availability::Checked };
            let without_ebpf = without_ebpf.map(str::to_owned);
            let (objects, mappings) = (descriptors.clone(), children.clone());
            let steered = Steered { without_ebpf, descriptors, objects, ipc, ipc_calls, children, mappings };
            (steered.checks_off(), steered.note())
        };
        let (checked, off) = (|| Availability::Checked, || Availability::Off);
        assert_eq!(seen(None, checked(), checked(), checked()), (vec![], None));
        // What the user has turned off is no news.
        assert_eq!(
            seen(None, off(), off(), off()),
            (vec![DESCRIPTORS, OBJECTS, IPC, SHARED, CHILDREN, MAPPINGS], None)
        );
        let note = "System V IPC and POSIX queues: not available: no";
        assert_eq!(seen(None, checked(), reason(), checked()), (vec![IPC], Some(note.into())));
        let all = format!(
            "descriptors: not available: no; what they hold in the kernel: not available: no; {note}; what children have left: not available: no; mappings: not available: no"
        );
        assert_eq!(
            seen(None, reason(), reason(), reason()),
            (vec![DESCRIPTORS, OBJECTS, IPC, ORPHANS, MAPPINGS], Some(all))
        );
        let (off, note) = seen(Some("x"), Availability::Off, checked(), checked());
        assert_eq!(off[2..], [DESCRIPTORS, OBJECTS, SHARED, ORPHANS, MAPPINGS]);
        assert!(note.unwrap().ends_with(&format!("not checked: {}", off.join(", "))));
    }
}
