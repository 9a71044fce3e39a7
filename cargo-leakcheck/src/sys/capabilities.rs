//! Capabilities: which of them there are, and which this thread has.

use nix::errno::Errno;

/// A capability that the tool has a use for; the number is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Look into processes that are not dumpable.
    SysPtrace = 19,
    /// Make IPC namespaces.
    SysAdmin = 21,
    /// See addresses of the kernel's functions.
    Syslog = 34,
    /// Load eBPF programs that read memory.
    Perfmon = 38,
    /// Load eBPF programs at all.
    Bpf = 39,
}

impl Capability {
    /// All that the tool has a use for, the most important first.
    pub const ALL: [Self; 5] = [Self::Bpf, Self::Perfmon, Self::SysPtrace, Self::SysAdmin, Self::Syslog];

    /// Its name, as other tools have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Syslog => "CAP_SYSLOG",
        }
    }
}

/// A set of capabilities, a bit for each of the kernel's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Whether it is there. The kernel takes `CAP_SYS_ADMIN` for `CAP_BPF` and `CAP_PERFMON` too.
    pub fn has(self, capability: Capability) -> bool {
        let bit = |capability: Capability| self.0 >> capability as u8 & 1 == 1;
        let implied = matches!(capability, Capability::Bpf | Capability::Perfmon);
        bit(capability) || implied && bit(Capability::SysAdmin)
    }

    /// Those of a list that are in it by themselves.
    pub(super) fn of(self, list: &[Capability]) -> Self {
        Self(self.0 & list.iter().map(|capability| 1 << *capability as u8).sum::<u64>())
    }
}

/// The header of `capget` and `capset` (include/uapi/linux/capability.h).
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

impl Header {
    /// The third version, this thread.
    const OWN: Self = Self { version: 0x2008_0522, pid: 0 };
}

/// Their data: one of these for each 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The capabilities that this thread has now.
pub fn capabilities() -> Capabilities {
    own_sets(|sets| sets.effective)
}

/// The capabilities that this thread has, or may give itself.
pub fn permitted() -> Capabilities {
    own_sets(|sets| sets.permitted)
}

fn own_sets(part: impl Fn(Sets) -> u32) -> Capabilities {
    let mut sets = [Sets::default(); 2];
    let mut header = Header::OWN;
    // SAFETY: the third version has two sets; both live during the call. It cannot fail for the own thread,
    // and would leave the sets empty.
    unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    Capabilities(u64::from(part(sets[0])) | u64::from(part(sets[1])) << 32)
}

/// Does something while a capability is not in effect for this thread, and what `work` says.
pub(super) fn without<T>(capability: Capability, work: impl FnOnce() -> T) -> T {
    with_effective(Capabilities(capabilities().0 & !(1 << capability as u8)), work)
}

/// Does something while the capabilities that the tool has a use for are in effect, as far as this thread may have them:
/// for it, and for the threads that it starts. What `work` says.
pub fn awake<T>(work: impl FnOnce() -> T) -> T {
    with_effective(Capabilities(capabilities().0 | permitted().of(&Capability::ALL).0), work)
}

/// Does something while none of them is in effect where the user is not root, as reading files that the user names.
pub fn asleep<T>(work: impl FnOnce() -> T) -> T {
    let own = if super::user() == 0 { 0 } else { capabilities().of(&Capability::ALL).0 };
    with_effective(Capabilities(capabilities().0 & !own), work)
}

fn with_effective<T>(wanted: Capabilities, work: impl FnOnce() -> T) -> T {
    let (effective, permitted) = (capabilities(), permitted());
    // What is permitted may always be taken out of effect, and put back. Nothing is to be inherited in any case.
    let change = |to| set(to, permitted, Capabilities::default());
    let is_changed = wanted != effective && change(wanted).is_ok();
    let result = work();
    if is_changed {
        let _ = change(effective);
    }
    result
}

/// Takes the capabilities that the tool has a use for out of effect, until they are [`awake`].
pub(super) fn put_to_sleep() -> Result<(), Errno> {
    let permitted = permitted();
    let rest = Capabilities(capabilities().0 & !permitted.of(&Capability::ALL).0);
    set(rest, permitted, Capabilities::default())
}

fn set(effective: Capabilities, permitted: Capabilities, inheritable: Capabilities) -> Result<(), Errno> {
    let part = |shift: u32| {
        let part = |set: Capabilities| (set.0 >> shift) as u32;
        Sets { effective: part(effective), permitted: part(permitted), inheritable: part(inheritable) }
    };
    let (mut header, sets) = (Header::OWN, [part(0), part(32)]);
    // SAFETY: the third version has two sets; both live during the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) }).map(drop)
}

/// Makes a set all that this thread has, and what it hands on to a program that it executes if `inherited`.
///
/// # Errors
/// It has not all of them.
pub(super) fn set_capabilities(set: Capabilities, inherited: bool) -> Result<(), Errno> {
    self::set(set, set, if inherited { set } else { Capabilities::default() })?;
    let ambient = |operation: libc::c_int, capability: libc::c_ulong| {
        // SAFETY: the call takes numbers only.
        Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, operation, capability, 0, 0) }).map(drop)
    };
    ambient(libc::PR_CAP_AMBIENT_CLEAR_ALL, 0)?;
    for number in (0..64).filter(|number| inherited && set.0 >> number & 1 == 1) {
        ambient(libc::PR_CAP_AMBIENT_RAISE, number)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_that_proc_shows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let shown = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        assert_eq!(capabilities().0, u64::from_str_radix(shown.trim(), 16).unwrap());
    }

    #[test]
    fn one_is_out_of_effect_for_a_while() {
        let before = capabilities();
        let within = without(Capability::Syslog, capabilities);
        assert_eq!(within.0, before.0 & !(1 << 34));
        assert_eq!(capabilities(), before);
    }

    /// Of this test's thread alone. Without privileges there are none to begin with.
    #[test]
    fn what_sleeps_is_in_effect_where_it_is_needed() {
        let permitted = permitted();
        let has = |capability| capabilities().0 >> capability as u8 & 1 == 1;
        put_to_sleep().unwrap();
        assert!(!has(Capability::SysPtrace));
        let may = permitted.0 >> Capability::SysPtrace as u8 & 1 == 1;
        let within = awake(|| {
            let started = std::thread::spawn(move || has(Capability::SysPtrace)).join().unwrap();
            (has(Capability::SysPtrace), started)
        });
        assert_eq!(within, (may, may));
        assert!(!has(Capability::SysPtrace));
        assert_eq!(super::permitted(), permitted);
    }

    /// The bits of `CAP_SYS_ADMIN` and `CAP_SYS_PTRACE` in include/uapi/linux/capability.h are 21 and 19.
    #[test]
    fn administrators_may_load_programs() {
        let administrator = Capabilities(1 << 21);
        assert!(administrator.has(Capability::Bpf) && administrator.has(Capability::Perfmon));
        assert!(!administrator.has(Capability::SysPtrace) && !administrator.has(Capability::Syslog));
        assert!(Capabilities(1 << 19).has(Capability::SysPtrace));
        assert!(!Capabilities(!(1 << 21 | 1 << 39)).has(Capability::Bpf));
    }
}
