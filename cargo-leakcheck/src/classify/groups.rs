//! Blocks that lead to each other: strongly connected components, by the algorithm of David J. Pearce
//! ("A space-efficient algorithm for finding strongly connected components", 2016), which is Tarjan's
//! with one number for a node. It has a stack of its own: a lost list may have millions of nodes.

use crate::snapshot::References;

/// The groups of some blocks.
pub(super) struct Groups {
    /// For a block whose group is known, that group from [`LAST`] down; for the others among the
    /// blocks, the earliest seen that is known to be in its group, from 1 up.
    numbers: Vec<u32>,
    /// All of the blocks, group by group; references lead from later groups to earlier ones.
    order: Vec<u32>,
    count: usize,
}

const UNSEEN: u32 = 0;
/// The number of a block in no group.
const APART: u32 = u32::MAX;
/// That of one in the first group. Those of 2^31 groups are above those of as many blocks
/// ([`crate::snapshot::Blocks::MAX`]).
const LAST: u32 = u32::MAX - 1;

/// A block whose references are being followed.
struct Visit {
    block: u32,
    /// Its number when it was seen.
    number: u32,
    /// References that have been followed.
    done: usize,
}

impl Groups {
    /// Groups those of `count` blocks that are `among` those to be looked at.
    pub(super) fn of(count: usize, references: &References, among: impl Fn(usize) -> bool) -> Self {
        let numbers = (0..count).map(|block| if among(block) { UNSEEN } else { APART }).collect();
        let mut groups = Self { numbers, order: Vec::new(), count: 0 };
        let mut visits: Vec<Visit> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut clock = UNSEEN;
        for start in 0..count {
            if groups.numbers[start] == UNSEEN {
                groups.enter(start, &mut clock, &mut visits);
            }
            while let Some(visit) = visits.last_mut() {
                let block = visit.block as usize;
                let mut rest = references.of(block)[visit.done..].iter();
                let Some(next) = rest.next() else {
                    let visit = visits.pop().expect("just looked at");
                    groups.leave(&visit, &mut open);
                    continue;
                };
                let other = groups.numbers[next.block()];
                if other == UNSEEN {
                    // Looked at again when that is known.
                    groups.enter(next.block(), &mut clock, &mut visits);
                } else {
                    visit.done += 1;
                    // Groups that are known are above all numbers of others.
                    let number = &mut groups.numbers[block];
                    *number = other.min(*number);
                }
            }
        }
        groups
    }

    fn enter(&mut self, block: usize, clock: &mut u32, visits: &mut Vec<Visit>) {
        *clock += 1;
        self.numbers[block] = *clock;
        visits.push(Visit { block: block as u32, done: 0, number: *clock });
    }

    fn leave(&mut self, visit: &Visit, open: &mut Vec<u32>) {
        let number = self.numbers[visit.block as usize];
        if number < visit.number {
            // An earlier one leads here, and is led to.
            open.push(visit.block);
            return;
        }
        let group = LAST - self.count as u32;
        let first = open.iter().rposition(|&other| self.numbers[other as usize] < number);
        let members = open.drain(first.map_or(0, |first| first + 1)..).chain([visit.block]);
        for member in members {
            self.numbers[member as usize] = group;
            self.order.push(member);
        }
        self.count += 1;
    }

    /// Number of groups.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The group of a block that is in one.
    pub(super) fn group(&self, block: usize) -> usize {
        (LAST - self.numbers[block]) as usize
    }

    /// All blocks that are in one, group by group; references lead from later groups to earlier ones.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }
}
