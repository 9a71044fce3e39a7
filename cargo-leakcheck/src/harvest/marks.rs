//! What a test's code has said of its blocks: the log of the crate `leakcheck` (`leakcheck/src/log.rs`), read out of the
//! process. Each entry is a block, whose record says which thread has made it, and when. The process could have written
//! anything there: what is no entry is passed over.

use std::collections::HashMap;
use std::sync::Arc;

use nix::unistd::Pid;

use crate::model::{Limited, Measure, Scope};
use crate::snapshot::{Blocks, Loss, Marks};
use crate::trace::{Process, read, words};

/// Entries that there is room for.
const ROOM: u64 = 1 << 18;
/// Bytes of a name or a path at most.
const TEXT: u64 = 1 << 10;
/// Most words of an entry.
const WORDS: usize = 8;

/// First words of entries, and how many words they have.
mod kind {
    pub const IGNORE: (u64, u64) = (1, 5);
    pub const SCOPE: (u64, u64) = (2, 8);
    pub const ENTER: (u64, u64) = (3, 2);
    pub const LEAVE: (u64, u64) = (4, 2);
    pub const IGNORE_EMPTY: (u64, u64) = (5, 5);

    pub const ALL: [(u64, u64); 5] = [IGNORE, SCOPE, ENTER, LEAVE, IGNORE_EMPTY];
    /// Those that are not of scopes.
    pub const IGNORING: [u64; 2] = [IGNORE.0, IGNORE_EMPTY.0];
}

/// The log of a process.
pub struct Log {
    reader: Pid,
    /// The addresses of entries, by their numbers.
    entries: Vec<u64>,
    /// Entries that there was no room for.
    lost: u64,
}

/// An entry: what it says, by which thread and when.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    words: [u64; WORDS],
    thread: u32,
    time: u64,
}

impl Log {
    /// Reads it; none where the code has said nothing.
    pub fn read(process: &Process, reader: Pid) -> Option<Self> {
        let address = process.log?;
        let [on, count] = words(&read(reader, address, 16)).try_into().ok()?;
        if on == 0 || count == 0 {
            return None;
        }
        let held = count.min(ROOM);
        let entries = words(&read(reader, address + 16, held as usize * 8));
        // An entry that its thread had not finished says nothing yet.
        let entries = entries.into_iter().map(|word| if word == 0 { 0 } else { !word }).collect();
        Some(Self { reader, entries, lost: count - held })
    }

    /// Where its entries are.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().copied().filter(|address| *address != 0)
    }

    /// How much of what was allocated in the window its entries are.
    pub fn kept(&self, blocks: &Blocks) -> Measure {
        let entries = self.addresses().filter_map(|address| blocks.starting_at(address));
        let mut kept = Measure::default();
        entries
            .filter(|block| blocks.is_reported(*block))
            .for_each(|block| kept.add(blocks.places()[block].size));
        kept
    }

    /// What it says of blocks, which ascend. `threads` says which thread has allocated what is at an address. Entries are nobody's
    /// blocks from then on.
    pub fn marks(&self, blocks: &mut Blocks, threads: &HashMap<u64, u32>) -> (Marks, Option<Loss>) {
        let (entries, missing) = self.entries(blocks, threads);
        let count = self.lost + missing;
        let mut texts: HashMap<(u64, u64), Arc<str>> = HashMap::new();
        let mut text = |address: u64, length: u64| -> Arc<str> {
            let read = || {
                let bytes = read(self.reader, address, length.min(TEXT) as usize);
                String::from_utf8_lossy(&bytes).into()
            };
            texts.entry((address, length)).or_insert_with(read).clone()
        };
        let ignored = entries.iter().filter(|entry| entry.ignores()).filter_map(|entry| {
            let [_, _, file, length, line, ..] = entry.words;
            Some((entry.ignored(blocks)?, format!("{}:{line}", text(file, length)).into()))
        });
        let ignored = ignored.collect();
        let scopes = Scopes::of(&entries, |entry| text(entry.words[1], entry.words[2]));
        let (scopes, in_scope) = scopes.of_blocks(blocks, threads);
        (Marks { ignored, scopes, in_scope }, (count > 0).then_some(Loss::Marks { count, room: ROOM }))
    }

    /// The entries in the order of their numbers, and how many are missing.
    fn entries(&self, blocks: &mut Blocks, threads: &HashMap<u64, u32>) -> (Vec<Entry>, u64) {
        let mut missing = 0;
        let mut entries = Vec::new();
        for (number, address) in (0..).zip(&self.entries).filter(|(_, address)| **address != 0) {
            let (Some(block), Some(thread)) = (blocks.starting_at(*address), threads.get(address)) else {
                // The recorder had no room for it, or it is no block.
                missing += 1;
                continue;
            };
            let size = blocks.places()[block].size;
            let mut words = words(&read(self.reader, *address, size.min(WORDS as u64 * 8) as usize));
            if !kind::ALL.iter().any(|(kind, length)| words.first() == Some(kind) && size == length * 8) {
                missing += 1;
                continue;
            }
            words.resize(WORDS, 0);
            let words = words.try_into().expect("so many");
            entries.push(Entry { number, words, thread: *thread, time: blocks.time(block) });
            blocks.set_runtime(block);
        }
        (entries, missing)
    }
}

impl Entry {
    fn ignores(&self) -> bool {
        kind::IGNORING.contains(&self.words[0])
    }

    /// The block that is to be ignored.
    fn ignored(&self, blocks: &Blocks) -> Option<usize> {
        let address = !self.words[1];
        // What has come to the address since is another block.
        let at = |address| blocks.containing(address).filter(|block| blocks.time(*block) <= self.time);
        let (block, before) = (at(address), address.checked_sub(1).and_then(at));
        match before {
            Some(before) if self.words[0] == kind::IGNORE_EMPTY.0 => {
                // Where two blocks meet nobody knows which one is meant, and what is not meant must not be ignored.
                block.is_none_or(|block| block == before).then_some(before)
            }
            _ => block,
        }
    }
}

/// The scopes that threads were in.
struct Scopes {
    /// By the numbers of the entries with which they begin.
    all: HashMap<u64, Opened>,
    /// For each thread when it has changed to which scope, by time; none for no scope.
    timelines: HashMap<u32, Vec<(u64, Option<u64>)>>,
}

/// A scope that was opened.
struct Opened {
    name: Arc<str>,
    limits: [u64; 5],
    /// What it was opened in.
    parent: Option<u64>,
}

impl Scopes {
    fn of(entries: &[Entry], mut name: impl FnMut(&Entry) -> Arc<str>) -> Self {
        let mut all = HashMap::new();
        let mut timelines: HashMap<u32, Vec<(u64, Option<u64>)>> = HashMap::new();
        let mut open: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut entries: Vec<&Entry> = entries.iter().filter(|entry| !entry.ignores()).collect();
        entries.sort_by_key(|entry| (entry.time, entry.number));
        for entry in entries {
            let open = open.entry(entry.thread).or_default();
            if entry.words[0] == kind::SCOPE.0 {
                let limits = std::array::from_fn(|limit| entry.words[3 + limit]);
                let opened = Opened { name: name(entry), limits, parent: open.last().copied() };
                all.insert(entry.number, opened);
                open.push(entry.number);
            } else if entry.words[0] == kind::ENTER.0 {
                open.push(entry.words[1]);
            } else if let Some(place) = open.iter().rposition(|scope| *scope == entry.words[1]) {
                // Guards may be dropped in any order.
                open.remove(place);
            }
            timelines.entry(entry.thread).or_default().push((entry.time, open.last().copied()));
        }
        Self { all, timelines }
    }

    /// The scope that a thread was in at a time.
    fn at(&self, thread: u32, time: u64) -> Option<u64> {
        let timeline = self.timelines.get(&thread)?;
        let before = timeline.partition_point(|(changed, _)| *changed < time);
        timeline[before.checked_sub(1)?].1
    }

    /// The names by which the blocks are judged, all scopes of a name as one, and which each block has.
    fn of_blocks(
        &self,
        blocks: &Blocks,
        threads: &HashMap<u64, u32>,
    ) -> (Vec<Arc<Scope>>, HashMap<usize, u32>) {
        let mut in_scope = HashMap::new();
        if self.all.is_empty() {
            return (Vec::new(), in_scope);
        }
        let limits = self.limits();
        let mut scopes: Vec<Arc<Scope>> = Vec::new();
        let mut numbers: HashMap<u64, Option<u32>> = HashMap::new();
        let mut number = |opened: u64| {
            *numbers.entry(opened).or_insert_with(|| {
                let scope = self.scope(opened, &limits)?;
                let known = scopes.iter().position(|it| **it == scope);
                let place = known.unwrap_or_else(|| {
                    scopes.push(Arc::new(scope));
                    scopes.len() - 1
                });
                Some(place as u32)
            })
        };
        for (block, place) in
            blocks.places().iter().enumerate().filter(|(block, _)| blocks.is_reported(*block))
        {
            let thread = threads.get(&place.start);
            let opened = thread.and_then(|thread| self.at(*thread, blocks.time(block)));
            if let Some(scope) = opened.and_then(&mut number) {
                in_scope.insert(block, scope);
            }
        }
        (scopes, in_scope)
    }

    /// The limits of each name that has any: the lowest of those given.
    fn limits(&self) -> HashMap<&str, Limited> {
        let mut limits: HashMap<&str, Limited> = HashMap::new();
        let is_limited = |opened: &&Opened| opened.limits.iter().any(|limit| *limit != u64::MAX);
        for opened in self.all.values().filter(is_limited) {
            let of = limits
                .entry(&opened.name)
                .or_insert_with(|| Limited { by: opened.name.to_string(), ..Limited::default() });
            let slots = [
                &mut of.bytes,
                &mut of.blocks,
                &mut of.reachable_bytes,
                &mut of.reachable_blocks,
                &mut of.outstanding_bytes,
            ];
            for (slot, limit) in slots.into_iter().zip(opened.limits).filter(|(_, limit)| *limit != u64::MAX)
            {
                *slot = Some(slot.map_or(limit, |other| other.min(limit)));
            }
        }
        limits
    }

    /// The scope of this number, with the limits of the innermost around it that has any.
    fn scope(&self, opened: u64, limits: &HashMap<&str, Limited>) -> Option<Scope> {
        let innermost = self.all.get(&opened)?;
        let mut around = std::iter::successors(Some(innermost), |it| self.all.get(&it.parent?));
        // A scope is opened behind the one that it is in: this ends, but for nonsense.
        let limited = around.by_ref().take(self.all.len()).find_map(|it| limits.get(&*it.name)).cloned();
        Some(Scope { name: innermost.name.to_string(), limited })
    }
}

#[cfg(test)]
mod tests;
