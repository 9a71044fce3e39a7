//! Where a test has opened what it leaves, where a second run of it has told that.

use crate::model::{Descriptor, Frame, IpcObject, Left};
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
    let own = second.descriptors.into_iter().map(Found::Own);
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

fn seen(of: &Opened) -> (&str, &str, &[u32]) {
    (&of.kind, &of.description, &of.numbers)
}

/// Names of IPC objects may have a number in them that is another one in the second run.
fn objects(first: &mut [IpcObject<Vec<Frame>>], second: Vec<IpcObject<Vec<Frame>>>) {
    let is_same =
        first.len() == second.len() && first.iter().zip(&second).all(|(one, other)| one.kind == other.kind);
    if !is_same {
        return;
    }
    for (first, second) in first.iter_mut().zip(second) {
        if first.call.is_none() {
            (first.call, first.stack) = (second.call, second.stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_object_gets_the_call_of_the_one_in_its_place() {
        let object = |name: &str, call: Option<&'static str>| IpcObject {
            kind: "POSIX shared memory".into(),
            name: crate::model::IpcName::Name(name.into()),
            bytes: None,
            call: call.map(Into::into),
            stack: call.map(|_| Vec::new()),
        };
        let mut first = Left { ipc: vec![object("/1", None)], ..Left::default() };
        let second = Left { ipc: vec![object("/2", Some("open"))], ..Left::default() };
        take_over(&mut first, second, vec![]);
        assert_eq!(first.ipc, [object("/1", Some("open"))]);
    }
}
