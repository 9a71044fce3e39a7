//! Which of the descriptors that are open now are the test's, by those from before and by who has made files. Pure.

use std::collections::BTreeMap;

use crate::trace::{FileRecord, OpenFile};

/// Descriptors by the addresses of their files, with their numbers, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Of new files, with the record of who made each, where there is one.
    pub by_file: BTreeMap<u64, (Vec<u32>, Option<FileRecord>)>,
    /// Of files from before, by numbers that were not there before, and one that was.
    pub duplicates: BTreeMap<u64, (Vec<u32>, u32)>,
    /// Of files that others have made.
    pub of_others: BTreeMap<u64, Vec<u32>>,
}

impl Compared {
    /// By the two lists alone: what was not there before is new. A file may have got the address of one that was closed
    /// since. It is told by its inode, name and kind. Where those are the same as well, the number that was there before
    /// is taken for what it was: the process has not more descriptors than it began with.
    pub fn by_lists(open: &[OpenFile], before: &[OpenFile]) -> Self {
        let mut compared = Self::default();
        for now in sorted(open) {
            if !compared.is_from_before(now, before) {
                compared.by_file.entry(now.file()).or_default().0.push(now.number);
            }
        }
        compared
    }

    /// By who has made each file, of all that the test has made since before its window: `record` says it for an
    /// address.
    pub fn by_records(
        open: &[OpenFile],
        before: &[OpenFile],
        record: impl Fn(u64) -> Option<FileRecord>,
    ) -> Self {
        let mut compared = Self::default();
        for now in sorted(open) {
            if let Some(record) = record(now.file()) {
                let (numbers, made) = compared.by_file.entry(now.file()).or_default();
                numbers.push(now.number);
                *made = Some(record);
            } else if !compared.is_from_before(now, before) {
                compared.of_others.entry(now.file()).or_default().push(now.number);
            }
        }
        compared
    }

    /// Whether a file is from before. Duplicates are never among the numbers from before: who has used one of
    /// them once more puts back what was there.
    fn is_from_before(&mut self, now: &OpenFile, before: &[OpenFile]) -> bool {
        let Some(original) = before.iter().find(|before| before.is_same(now)) else { return false };
        if before.iter().all(|before| before.number != now.number) {
            let (numbers, _) =
                self.duplicates.entry(now.file()).or_insert_with(|| (Vec::new(), original.number));
            numbers.push(now.number);
        }
        true
    }
}

/// By their numbers; the kernel's list may have one twice.
fn sorted(open: &[OpenFile]) -> Vec<&OpenFile> {
    let mut open: Vec<_> = open.iter().collect();
    open.sort_unstable_by_key(|file| file.number);
    open.dedup_by_key(|file| file.number);
    open
}

#[cfg(test)]
mod tests {
    use leakcheck_common::{file, listed};

    use super::*;

    /// A descriptor of a file with an inode.
    fn open(number: u64, file: u64, inode: u64) -> OpenFile {
        let mut entry = [0; listed::WORDS];
        (entry[listed::NUMBER], entry[listed::FILE], entry[listed::PLACES]) = (number, file, inode);
        OpenFile::new(entry)
    }

    fn record(number: u64) -> FileRecord {
        let mut record = [0; file::WORDS];
        record[file::CALL] = number;
        record
    }

    #[test]
    fn what_was_not_there_before_is_new() {
        let before = [open(0, 0xa0, 1), open(1, 0xb0, 2), open(5, 0xc0, 3)];
        // 5 was closed, and another file has got its address and its number.
        let now = [open(7, 0xd0, 4), open(0, 0xa0, 1), open(3, 0xd0, 4), open(1, 0xb0, 2), open(5, 0xc0, 9)];
        let compared = Compared::by_lists(&now, &before);
        assert_eq!(compared.by_file, [(0xc0, (vec![5], None)), (0xd0, (vec![3, 7], None))].into());
        assert_eq!((compared.duplicates, compared.of_others), Default::default());
    }

    #[test]
    fn a_duplicate_has_a_number_of_its_own_and_the_file_of_one_from_before() {
        let before = [open(0, 0xa0, 1), open(1, 0xb0, 2), open(2, 0xb0, 2), open(9, 0xc0, 3)];
        // 1 was put back from 3, 9 was closed and has got another file; 4 and 5 are duplicates.
        let now = [(0, 0xa0, 1), (1, 0xb0, 2), (2, 0xb0, 2), (9, 0xa0, 1), (4, 0xb0, 2), (5, 0xb0, 2)];
        let now = now.map(|(number, file, inode)| open(number, file, inode));
        for compared in [Compared::by_lists(&now, &before), Compared::by_records(&now, &before, |_| None)] {
            let duplicates = [(0xb0, (vec![4, 5], 1))].into();
            assert_eq!(compared, Compared { duplicates, ..Compared::default() });
        }
    }

    #[test]
    fn a_record_goes_before_what_the_lists_say() {
        let before = [open(0, 0xa0, 1), open(5, 0xc0, 3)];
        // 5 is a new file of the same inode at the same address, 6 was sent.
        let now = [open(0, 0xa0, 1), open(5, 0xc0, 3), open(6, 0xe0, 7)];
        let by_lists = Compared::by_lists(&now, &before);
        assert_eq!(by_lists.by_file, [(0xe0, (vec![6], None))].into());
        let by_records = Compared::by_records(&now, &before, |file| (file == 0xc0).then(|| record(257)));
        assert_eq!(by_records.by_file, [(0xc0, (vec![5], Some(record(257))))].into());
        assert_eq!(by_records.of_others, [(0xe0, vec![6])].into());
    }
}
