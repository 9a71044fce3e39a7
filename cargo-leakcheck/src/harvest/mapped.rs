//! Memory that a process leaves mapped, and has mapped in its window. The kernel says what is mapped; the kernel
//! side's account, what of it the test has made: the calls that make and end mappings, in the order of time, say whose each
//! address was last.

use std::collections::BTreeMap;
use std::ops::Range;

use leakcheck_common::{process, site};

use super::files::stack;
use super::layout::overlap;
use super::lost::lost;
use super::places::Places;
use crate::model::LeftMapping;
use crate::snapshot::{Loss, Mapping};
use crate::trace::{Made, MapCall, Process, ProcessRecord, Steering};

/// The calls that have mapped something, and those that have ended it.
pub struct Found {
    calls: Vec<MapCall>,
}

impl Found {
    /// Lists them. None where nothing that was mapped can be left; what was not seen is added to `losses`.
    pub fn of(
        steering: &Steering,
        process: &Process,
        counters: &ProcessRecord,
        losses: &mut Vec<Loss>,
    ) -> Option<Self> {
        let account = steering.kernel()?.map_calls()?.as_ref().ok()?;
        // A child's mappings have ended with it.
        if counters[process::MAPPINGS] == 0 || process.child.is_some() || !process.wanted.mappings {
            return None;
        }
        losses.extend(lost(counters[process::LOST_MAPPINGS], "mapping", |count| Loss::Mappings { count }));
        let calls = account.of(process.pid);
        (!calls.is_empty()).then_some(Self { calls })
    }

    /// Says what of it is left, and where it comes from.
    pub fn describe(mut self, now: &[Mapping], places: &mut Places<'_>) -> Vec<LeftMapping<usize>> {
        for call in self.calls.iter_mut().filter(|call| call.bytes == 0) {
            let attached =
                now.iter().find(|it| it.range.start == call.address && it.path.starts_with(SYSTEM_V));
            call.bytes = attached.map_or(0, |it| it.range.end - it.range.start);
        }
        self.calls.sort_by_key(|call| call.time_ns);
        let mut left: Vec<LeftMapping<usize>> = Vec::new();
        for (number, parts) in owned(&self.calls) {
            let Some(made) = &self.calls[number].made else { continue };
            let parts = parts
                .iter()
                .flat_map(|part| now.iter().filter_map(|it| Some((overlap(part, &it.range)?, it))));
            let kinds = parts.filter_map(|(part, mapping)| Some((part, kind(&mapping.path)?)));
            let mut parts = kinds.filter(|(_, (kind, _))| is_of(made, kind)).peekable();
            let Some((first, (kind, description))) = parts.peek().cloned() else { continue };
            let bytes = parts.map(|(part, _)| part.end - part.start).sum();
            let frames = stack::unwind(&made.place, &mut |address| places.row(address));
            let stack = Some(places.add(frames));
            let call = name(made.call);
            let (description, address) = (description.to_owned(), first.start);
            let alike = |it: &&mut LeftMapping<usize>| {
                (&*it.kind, &it.description, &*it.call, it.stack) == (kind, &description, call, stack)
            };
            match left.iter_mut().find(alike) {
                Some(group) => {
                    group.count += 1;
                    group.bytes += bytes;
                    group.address = group.address.min(address);
                }
                None => {
                    left.push(LeftMapping {
                        kind: kind.into(),
                        description,
                        call: call.into(),
                        count: 1,
                        bytes,
                        address,
                        once: false,
                        stack,
                    });
                }
            }
        }
        left.sort_by_key(|it| (std::cmp::Reverse(it.bytes), it.address));
        left
    }
}

/// What the kernel calls System V shared memory, with its key behind.
const SYSTEM_V: &str = "/SYSV";
/// What the kernel adds to the name of a file that has none.
const DELETED: &str = " (deleted)";

/// What is mapped, by the name that the kernel gives it (proc_pid_maps(5)), and which one. None for what is no
/// mapping of a program's own making.
fn kind(path: &str) -> Option<(&'static str, &str)> {
    let unlinked = path.strip_suffix(DELETED);
    match unlinked {
        Some("/dev/zero") => return Some(("shared anonymous", "")),
        Some("/anon_hugepage") => return Some(("anonymous", "")),
        _ => {}
    }
    if let Some(name) = unlinked.and_then(|path| path.strip_prefix("/memfd:")) {
        Some(("memfd", name))
    } else if path.starts_with(SYSTEM_V) {
        Some(("shared memory", ""))
    } else if path.is_empty() || path.starts_with("[anon:") || path.starts_with("[anon_shmem:") {
        Some(("anonymous", ""))
    } else if path.starts_with('[') {
        None
    } else {
        Some(("file", path))
    }
}

/// Whether what is mapped can have been made so. What has come to its place without being seen is the loader's,
/// for instance.
fn is_of(made: &Made, kind: &str) -> bool {
    !made.is_anonymous || kind.contains("anonymous")
}

/// The function of a call.
fn name(site: u64) -> &'static str {
    match site {
        site::ATTACHED => "shmat",
        site::MOVED => "mremap",
        _ => "mmap",
    }
}

/// What addresses are still those of a call that has mapped them, by the calls' places in the list, which is in
/// the order of time.
fn owned(calls: &[MapCall]) -> BTreeMap<usize, Vec<Range<u64>>> {
    // By their starts: their ends, and who has made them. They do not overlap.
    let mut parts: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        let range = call.address..call.address.saturating_add(call.bytes);
        if range.is_empty() {
            continue;
        }
        let before = parts.range(..range.start).next_back().map(|(start, part)| (*start, *part));
        let inside: Vec<_> = parts.range(range.clone()).map(|(start, part)| (*start, *part)).collect();
        for (start, (end, owner)) in before.into_iter().chain(inside) {
            // The addresses of what was unmapped may have been another thread's before the call was back.
            let sure = call.made.is_some() || [0, calls[owner].thread].contains(&call.thread);
            if end <= range.start || !sure {
                continue;
            }
            parts.remove(&start);
            if start < range.start {
                parts.insert(start, (range.start, owner));
            }
            if end > range.end {
                parts.insert(range.end, (end, owner));
            }
        }
        if call.made.is_some() {
            parts.insert(range.start, (range.end, number));
        }
    }
    let mut owned: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
    for (start, (end, owner)) in parts {
        owned.entry(owner).or_default().push(start..end);
    }
    owned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of a thread, which maps or unmaps at a time.
    fn call(number: u64, maps: bool, range: Range<u64>, thread: u64, time_ns: u64) -> MapCall {
        let place = Box::new([number; leakcheck_common::file::WORDS]);
        let made = maps.then_some(Made { call: site::MAPPED, is_anonymous: true, place });
        MapCall { time_ns, thread, address: range.start, bytes: range.end - range.start, made }
    }

    fn ranges(calls: &[(bool, Range<u64>)]) -> Vec<(usize, Vec<(u64, u64)>)> {
        let calls = calls.iter().zip(0..).map(|((maps, range), it)| call(it, *maps, range.clone(), 1, it));
        let owned = owned(&calls.collect::<Vec<_>>()).into_iter();
        owned.map(|(it, parts)| (it, parts.iter().map(|part| (part.start, part.end)).collect())).collect()
    }

    #[test]
    fn an_address_is_whose_who_mapped_it_last() {
        let (map, unmap) = (true, false);
        assert_eq!(ranges(&[(map, 10..20)]), [(0, vec![(10, 20)])]);
        assert_eq!(ranges(&[(map, 10..20), (unmap, 10..20)]), []);
        // A hole, both ends, over the end.
        assert_eq!(ranges(&[(map, 10..20), (unmap, 12..15)]), [(0, vec![(10, 12), (15, 20)])]);
        assert_eq!(ranges(&[(map, 10..20), (unmap, 5..12), (unmap, 18..30)]), [(0, vec![(12, 18)])]);
        // Over an own one, and over several.
        assert_eq!(
            ranges(&[(map, 10..20), (map, 12..15)]),
            [(0, vec![(10, 12), (15, 20)]), (1, vec![(12, 15)])]
        );
        let over = [(map, 10..20), (map, 20..30), (map, 30..40), (map, 15..35)];
        assert_eq!(ranges(&over), [(0, vec![(10, 15)]), (2, vec![(35, 40)]), (3, vec![(15, 35)])]);
        // What was unmapped and mapped again.
        assert_eq!(ranges(&[(map, 10..20), (unmap, 10..20), (map, 10..15)]), [(2, vec![(10, 15)])]);
        assert_eq!(ranges(&[(map, 10..10)]), []);
    }

    #[test]
    fn what_another_thread_has_mapped_is_not_surely_what_was_unmapped() {
        let owned_after = |maps, thread| {
            let calls = [call(0, true, 10..20, 1, 100), call(1, maps, 0..30, thread, 101)];
            owned(&calls).contains_key(&0)
        };
        assert!(!owned_after(false, 1), "by the thread itself");
        assert!(owned_after(false, 2), "by another one, whose call may have begun before");
        assert!(!owned_after(true, 2), "another one has mapped there since");
        assert!(!owned_after(false, 0), "something that is not the test's is mapped there since");
    }

    #[test]
    fn kinds_are_told_by_the_kernels_names() {
        assert_eq!(kind(""), Some(("anonymous", "")));
        assert_eq!(kind("/dev/zero (deleted)"), Some(("shared anonymous", "")));
        assert_eq!(kind("/memfd:a b (deleted)"), Some(("memfd", "a b")));
        assert_eq!(kind("/SYSV0000002a (deleted)"), Some(("shared memory", "")));
        assert_eq!(kind("/tmp/a (deleted)"), Some(("file", "/tmp/a (deleted)")));
        assert_eq!(kind("anon_inode:[io_uring]"), Some(("file", "anon_inode:[io_uring]")));
        assert_eq!(kind("[heap]"), None);
    }
}
