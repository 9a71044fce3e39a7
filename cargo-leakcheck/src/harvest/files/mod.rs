//! Descriptors that a process leaves open. Two lists of its own table say which there are: one from the beginning of its
//! window, one from its end. Which of the files the test has made, and where, the kernel side's account says, if
//! that was taken.

pub(super) mod calls;
mod compare;
mod describe;
mod holds;
pub(super) mod stack;

use std::collections::BTreeMap;

use leakcheck_common::{file, process};
use nix::unistd::Pid;

use super::Threads;
use super::lost::lost;
use super::places::Places;
use crate::model::Descriptor;
use crate::snapshot::{Loss, OfOthers};
use crate::trace::{FileRecord, Files, Objects, OpenFile, Process, ProcessRecord, Steering};
use compare::Compared;

/// The kernel's functions that allocate what is no file's: routes, which connections share; the allocator's own notes of
/// whose the objects of a slab are; what a thread has for all of its rings.
const SHARED: [&str; 3] = ["dst_alloc", "alloc_slab_obj_exts", "io_uring_alloc_task_context"];
/// Those that take memory which nobody clears: a ring's store of requests, which is empty at first, and the bytes of packets.
const UNCLEARED: [&str; 2] = ["io_alloc_cache_init", "kmalloc_reserve"];

/// What is lost where descriptors were not listed at the beginning of the window. A body that was never entered is a loss of
/// its own.
fn not_listed(counters: &ProcessRecord) -> Option<Loss> {
    let reason = "its thread was not stopped at the beginning of the test's body";
    (counters[process::BODIES] > 0).then(|| Loss::Descriptors { reason: reason.into() })
}

/// The open descriptors of a process, or why they cannot be listed.
pub type Listed = Result<Vec<OpenFile>, String>;

/// Lists those of a process that is kept at its exit; none where nobody looks at them, or nobody can.
pub fn list(steering: &Steering, process: &Process) -> Option<Listed> {
    let files = steering.kernel()?.files()?.as_ref().ok()?;
    // Those of children end with them.
    let is_wanted = process.wanted.files && process.held.is_some();
    is_wanted.then(|| files.open(process.pid))
}

/// Whether a process is in the IPC namespace that it was in when its window began, and nothing is there.
pub fn has_empty_namespace(process: &Process, open: Option<&Listed>) -> bool {
    let (Some(Ok(before)), Some(Ok(open))) = (&process.before, open) else { return false };
    let (Some(before), Some(now)) = (before.first(), open.first()) else { return false };
    now.namespace.is_empty_as(&before.namespace)
}

/// Whether a process is known to have no timers.
pub fn has_no_timers(open: Option<&Listed>) -> bool {
    open.is_some_and(|open| open.as_ref().is_ok_and(|open| open.first().is_some_and(|it| !it.has_timers)))
}

/// The descriptors of a process that are its test's.
pub struct Opened<'a> {
    files: &'a Files,
    process: Pid,
    /// The kernel's objects, where they are recorded, all of them.
    objects: Option<&'a Objects>,
    /// By the addresses of their files: the numbers, and who made it, where that was seen.
    by_file: BTreeMap<u64, (Vec<u32>, Option<FileRecord>)>,
    /// Duplicates of descriptors from before, by the addresses of their files: the numbers, and which was there before.
    duplicates: BTreeMap<u64, (Vec<u32>, u32)>,
    /// Of files that others have made, by their addresses: the numbers.
    of_others: BTreeMap<u64, Vec<u32>>,
}

impl<'a> Opened<'a> {
    /// Tells which of those that are open are its test's. None where there are none, or nothing is known of them; what was not
    /// seen is added to `losses`.
    pub fn of(
        steering: &'a Steering,
        process: &Process,
        counters: &ProcessRecord,
        open: Option<&Listed>,
        losses: &mut Vec<Loss>,
    ) -> Option<Self> {
        let (files, open) = (steering.kernel()?.files()?.as_ref().ok()?, open?);
        let Some(before) = &process.before else {
            losses.extend(not_listed(counters));
            return None;
        };
        let (before, open) = match (before, open) {
            (Ok(before), Ok(open)) => (before, open),
            (Err(reason), _) | (_, Err(reason)) => {
                losses.push(Loss::Descriptors { reason: reason.clone() });
                return None;
            }
        };
        if process.sees.files {
            losses.extend(lost(counters[process::LOST_FILES], Loss::FILE, |count| Loss::Files { count }));
        }
        let pid = process.pid;
        // What another process has made and sent here is that one's.
        let made_here = |record: &FileRecord| record[file::MAKER] as u32 == pid.as_raw().cast_unsigned();
        let record = |file: u64| files.record(file).filter(made_here);
        let compared = match process.sees.files {
            true => Compared::by_records(open, before, record),
            false => Compared::by_lists(open, before),
        };
        let Compared { by_file, duplicates, of_others } = compared;
        let objects = steering.kernel()?.objects().and_then(|objects| objects.as_ref().ok());
        let is_whole = process.wanted.held && process.sees.objects && counters[process::LOST_OBJECTS] == 0;
        let objects = objects.filter(|objects| is_whole && objects.runs());
        let any = !by_file.is_empty() || !duplicates.is_empty() || !of_others.is_empty();
        any.then_some(Self { files, process: pid, objects, by_file, duplicates, of_others })
    }

    /// Whether it was not seen who has made them.
    pub fn is_unexplained(&self) -> bool {
        self.by_file.values().any(|(_, record)| record.is_none())
    }

    /// Those of files that others have made.
    pub fn of_others(&self) -> Vec<OfOthers> {
        let describer = describe::Describer::new(self.process);
        let one = |numbers: &Vec<u32>| {
            let (kind, description) = describer.describe(numbers[0]);
            OfOthers { numbers: numbers.clone(), kind: kind.into(), description }
        };
        self.of_others.values().map(one).collect()
    }

    /// Says what they are and where they come from, and forgets them.
    pub fn describe(self, places: &mut Places<'_>, threads: &Threads) -> Vec<Descriptor<usize>> {
        let describer = describe::Describer::new(self.process);
        let mut held = self.bytes(&describer);
        let describe = |(file, (numbers, record)): (&u64, &(Vec<u32>, Option<FileRecord>))| {
            let stack = record.as_ref().map(|record| {
                let frames = stack::unwind(record, &mut |address| places.row(address));
                places.add(frames)
            });
            let (kind, description) = describer.describe(numbers[0]);
            let maker = record.as_ref().map(|record| (record[file::MAKER] >> 32) as i32);
            Descriptor {
                held_by: maker.and_then(|maker| threads.running(self.process, maker)),
                once: false,
                bytes: held.remove(file),
                numbers: numbers.clone(),
                kind: kind.into(),
                description,
                call: record.as_ref().map(|record| calls::name(record[file::CALL])),
                stack,
            }
        };
        let duplicate = |(numbers, original): &(Vec<u32>, u32)| {
            let (kind, description) = describer.describe(numbers[0]);
            let of = format!("duplicate of {original} from before the test");
            let description = if description.is_empty() { of } else { format!("{description}, {of}") };
            Descriptor {
                held_by: None,
                once: false,
                // Its file was there before.
                bytes: Some(0),
                numbers: numbers.clone(),
                kind: kind.into(),
                description,
                call: Some("dup".to_owned()),
                stack: None,
            }
        };
        let mut descriptors: Vec<_> = self.by_file.iter().map(describe).collect();
        descriptors.extend(self.duplicates.values().map(duplicate));
        descriptors.sort_by(|one, other| one.numbers.cmp(&other.numbers));
        // The process is kept: until it goes on, no file that is open can lose its address to another one.
        self.files.forget(&self.by_file.into_keys().collect::<Vec<_>>());
        descriptors
    }

    /// What each of the files holds in the kernel, as far as that is known.
    fn bytes(&self, describer: &describe::Describer) -> BTreeMap<u64, u64> {
        let Some((objects, all)) = self.objects.and_then(|it| Some((it, it.of(self.process).ok()?))) else {
            return BTreeMap::new();
        };
        let mut files: Vec<(&Vec<u32>, u64)> =
            self.by_file.iter().map(|(file, (numbers, _))| (numbers, *file)).collect();
        files.sort_unstable();
        let files: Vec<u64> = files.into_iter().map(|(_, file)| file).collect();
        let is_one_of =
            |site, names: &[&str]| objects.symbols().function(site).is_some_and(|name| names.contains(&name));
        let held = holds::bytes(
            &files,
            &holds::Kernel {
                objects: &all,
                places: objects.places(),
                is_file: &|site| self.files.are_made_at(site),
                is_socket: &|file| {
                    let numbers = self.by_file.get(&file).map(|(numbers, _)| numbers);
                    numbers.is_some_and(|numbers| describer.is_socket(numbers[0]))
                },
                is_shared: &|site| is_one_of(site, &SHARED),
                is_uncleared: &|site| is_one_of(site, &UNCLEARED),
                words: &|address, bytes| objects.words(address, bytes),
            },
        );
        files.into_iter().zip(held).filter_map(|(file, bytes)| Some((file, bytes?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_without_a_list_is_a_loss() {
        let mut counters = [0; process::WORDS];
        assert_eq!(not_listed(&counters), None);
        counters[process::BODIES] = 1;
        assert!(matches!(not_listed(&counters), Some(Loss::Descriptors { .. })));
    }
}
