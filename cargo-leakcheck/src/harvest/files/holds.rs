//! What open files hold in the kernel: of the objects that were allocated for the test, those that a file leads to.
//!
//! A file leads to an object if a word of it is the object's address, and so on from there: its socket, the socket's
//! protocol part, what lies in its queues. Addresses within objects do not count, since that is how the kernel's
//! lists lead from anything to everything. Never a file's: other files, which have descriptors or owners of their own;
//! names that the file system keeps for all (`dentry`), and its inodes; routes. What several files lead to is
//! counted once, for the one that leads there by the fewest steps, and among those for the first.
//!
//! Memory that the kernel does not clear has in it what was there before: words that lead to whatever has got those
//! addresses since. So what is taken uncleared, and filled bit by bit, counts, but leads nowhere.
//!
//! The protocol part of a connection that was accepted may have been made for whoever was running when the network's
//! packet came. So that of a socket counts whoever it was made for, and its protocol says how large it is.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::trace::{Object, Places};

/// What the search looks into.
pub struct Kernel<'a> {
    /// Objects that were allocated for the test, by address.
    pub objects: &'a BTreeMap<u64, Object>,
    /// Where files have what.
    pub places: Places,
    /// Whether what is allocated there is a file.
    pub is_file: &'a dyn Fn(u64) -> bool,
    /// Whether the file at an address is a socket.
    pub is_socket: &'a dyn Fn(u64) -> bool,
    /// Whether what is allocated there is shared by all.
    pub is_shared: &'a dyn Fn(u64) -> bool,
    /// Whether what is allocated there is not cleared.
    pub is_uncleared: &'a dyn Fn(u64) -> bool,
    /// The words of an object.
    pub words: &'a dyn Fn(u64, u64) -> Option<Vec<u64>>,
}

/// Bytes of each of the files, which are given by their addresses; none where that is not known.
pub fn bytes(files: &[u64], kernel: &Kernel<'_>) -> Vec<Option<u64>> {
    let mut held: Vec<Option<u64>> = Vec::new();
    let mut found: HashSet<u64> = files.iter().copied().collect();
    let mut steps = VecDeque::new();
    for (number, file) in files.iter().enumerate() {
        let own = kernel.objects.get(file).and_then(|object| Some((object, kernel.look(*file, object)?)));
        let Some((object, words)) = own else {
            held.push(None);
            continue;
        };
        held.push(Some(object.bytes));
        let word = |place: u64| words.get(place as usize / 8).copied().unwrap_or(0);
        let name = word(kernel.places.name);
        if (kernel.is_socket)(*file) {
            let part = kernel.word(word(kernel.places.private), kernel.places.socket);
            if let Some(part) = part.filter(|part| !kernel.objects.contains_key(part)) {
                let bytes = kernel.size_by_protocol(part).filter(|_| found.insert(part));
                let seen = bytes.and_then(|bytes| Some((bytes, (kernel.words)(part, bytes)?)));
                held[number] = seen.as_ref().map(|(bytes, _)| object.bytes + bytes);
                steps.extend(seen.map(|(_, leads)| (number, leads)));
            }
        }
        let mut leads: Vec<u64> = words.clone();
        match kernel.word(name, kernel.places.parent) {
            // A name of its own, in no directory: the inode is its own, too. Words point into the middle of it.
            Some(parent) if parent == name => leads.extend(kernel.around(word(kernel.places.inode))),
            _ => leads.retain(|lead| *lead != name),
        }
        steps.push_back((number, leads));
    }
    while let Some((number, leads)) = steps.pop_front() {
        for lead in leads {
            let Some(object) = kernel.objects.get(&lead).filter(|object| kernel.may_be_owned(object)) else {
                continue;
            };
            if !found.insert(lead) {
                continue;
            }
            if (kernel.is_uncleared)(object.site) {
                held[number] = held[number].map(|bytes| bytes + object.bytes);
                continue;
            }
            match kernel.look(lead, object) {
                Some(words) => {
                    held[number] = held[number].map(|bytes| bytes + object.bytes);
                    steps.push_back((number, words));
                }
                None => held[number] = None,
            }
        }
    }
    held
}

impl Kernel<'_> {
    fn look(&self, address: u64, object: &Object) -> Option<Vec<u64>> {
        (self.words)(address, object.bytes)
    }

    fn may_be_owned(&self, object: &Object) -> bool {
        !(self.is_file)(object.site) && !(self.is_shared)(object.site)
    }

    /// A word of an object.
    fn word(&self, address: u64, place: u64) -> Option<u64> {
        (self.words)(address.checked_add(place)?, 8)?.first().copied()
    }

    /// The size of a socket's protocol part.
    fn size_by_protocol(&self, part: u64) -> Option<u64> {
        let protocol = self.word(part, self.places.protocol)?;
        let slab = self.word(protocol, self.places.slab)?;
        // It has 32 bits.
        self.word(slab, self.places.size).map(|size| size & u64::from(u32::MAX))
    }

    /// The object that an address is in.
    fn around(&self, address: u64) -> Option<u64> {
        let (start, object) = self.objects.range(..=address).next_back()?;
        (address - start < object.bytes).then_some(*start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where in a file its name and inode are, and in a name its directory: words 1 and 2, and word 1. A file's private
    /// word is the first.
    const PLACES: Places =
        Places { name: 8, inode: 16, parent: 8, private: 0, socket: 8, protocol: 16, slab: 8, size: 4 };
    const SOCKET: u64 = 0xc00;
    const FILE: u64 = 0xf00;
    const ROUTE: u64 = 0xd00;
    const UNCLEARED: u64 = 0xe00;

    /// Files hold this, in a kernel of objects: address, site, words.
    fn held(files: &[u64], all: &[(u64, u64, &[u64])]) -> Vec<Option<u64>> {
        held_of(files, all, &|_| true)
    }

    fn held_of(
        files: &[u64],
        all: &[(u64, u64, &[u64])],
        is_readable: &dyn Fn(u64) -> bool,
    ) -> Vec<Option<u64>> {
        let object = |(address, site, words): &(u64, u64, &[u64])| {
            (*address, Object { bytes: words.len() as u64 * 8, site: *site })
        };
        // What was allocated before the test is there as well, but not recorded: site 0.
        let recorded = all.iter().filter(|(_, site, _)| *site != 0);
        let words = |address: u64, bytes: u64| {
            let within = |(at, _, words): &&(u64, u64, &[u64])| {
                address.checked_sub(*at).is_some_and(|offset| offset < words.len() as u64 * 8)
            };
            let (at, _, words) = all.iter().find(within).filter(|_| is_readable(address))?;
            let bytes_of = words.iter().flat_map(|word| word.to_le_bytes());
            let bytes: Vec<u8> = bytes_of.skip((address - at) as usize).take(bytes as usize).collect();
            Some(
                bytes
                    .chunks(8)
                    .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
                    .collect(),
            )
        };
        let objects = recorded.map(object).collect();
        bytes(
            files,
            &Kernel {
                objects: &objects,
                places: PLACES,
                is_file: &|site| site == FILE || site == SOCKET,
                is_socket: &|file| all.iter().any(|(at, site, _)| (*at, *site) == (file, SOCKET)),
                is_shared: &|site| site == ROUTE,
                is_uncleared: &|site| site == UNCLEARED,
                words: &words,
            },
        )
    }

    #[test]
    fn a_socket_is_all_that_it_leads_to() {
        // File 0x1000: name 0x2000, which is its own directory; inode in the middle of the socket 0x3000; protocol
        // part 0x4000 with a packet 0x5000 in its queue, and an older object 0x6000.
        let all: [(u64, u64, &[u64]); 6] = [
            (0x1000, FILE, &[0, 0x2000, 0x3010, 0]),
            (0x2000, 1, &[0, 0x2000]),
            (0x3000, 1, &[0x4000, 0x1000, 0]),
            (0x4000, 1, &[0x5000, 0x6000, 0x3000, 0, 0]),
            (0x5000, 1, &[0x4000]),
            (0x6000, 0, &[0; 100]),
        ];
        // 4 + 2 + 3 + 5 + 1 words.
        assert_eq!(held(&[0x1000], &all), [Some(15 * 8)]);
    }

    #[test]
    fn a_connections_part_counts_whoever_it_was_made_for() {
        let with_slab = |slab: u64| -> Vec<Option<u64>> {
            let all: [(u64, u64, &[u64]); 6] = [
                (0x1000, SOCKET, &[0x2000, 0, 0]),
                (0x2000, 1, &[0, 0x3000]),
                // A protocol part that was not recorded, with a packet that was.
                (0x3000, 0, &[0x4000, 0, 0x5000, 0, 0, 0]),
                (0x4000, 1, &[0]),
                (0x5000, 0, &[0, slab]),
                // The upper half of its first word: 48 bytes.
                (0x6000, 0, &[48 << 32 | 7, 9]),
            ];
            held(&[0x1000], &all)
        };
        // 3, 2 and 1 words, and what the slab says.
        assert_eq!(with_slab(0x6000), [Some(6 * 8 + 48)]);
        assert_eq!(with_slab(0), [None]);
    }

    #[test]
    fn what_a_file_system_keeps_for_all_is_nobodys() {
        // The name 0x2000 is in a directory; it leads to the object 0x4000. Its inode is around 0x3008.
        let all: [(u64, u64, &[u64]); 4] = [
            (0x1000, FILE, &[0, 0x2000, 0x3008]),
            (0x2000, 1, &[0x4000, 0x7000]),
            (0x3000, 1, &[0, 0]),
            (0x4000, 1, &[0]),
        ];
        assert_eq!(held(&[0x1000], &all), [Some(3 * 8)]);
    }

    #[test]
    fn other_files_and_routes_and_what_is_pointed_into_is_nobodys() {
        let all: [(u64, u64, &[u64]); 5] = [
            (0x1000, FILE, &[0x2000, 0, 0, 0x3000, 0x4008]),
            // A file without a descriptor: it is on its way through a socket.
            (0x2000, FILE, &[0x5000, 0, 0]),
            (0x3000, ROUTE, &[0]),
            (0x4000, 1, &[0, 0]),
            (0x5000, 1, &[0]),
        ];
        assert_eq!(held(&[0x1000], &all), [Some(5 * 8)]);
    }

    #[test]
    fn what_was_in_memory_before_leads_nowhere() {
        let all: [(u64, u64, &[u64]); 4] = [
            (0x1000, FILE, &[0, 0, 0, 0x2000, 0x3000]),
            // Its words are of somebody who had this memory, and 0x4000 was somebody else's then.
            (0x2000, UNCLEARED, &[0x4000, 0x3000]),
            (0x3000, 1, &[0; 5]),
            (0x4000, 1, &[0; 64]),
        ];
        assert_eq!(held(&[0x1000], &all), [Some((5 + 2 + 5) * 8)]);
    }

    #[test]
    fn what_two_share_is_counted_once_for_the_nearer_or_the_first() {
        let all: [(u64, u64, &[u64]); 6] = [
            // Two ends of a pipe.
            (0x1000, FILE, &[0x3000, 0, 0]),
            (0x2000, FILE, &[0x3000, 0, 0]),
            (0x3000, 1, &[0; 10]),
            // The one leads by two steps to what the other has at hand.
            (0x4000, FILE, &[0x5000, 0, 0]),
            (0x5000, 1, &[0x6000]),
            (0x6000, 1, &[0; 20]),
        ];
        assert_eq!(held(&[0x1000, 0x2000], &all), [Some(13 * 8), Some(3 * 8)]);
        assert_eq!(held(&[0x2000, 0x1000], &all), [Some(13 * 8), Some(3 * 8)]);
        let mut with_other = all.to_vec();
        with_other.push((0x7000, FILE, &[0x6000, 0, 0]));
        assert_eq!(held(&[0x4000, 0x7000], &with_other), [Some(4 * 8), Some(23 * 8)]);
    }

    #[test]
    fn a_file_that_was_not_recorded_or_leads_to_what_cannot_be_read_holds_nobody_knows_what() {
        let all: [(u64, u64, &[u64]); 3] =
            [(0x1000, 0, &[0, 0, 0]), (0x2000, FILE, &[0x3000, 0, 0]), (0x3000, 1, &[0])];
        assert_eq!(held(&[0x1000, 0x2000], &all), [None, Some(4 * 8)]);
        assert_eq!(held_of(&[0x2000], &all, &|address| address != 0x3000), [None]);
    }
}
