//! Descriptors that a process leaves open, of files (open file descriptions) that were made in its window.
//! Its own table says which are open; the kernel side's account, which of their files the test has made.

pub(super) mod calls;
mod describe;
mod holds;
pub(super) mod stack;

use std::collections::BTreeMap;

use leakcheck_common::{file, process};
use nix::unistd::Pid;

use super::Threads;
use super::places::Places;
use crate::model::Descriptor;
use crate::snapshot::Loss;
use crate::trace::{FileRecord, Files, Objects, Process, ProcessRecord, Steering};

/// The kernel's function that allocates routes, which connections share.
const ROUTES: &str = "dst_alloc";

/// The descriptors of a process that are its test's.
pub struct Opened<'a> {
    files: &'a Files,
    process: Pid,
    /// The kernel's objects, where they are recorded, all of them.
    objects: Option<&'a Objects>,
    /// By the addresses of their files: the numbers, and who made it.
    by_file: BTreeMap<u64, (Vec<u32>, FileRecord)>,
    /// Duplicates of descriptors from before, by the addresses of their files: the numbers, and which was there before.
    duplicates: BTreeMap<u64, (Vec<u32>, u32)>,
}

/// Descriptors that are duplicates of inherited ones: `open` has the numbers that are open now, and the addresses
/// of their files. None can be among the numbers from before: who has used one of them once more puts back what was there.
fn duplicates(open: &[(u32, u64)], inherited: &[(u32, u64)]) -> BTreeMap<u64, (Vec<u32>, u32)> {
    let mut duplicates = BTreeMap::new();
    for &(number, file) in open {
        let original = inherited.iter().find(|(_, inherited)| *inherited == file);
        if let Some(&(original, _)) = original
            && inherited.iter().all(|(before, _)| *before != number)
        {
            duplicates.entry(file).or_insert_with(|| (Vec::new(), original)).0.push(number);
        }
    }
    duplicates
}

/// Whether a process may have more descriptors than the three that programs begin with. Their number is what the
/// kernel gives as the size of the directory (since Linux 6.2).
fn has_others(process: Pid) -> bool {
    let size = std::fs::metadata(format!("/proc/{process}/fd")).map_or(0, |it| it.len());
    size == 0 || size > 3
}

impl<'a> Opened<'a> {
    /// Lists them. None where there are none, or nothing is known of them; what was not seen is added to
    /// `losses`.
    pub fn of(
        steering: &'a Steering,
        process: &Process,
        counters: &ProcessRecord,
        losses: &mut Vec<Loss>,
    ) -> Option<Self> {
        let files = steering.kernel()?.files()?.as_ref().ok()?;
        if !process.seeks.files || counters[process::FILES] == 0 && !has_others(process.pid) {
            return None;
        }
        if counters[process::LOST_FILES] > 0 {
            losses.push(Loss::Files { count: counters[process::LOST_FILES] });
        }
        let open = match files.open(process.pid) {
            Ok(open) => open,
            Err(reason) => {
                losses.push(Loss::Descriptors { reason });
                return None;
            }
        };
        let pid = process.pid;
        let mut by_file = BTreeMap::new();
        let mut others = Vec::new();
        for (number, file) in open {
            // What another process has made and sent here is that one's.
            let made_here = |record: &FileRecord| record[file::MAKER] as u32 == pid.as_raw().cast_unsigned();
            if let Some(record) = files.record(file).filter(made_here) {
                let (numbers, _) = by_file.entry(file).or_insert_with(|| (Vec::new(), record));
                numbers.push(number);
            } else {
                others.push((number, file));
            }
        }
        let objects = steering.kernel()?.objects().and_then(|objects| objects.as_ref().ok());
        let objects = objects
            .filter(|objects| process.seeks.held && objects.runs() && counters[process::LOST_OBJECTS] == 0);
        let duplicates = duplicates(&others, &process.inherited);
        let any = !by_file.is_empty() || !duplicates.is_empty();
        any.then_some(Self { files, process: pid, objects, by_file, duplicates })
    }

    /// Says what they are and where they come from, and forgets them.
    pub fn describe(self, places: &mut Places<'_>, threads: &Threads) -> Vec<Descriptor<usize>> {
        let describer = describe::Describer::new(self.process);
        let mut held = self.bytes(&describer);
        let describe = |(file, (numbers, record)): (&u64, &(Vec<u32>, FileRecord))| {
            let frames = stack::unwind(record, &mut |address| places.row(address));
            let stack = places.add(frames);
            let mut numbers = numbers.clone();
            numbers.sort_unstable();
            numbers.dedup();
            let (kind, description) = describer.describe(numbers[0]);
            let held_by = threads.running(self.process, (record[file::MAKER] >> 32) as i32);
            Descriptor {
                held_by,
                once: false,
                bytes: held.remove(file),
                numbers,
                kind: kind.into(),
                description,
                call: calls::name(record[file::CALL]),
                stack: Some(stack),
            }
        };
        let duplicate = |(numbers, original): &(Vec<u32>, u32)| {
            let mut numbers = numbers.clone();
            numbers.sort_unstable();
            let (kind, description) = describer.describe(numbers[0]);
            let of = format!("duplicate of {original} from before the test");
            let description = if description.is_empty() { of } else { format!("{description}, {of}") };
            let call = "dup".to_owned();
            Descriptor {
                held_by: None,
                once: false,
                // Its file was there before.
                bytes: Some(0),
                numbers,
                kind: kind.into(),
                description,
                call,
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
        let symbols = objects.symbols();
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
                is_shared: &|site| symbols.function(site) == Some(ROUTES),
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
    fn a_duplicate_has_a_number_of_its_own_and_the_file_of_an_inherited_one() {
        let inherited = [(0, 0xa0), (1, 0xb0), (2, 0xb0), (9, 0xc0)];
        // 1 was put back from 3, 9 was closed and has got another file; 4 and 5 are duplicates, 6 is nobody's.
        let open = [(0, 0xa0), (1, 0xb0), (2, 0xb0), (9, 0xa0), (4, 0xb0), (5, 0xb0), (6, 0xd0)];
        assert_eq!(duplicates(&open, &inherited), [(0xb0, (vec![4, 5], 1))].into());
        assert_eq!(duplicates(&open, &[]), [].into());
    }
}
