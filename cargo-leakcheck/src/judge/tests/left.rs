//! Descriptors and IPC objects.

use super::*;
use crate::model::{IpcName, IpcObject};

fn open(numbers: &[&[u32]]) -> Left {
    let descriptor = |numbers: &&[u32]| Descriptor {
        numbers: numbers.to_vec(),
        kind: "file",
        description: String::new(),
        call: "openat".into(),
        held_by: None,
        once: false,
        stack: None,
    };
    Left { descriptors: numbers.iter().map(descriptor).collect(), ipc: Vec::new() }
}

#[test]
fn descriptors_left_open_are_counted_by_their_numbers() {
    let judged = |budget: Budget, options: &JudgeOptions, numbers: &[&[u32]]| {
        judge(&budget, &Outcome::Passed, false, Vec::new(), open(numbers), Vec::new(), options).verdict
    };
    let leaks = |reason: &str| Verdict::Leaks(vec![reason.to_owned()]);
    assert_eq!(judged(none(), &OPTIONS, &[]), Verdict::Clean);
    assert_eq!(judged(none(), &OPTIONS, &[&[3]]), leaks("1 descriptor left open (budget 0)"));
    // One file that was duplicated has two descriptors.
    assert_eq!(judged(none(), &OPTIONS, &[&[3, 5], &[4]]), leaks("3 descriptors left open (budget 0)"));
    let limited = |fds| Budget { fds: Some(fds), ..Budget::default() };
    assert_eq!(judged(limited(3), &OPTIONS, &[&[3, 5], &[4]]), Verdict::Clean);
    assert_eq!(judged(limited(2), &OPTIONS, &[&[3, 5], &[4]]), leaks("3 descriptors left open (budget 2)"));
    // The test's own limit comes before that for all.
    let all = JudgeOptions { fds: Some(2), ..OPTIONS };
    assert_eq!(judged(none(), &all, &[&[3, 5]]), Verdict::Clean);
    assert_eq!(judged(limited(1), &all, &[&[3, 5]]), leaks("2 descriptors left open (budget 1)"));
    let unlimited = JudgeOptions { fds: None, ..OPTIONS };
    assert_eq!(judged(none(), &unlimited, &[&[3, 5]]), Verdict::Clean);
    assert_eq!(judged(limited(1), &unlimited, &[&[3, 5]]), leaks("2 descriptors left open (budget 1)"));
    // A limit for descriptors alone leaves that for memory as it is.
    let lost = findings(&[(DefinitelyLost, 8, 1)]);
    let both = judge(&limited(0), &Outcome::Passed, false, lost, open(&[&[3]]), Vec::new(), &OPTIONS);
    let Verdict::Leaks(reasons) = both.verdict else { panic!("{:?}", both.verdict) };
    assert_eq!(reasons.len(), 2);
}

#[test]
fn ipc_objects_are_counted() {
    let object = |id| IpcObject {
        kind: "shared memory",
        name: IpcName::Id { id, key: 0 },
        bytes: Some(4096),
        call: None,
        stack: None,
    };
    let judged = |budget: Budget, options: &JudgeOptions, objects: i32| {
        let left = Left { descriptors: Vec::new(), ipc: (0..objects).map(object).collect() };
        judge(&budget, &Outcome::Passed, false, Vec::new(), left, Vec::new(), options).verdict
    };
    let leaks = |reason: &str| Verdict::Leaks(vec![reason.to_owned()]);
    assert_eq!(judged(none(), &OPTIONS, 0), Verdict::Clean);
    assert_eq!(judged(none(), &OPTIONS, 1), leaks("1 IPC object left (budget 0)"));
    let limited = |ipc| Budget { ipc: Some(ipc), ..Budget::default() };
    assert_eq!(judged(limited(2), &OPTIONS, 2), Verdict::Clean);
    assert_eq!(judged(limited(1), &OPTIONS, 2), leaks("2 IPC objects left (budget 1)"));
    // The test's own limit comes before that for all.
    let all = JudgeOptions { ipc: 1, ..OPTIONS };
    assert_eq!(judged(none(), &all, 1), Verdict::Clean);
    assert_eq!(judged(limited(0), &all, 1), leaks("1 IPC object left (budget 0)"));
}
