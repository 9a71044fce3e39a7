//! Where a test has opened what it leaves, and freed first what it frees twice, where a second run of it has told that.

use crate::model::{Descriptor, Finding, FindingKind, Frame, IpcObject, Left, Measure};
use crate::snapshot::OfOthers;

type Opened = Descriptor<Vec<Frame>>;

/// One that the second run has left.
enum Found {
    Own(Opened),
    OfOthers(OfOthers),
}

impl Found {
    fn seen(&self) -> (&str, &str, &[u32]) {
        match self {
            Self::Own(it) => (&it.kind, &it.description, &it.numbers),
            Self::OfOthers(it) => (&it.kind, &it.description, &it.numbers),
        }
    }
}

/// Takes over what the second run says of the same descriptors and IPC objects; those that it shows to be others' are taken out.
///
/// What it does not say anything of stays as it is: left open, by whom and where nobody knows. So it counts, although a
/// one-time initializer may have made it: that excuses only what was seen to come from one.
pub fn take_over(first: &mut Left<Vec<Frame>>, second: Left<Vec<Frame>>, of_others: Vec<OfOthers>) {
    objects(&mut first.ipc, second.ipc);
    // What duplicates of descriptors from before are is known of the first run's own.
    let own = second.descriptors.into_iter().filter(|it| !is_duplicate(it)).map(Found::Own);
    let mut found: Vec<Found> = own.chain(of_others.into_iter().map(Found::OfOthers)).collect();
    let mut matched: Vec<Option<Found>> = first.descriptors.iter().map(|_| None).collect();
    // The surest first: the same numbers may be others in another run, as may paths and addresses.
    type Alike = fn((&str, &str, &[u32]), (&str, &str, &[u32])) -> bool;
    let ways: [Alike; 3] = [
        |one, other| one == other,
        |one, other| (one.0, one.1, one.2.len()) == (other.0, other.1, other.2.len()) && !one.1.is_empty(),
        |one, other| (one.0, one.2) == (other.0, other.2),
    ];
    for alike in ways {
        for (descriptor, matched) in first.descriptors.iter().zip(&mut matched) {
            if descriptor.call.is_none() && matched.is_none() {
                let place = found.iter().position(|found| alike(seen(descriptor), found.seen()));
                *matched = place.map(|place| found.remove(place));
            }
        }
    }
    // Where there are as many of one kind, they are the same in the order of their numbers.
    let kind = |it: (&str, &str, &[u32])| (it.0.to_owned(), it.2.len());
    for number in 0..matched.len() {
        let descriptor = &first.descriptors[number];
        if descriptor.call.is_some() || matched[number].is_some() {
            continue;
        }
        let wanted = kind(seen(descriptor));
        let open = first.descriptors.iter().zip(&matched);
        let open =
            open.filter(|(it, matched)| it.call.is_none() && matched.is_none() && kind(seen(it)) == wanted);
        let of_kind = found.iter().filter(|found| kind(found.seen()) == wanted);
        if open.count() == of_kind.count() {
            let place = found.iter().position(|found| kind(found.seen()) == wanted);
            matched[number] = place.map(|place| found.remove(place));
        }
    }
    let mut matched = matched.into_iter();
    first.descriptors.retain_mut(|descriptor| match matched.next().flatten() {
        None => true,
        Some(Found::OfOthers(_)) => false,
        Some(Found::Own(second)) => {
            let (numbers, kind) = (std::mem::take(&mut descriptor.numbers), descriptor.kind.clone());
            let description = std::mem::take(&mut descriptor.description);
            *descriptor = Descriptor { numbers, kind, description, ..second };
            true
        }
    });
}

/// Whether its file was open before the test: the call makes no file.
fn is_duplicate(of: &Opened) -> bool {
    of.call.as_deref() == Some("dup")
}

fn seen(of: &Opened) -> (&str, &str, &[u32]) {
    (&of.kind, &of.description, &of.numbers)
}

/// Takes over where blocks were freed first from a second run's double frees: of the same block, as its place of allocation
/// tells, at the same place. Where the runs have different numbers of them, nobody knows which are the same.
pub fn frees(first: &mut Vec<Finding<Vec<Frame>>>, second: Vec<Finding<Vec<Frame>>>) {
    let mut told = Vec::new();
    first.retain(|free| {
        let is_same = |seen: &&Finding<Vec<Frame>>| {
            (seen.kind, &seen.process) == (free.kind, &free.process)
                && is_place(&seen.stack, &free.stack)
                && is_place(&seen.before.allocated, &free.before.allocated)
        };
        if free.kind != FindingKind::DoubleFree || free.before.freed.is_some() {
            return true;
        }
        let same: Vec<_> = second.iter().filter(is_same).cloned().collect();
        let all = same.iter().fold(Measure::default(), |sum, it| sum + it.measure);
        let is_told = all == free.measure;
        if is_told {
            told.extend(same);
        }
        !is_told
    });
    first.extend(told);
}

/// Whether two call stacks are the same: addresses in modules are in both runs.
fn is_place(one: &Option<Vec<Frame>>, other: &Option<Vec<Frame>>) -> bool {
    let place = |frame: &Frame| (frame.module.clone(), frame.address, frame.inlined);
    let all = |stack: &Option<Vec<Frame>>| Some(stack.as_ref()?.iter().map(place).collect::<Vec<_>>());
    all(one) == all(other)
}

/// By their names first, which may have something in them that is different in each run: then the only one of a kind that is
/// left is the only one there.
fn objects(first: &mut [IpcObject<Vec<Frame>>], mut second: Vec<IpcObject<Vec<Frame>>>) {
    let mut unmatched = Vec::new();
    for object in first {
        let is_it = |other: &IpcObject<_>| (&other.kind, &other.name) == (&object.kind, &object.name);
        match second.iter().position(is_it) {
            Some(place) => object.take_place(second.remove(place)),
            None => unmatched.push(object),
        }
    }
    let kinds: Vec<_> = unmatched.iter().map(|object| object.kind.clone()).collect();
    for object in unmatched {
        let mut of_kind = second.iter().enumerate().filter(|(_, other)| other.kind == object.kind);
        let is_only = kinds.iter().filter(|kind| **kind == object.kind).count() == 1;
        if let (true, Some((place, _)), None) = (is_only, of_kind.next(), of_kind.next()) {
            object.take_place(second.remove(place));
        }
    }
}

impl IpcObject<Vec<Frame>> {
    /// It was made where the other one was, if that was not seen.
    fn take_place(&mut self, other: Self) {
        if self.call.is_none() {
            (self.call, self.stack) = (other.call, other.stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Before;

    fn descriptor(numbers: &[u32], kind: &'static str, description: &str, call: Option<&str>) -> Opened {
        Descriptor {
            numbers: numbers.to_vec(),
            kind: kind.into(),
            description: description.into(),
            call: call.map(str::to_owned),
            held_by: None,
            once: false,
            bytes: None,
            stack: call.map(|_| Vec::new()),
        }
    }

    fn of_others(numbers: &[u32], kind: &'static str, description: &str) -> OfOthers {
        OfOthers { numbers: numbers.to_vec(), kind: kind.into(), description: description.into() }
    }

    /// Numbers and calls, after the second run.
    fn taken(
        first: Vec<Opened>,
        second: Vec<Opened>,
        others: Vec<OfOthers>,
    ) -> Vec<(Vec<u32>, Option<String>)> {
        let mut first = Left { descriptors: first, ..Left::default() };
        take_over(&mut first, Left { descriptors: second, ..Left::default() }, others);
        first.descriptors.into_iter().map(|it| (it.numbers, it.call)).collect()
    }

    fn one(number: u32, call: &str) -> (Vec<u32>, Option<String>) {
        (vec![number], Some(call.to_owned()).filter(|call| !call.is_empty()))
    }

    #[test]
    fn the_same_are_known_by_what_they_are_before_their_numbers() {
        let first = || vec![descriptor(&[3], "file", "\"a\"", None), descriptor(&[4], "file", "\"b\"", None)];
        // The threads of the test have opened them the other way around.
        let second = vec![
            descriptor(&[3], "file", "\"b\"", Some("openat")),
            descriptor(&[4], "file", "\"a\"", Some("open")),
        ];
        assert_eq!(taken(first(), second, vec![]), [one(3, "open"), one(4, "openat")]);
        // Names of other runs, with other numbers.
        let second = vec![
            descriptor(&[5], "file", "\"c\"", Some("openat")),
            descriptor(&[6], "file", "\"d\"", Some("open")),
        ];
        assert_eq!(taken(first(), second, vec![]), [one(3, "openat"), one(4, "open")]);
    }

    #[test]
    fn what_is_not_left_once_more_stays_unknown() {
        let first = vec![
            descriptor(&[3], "socket", "tcp 1", None),
            descriptor(&[4], "socket", "tcp 2", None),
            descriptor(&[5], "epoll", "", None),
        ];
        let second = vec![
            descriptor(&[9], "socket", "tcp 3", Some("socket")),
            descriptor(&[5], "pipe", "", Some("pipe2")),
        ];
        assert_eq!(taken(first, second, vec![]), [one(3, ""), one(4, ""), one(5, "")]);
    }

    #[test]
    fn what_others_have_made_is_not_the_tests() {
        let first = vec![
            descriptor(&[3], "eventfd", "", None),
            descriptor(&[4], "eventfd", "", None),
            descriptor(&[7], "pipe", "read end, duplicate of 0 from before the test", Some("dup")),
        ];
        let second = vec![descriptor(&[4], "eventfd", "", Some("eventfd2"))];
        let others = vec![of_others(&[3], "eventfd", "")];
        assert_eq!(taken(first, second, others), [one(4, "eventfd2"), one(7, "dup")]);
    }

    /// `3` is the duplicate in the second run, and another file in the first one.
    #[test]
    fn a_duplicate_of_the_second_run_explains_nothing() {
        let first = || vec![descriptor(&[3], "pipe", "", None)];
        let duplicate = || descriptor(&[3], "pipe", "", Some("dup"));
        assert_eq!(taken(first(), vec![duplicate()], vec![]), [one(3, "")]);
        let second = vec![duplicate(), descriptor(&[4], "pipe", "[7]", Some("pipe2"))];
        assert_eq!(taken(first(), second, vec![]), [one(3, "pipe2")]);
    }

    /// Names with the calls that have made them, after the second run.
    fn objects_taken(
        first: &[(&str, Option<&'static str>)],
        second: &[(&str, &'static str)],
    ) -> Vec<(String, Option<String>)> {
        let object = |name: &str, call: Option<&'static str>| IpcObject {
            kind: "POSIX shared memory".into(),
            name: crate::model::IpcName::Name(name.into()),
            bytes: None,
            call: call.map(Into::into),
            stack: call.map(|_| Vec::new()),
        };
        let ipc = first.iter().map(|(name, call)| object(name, *call)).collect();
        let mut first = Left { ipc, ..Left::default() };
        let ipc = second.iter().map(|(name, call)| object(name, Some(*call))).collect();
        take_over(&mut first, Left { ipc, ..Left::default() }, vec![]);
        let call = |it: &IpcObject<_>| it.call.as_ref().map(|call| call.to_string());
        first.ipc.iter().map(|it| (it.name.to_string().replace('"', ""), call(it))).collect()
    }

    fn object(name: &str, call: Option<&str>) -> (String, Option<String>) {
        (name.to_owned(), call.map(str::to_owned))
    }

    #[test]
    fn an_object_gets_the_call_of_that_name_or_of_the_only_one_left() {
        let (open, by_name) = (Some("open"), Some("shm_open"));
        assert_eq!(objects_taken(&[("/1", None)], &[("/2", "open")]), [object("/1", open)]);
        // In another order, and with one that was there in the second run only.
        let found = objects_taken(
            &[("/a", None), ("/b", None)],
            &[("/b", "open"), ("/c", "openat"), ("/a", "shm_open")],
        );
        assert_eq!(found, [object("/a", by_name), object("/b", open)]);
        // One is known by its name, and then there is only one left.
        let found = objects_taken(&[("/3", None), ("/a", None)], &[("/a", "shm_open"), ("/9", "open")]);
        assert_eq!(found, [object("/3", open), object("/a", by_name)]);
        // One whose call is known is not the other one.
        let found = objects_taken(&[("/a", by_name), ("/3", None)], &[("/a", "shm_open"), ("/9", "open")]);
        assert_eq!(found, [object("/a", by_name), object("/3", open)]);
    }

    #[test]
    fn which_of_several_objects_with_new_names_it_is_nobody_knows() {
        let found = objects_taken(&[("/1", None), ("/2", None)], &[("/8", "open"), ("/9", "shm_open")]);
        assert_eq!(found, [object("/1", None), object("/2", None)]);
        assert_eq!(objects_taken(&[("/1", None)], &[("/8", "open"), ("/9", "open")]), [object("/1", None)]);
        assert_eq!(
            objects_taken(&[("/1", None), ("/2", None)], &[("/8", "open")]),
            [object("/1", None), object("/2", None)]
        );
    }

    fn double_free(at: u64, allocated: u64, freed: Option<u64>, blocks: u64) -> Finding<Vec<Frame>> {
        let stack = |address| vec![Frame { module: Some("/t".into()), address, ..Frame::default() }];
        Finding {
            kind: FindingKind::DoubleFree,
            measure: Measure { bytes: 0, blocks },
            stack: Some(stack(at)),
            below: Measure::default(),
            root: None,
            held_by: None,
            before: Before { allocated: Some(stack(allocated)), freed: freed.map(stack) },
            process: None,
            origin: crate::model::Origin::default(),
            in_code: crate::model::InCode::default(),
        }
    }

    #[test]
    fn the_same_double_free_tells_where_it_was_freed_first() {
        let told = |mut first, second: &[_]| {
            frees(&mut first, second.to_vec());
            first
        };
        let (seen, unseen) =
            (|blocks| double_free(1, 2, Some(3), blocks), |blocks| double_free(1, 2, None, blocks));
        let other = double_free(9, 2, Some(4), 1);
        assert_eq!(told(vec![unseen(1)], &[other.clone(), seen(1)]), [seen(1)]);
        assert_eq!(told(vec![unseen(1)], std::slice::from_ref(&other)), [unseen(1)]);
        // The one was freed here, the other there.
        let there = double_free(1, 2, Some(5), 1);
        assert_eq!(told(vec![unseen(2)], &[seen(1), there.clone()]), [seen(1), there]);
        assert_eq!(told(vec![unseen(1)], &[seen(2)]), [unseen(1)]);
    }
}
