//! Where this kernel's files, inodes and processes have what is listed of them.

use leakcheck_common::places;

use super::btf::Btf;

/// Reads them.
///
/// # Errors
/// What the kernel's types have not.
pub fn read(types: &Btf<'_>) -> Result<[u64; places::WORDS], String> {
    let place = |structure: &str, members: &[&str]| {
        let place = types.member(structure, members).map(u64::from);
        place.ok_or_else(|| format!("the kernel's types (BTF) have no {structure}.{}", members.join(".")))
    };
    let mut words = [0; places::WORDS];
    words[places::INODE] = place("file", &["f_inode"])?;
    words[places::NAME] = place("file", &["f_path", "dentry"])?;
    words[places::OPERATIONS] = place("file", &["f_op"])?;
    words[places::PRIVATE] = place("file", &["private_data"])?;
    words[places::INODE_NUMBER] = place("inode", &["i_ino"])?;
    words[places::SUPERBLOCK] = place("inode", &["i_sb"])?;
    let of_ipc = of_namespaces(types).unwrap_or([NOWHERE; places::SIGNAL - places::NAMESPACES]);
    words[places::NAMESPACES..places::SIGNAL].copy_from_slice(&of_ipc);
    let of_timers = [place("task_struct", &["signal"]), place("signal_struct", &["posix_timers"])];
    // A kernel may have none.
    words[places::SIGNAL..].copy_from_slice(&of_timers.map(|place| place.unwrap_or(NOWHERE)));
    Ok(words)
}

/// An offset from which nothing can be read, whatever it is added to: no address of the kernel's.
const NOWHERE: u64 = 1 << 63;

/// The same of IPC namespaces; none where the kernel has them otherwise, and then each is listed.
fn of_namespaces(types: &Btf<'_>) -> Option<[u64; places::SIGNAL - places::NAMESPACES]> {
    let place = |structure: &str, member: &str| types.member(structure, &[member]).map(u64::from);
    let kinds = place("ipc_namespace", "ids")? + place("ipc_ids", "in_use")?;
    let size = u64::from(types.size("ipc_ids")?);
    let [memory, semaphores, messages] = [0, 1, 2].map(|kind| kinds + kind * size);
    let queues = place("ipc_namespace", "mq_queues_count")?;
    Some([
        place("task_struct", "nsproxy")?,
        place("nsproxy", "ipc_ns")?,
        memory,
        semaphores,
        messages,
        queues,
    ])
}
