//! Loads the committed eBPF object: aya-obj parses and relocates it, aya makes the tables. Only the
//! last step is our own, because aya's programs cannot be attached by `uprobe_multi`.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use aya::maps::MapData;
use aya_obj::generated::bpf_map_type;
use aya_obj::{EbpfSectionKind, Map, Object, ProgramSection};
use object::{Object as _, ObjectSection as _};

use super::btf::{Btf, Parameter};
use crate::error::{Error, Result};
use crate::sys::{self, ProgramKind};

#[cfg(target_arch = "x86_64")]
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/leakcheck.x86_64.o");

/// The instructions of programs by name.
pub type Programs = HashMap<String, Vec<[u8; 8]>>;

/// What was loaded.
pub struct Loaded {
    /// Programs for probes, by name.
    pub programs: HashMap<String, OwnedFd>,
    /// The instructions of all others, which are not loaded yet: the tool can do without them.
    /// They name tables by the numbers of their descriptors, so `tables` must be there when they are.
    pub others: Programs,
    /// Tables by name.
    pub tables: HashMap<String, MapData>,
}

/// Whether the kernel takes programs from us, tried with a small one: to have it verify all of them takes
/// longer than a test.
///
/// # Errors
/// No privileges, or the kernel refuses something.
pub fn check() -> Result<()> {
    const HASHES: [bpf_map_type; 3] = [
        bpf_map_type::BPF_MAP_TYPE_HASH,
        bpf_map_type::BPF_MAP_TYPE_PERCPU_HASH,
        bpf_map_type::BPF_MAP_TYPE_LRU_HASH,
    ];
    // Arrays are as large as the programs need them.
    let may_be_small = |map: &Map| HASHES.iter().any(|kind| *kind as u32 == map.map_type());
    load_those(|_, map| may_be_small(map).then_some(1), |program| program == "exit").map(drop)
}

/// Loads the programs and makes the tables, with `sizes` as their entries; programs that record allocations
/// only if `records`: most of what the kernel has to verify is theirs.
///
/// # Errors
/// No privileges, or the kernel refuses something.
pub fn load(sizes: &[(&str, u32)], records: bool) -> Result<Loaded> {
    const RECORD: [&str; 4] = ["allocate", "allocated", "deallocate", "outer"];
    let size = |name: &str| sizes.iter().find(|(sized, _)| *sized == name).map(|(_, entries)| *entries);
    load_those(|name, _| size(name), |program| records || !RECORD.contains(&program))
}

/// `size` says how many entries a table is to have, if not as many as the object says.
fn load_those(size: impl Fn(&str, &Map) -> Option<u32>, wanted: impl Fn(&str) -> bool) -> Result<Loaded> {
    check_version()?;
    let invalid = |error: &dyn std::error::Error| Error::Kernel {
        what: "read the committed eBPF object".into(),
        reason: error.to_string(),
    };
    let mut object = Object::parse(OBJECT).map_err(|error| invalid(&error))?;
    let mut tables = HashMap::new();
    let mut definitions = Vec::new();
    // One order, so that a refusal has one reason.
    let mut maps: Vec<_> = object.maps.drain().collect();
    maps.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (name, mut map) in maps {
        // Constants are for this tool to read, not for the programs.
        if map.section_kind() == EbpfSectionKind::Rodata {
            continue;
        }
        if let Some(entries) = size(&name, &map) {
            map.set_max_entries(entries);
        }
        let table = MapData::create(map.clone(), &name, None)
            .map_err(|error| refused(&format!("make table {name}"), &error))?;
        definitions.push((name.clone(), table.fd().as_fd().as_raw_fd(), map));
        tables.insert(name, table);
    }
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    let descriptors = definitions.iter().map(|(name, fd, map)| (name.as_str(), *fd, map));
    object.relocate_maps(descriptors, &sections).map_err(|error| invalid(&error))?;
    object.relocate_calls(&sections).map_err(|error| invalid(&error))?;
    let (mut programs, mut others) = (HashMap::new(), HashMap::new());
    for (name, program) in &object.programs {
        let function = &object.functions[&program.function_key()];
        let instructions: Vec<[u8; 8]> = function.instructions.iter().map(encode).collect();
        let is_list = matches!(program.section, ProgramSection::RawTracePoint | ProgramSection::Iter { .. });
        if is_list || [super::ipc::PROGRAM, super::mappings::PROGRAM].contains(&name.as_str()) {
            others.insert(name.clone(), instructions);
            continue;
        }
        if !wanted(name) {
            continue;
        }
        let loaded = sys::load_program(ProgramKind::Uprobe, name, &instructions);
        let program = loaded.map_err(|(errno, log)| {
            let io = std::io::Error::from(errno);
            match refused(&format!("load program {name}"), &io) {
                Error::Kernel { what, reason } if errno == nix::errno::Errno::EINVAL => {
                    let reason = format!("{reason} ({log}); Linux 6.6 or later is needed");
                    Error::Kernel { what, reason }
                }
                error => error,
            }
        })?;
        programs.insert(name.clone(), program);
    }
    Ok(Loaded { programs, others, tables })
}

/// Loads one of the programs that the tool can do without.
///
/// # Errors
/// Why the kernel does not take it.
pub fn load_other(
    programs: &Programs,
    kind: ProgramKind,
    name: &str,
) -> std::result::Result<OwnedFd, String> {
    sys::load_program(kind, name, &programs[name])
        .map_err(|(errno, log)| format!("the kernel refuses program {name}: {errno} {log}"))
}

/// Loads such a program and lets it run at a tracepoint, of whose arguments it reads those in `wanted`.
///
/// # Errors
/// The kernel has the tracepoint otherwise, or refuses.
pub fn attach_other(
    programs: &Programs,
    types: &Btf<'_>,
    tracepoint: &str,
    name: &str,
    wanted: &[Parameter],
) -> std::result::Result<OwnedFd, String> {
    check_tracepoint(types, tracepoint, wanted)?;
    let program = load_other(programs, ProgramKind::Tracepoint, name)?;
    sys::attach_tracepoint(program.as_fd(), tracepoint)
        .map_err(|errno| format!("the kernel refuses its tracepoint {tracepoint}: {errno}"))
}

/// Makes sure that a tracepoint has arguments as they are read.
///
/// # Errors
/// The kernel has it otherwise.
pub fn check_tracepoint(
    types: &Btf<'_>,
    tracepoint: &str,
    wanted: &[Parameter],
) -> std::result::Result<(), String> {
    let parameters = types.tracepoint(tracepoint);
    let parameters = parameters.ok_or_else(|| format!("the kernel has no tracepoint {tracepoint}"))?;
    if parameters.starts_with(wanted) {
        return Ok(());
    }
    Err(format!("the kernel's tracepoint {tracepoint} has other arguments: {parameters:?}"))
}

/// `struct bpf_insn` as bytes (include/uapi/linux/bpf.h).
fn encode(instruction: &aya_obj::generated::bpf_insn) -> [u8; 8] {
    let registers = instruction.src_reg() << 4 | instruction.dst_reg();
    let [offset_0, offset_1] = instruction.off.to_le_bytes();
    let [a, b, c, d] = instruction.imm.to_le_bytes();
    [instruction.code, registers, offset_0, offset_1, a, b, c, d]
}

/// Refuses an object whose records have another layout.
fn check_version() -> Result<()> {
    let version = object::File::parse(OBJECT).ok().and_then(|file| {
        let data = file.section_by_name(".rodata.ABI")?.data().ok()?;
        Some(u32::from_ne_bytes(data.try_into().ok()?))
    });
    if version == Some(leakcheck_common::ABI_VERSION) {
        return Ok(());
    }
    Err(Error::Kernel {
        what: "load the committed eBPF object".into(),
        reason: format!(
            "its record version is {version:?}, this build needs {}",
            leakcheck_common::ABI_VERSION
        ),
    })
}

/// What the kernel's refusal means: mostly missing privileges.
pub fn refused(what: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut reason = error.to_string();
    let mut source = Some(error);
    let mut code = None;
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            code = io.raw_os_error();
            // `what` has said the rest.
            reason = io.to_string();
        }
        source = error.source();
    }
    match code {
        Some(libc::EPERM | libc::EACCES) => Error::Privileges { reason: format!("{what}: {reason}") },
        _ => Error::Kernel { what: what.into(), reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_keep_their_encoding() {
        // `r1 = *(u64 *)(r10 - 8)`, by the instruction set's document (Documentation/bpf/standardization).
        let bytes = [0x79, 0xa1, 0xf8, 0xff, 0, 0, 0, 0];
        let parsed = aya_obj::copy_instructions(&bytes).unwrap();
        assert_eq!(parsed.iter().map(encode).collect::<Vec<_>>(), [bytes]);
    }

    #[test]
    fn the_committed_object_is_of_this_version() {
        check_version().unwrap();
    }

    #[test]
    fn missing_privileges_are_told_from_missing_features() {
        let error = |code| refused("x", &std::io::Error::from_raw_os_error(code));
        assert!(matches!(error(libc::EPERM), Error::Privileges { .. }));
        assert!(matches!(error(libc::EINVAL), Error::Kernel { .. }));
    }
}
