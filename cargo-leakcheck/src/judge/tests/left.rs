//! What was left in the kernel.

use super::*;
use crate::model::{Descriptor, IpcName, IpcObject, LeftChild, LeftMapping, LeftThread};

fn open(numbers: &[&[u32]]) -> Left<Vec<Frame>> {
    let descriptor = |numbers: &&[u32]| Descriptor {
        numbers: numbers.to_vec(),
        kind: "file".into(),
        description: String::new(),
        call: Some("openat".into()),
        held_by: None,
        once: false,
        bytes: None,
        stack: None,
    };
    Left { descriptors: numbers.iter().map(descriptor).collect(), ..Left::default() }
}

#[test]
fn descriptors_left_open_are_counted_by_their_numbers() {
    let judged = |budget: Budget, options: &JudgeOptions, numbers: &[&[u32]]| {
        judge(
            &budget,
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left: open(numbers), losses: Vec::new(), ..Seen::default() },
            options,
            &nothing,
        )
        .verdict
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
    let both = judge(
        &limited(0),
        &Outcome::Passed,
        false,
        Seen { findings: lost, left: open(&[&[3]]), losses: Vec::new(), ..Seen::default() },
        &OPTIONS,
        &nothing,
    );
    let Verdict::Leaks(reasons) = both.verdict else { panic!("{:?}", both.verdict) };
    assert_eq!(reasons.len(), 2);
}

#[test]
fn ipc_objects_are_counted() {
    let object = |id| IpcObject {
        kind: "shared memory".into(),
        name: IpcName::Id { id, key: 0 },
        bytes: Some(4096),
        call: None,
        stack: None,
    };
    let judged = |budget: Budget, options: &JudgeOptions, objects: i32| {
        let left = Left { ipc: (0..objects).map(object).collect(), ..Left::default() };
        judge(
            &budget,
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
            options,
            &nothing,
        )
        .verdict
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

#[test]
fn children_and_threads_are_counted_where_there_is_a_limit() {
    let child = |id| LeftChild { id, parent: 1, command: "c".into(), is_zombie: false, stack: None };
    let thread = |id| LeftThread { id, name: "t".into(), stack: None, now: None };
    let judged = |own: [Option<u64>; 2], for_all: [Option<u64>; 2], children: u32, threads: u32| {
        let budget = Budget { children: own[0], threads: own[1], ..Budget::default() };
        let options = JudgeOptions { children: for_all[0], threads: for_all[1], ..OPTIONS };
        let left = Left {
            children: (0..children).map(child).collect(),
            threads: (0..threads).map(thread).collect(),
            ..Left::default()
        };
        judge(
            &budget,
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
            &options,
            &nothing,
        )
        .verdict
    };
    let leaks = |reasons: &[&str]| Verdict::Leaks(reasons.iter().map(|&reason| reason.to_owned()).collect());
    let (no, limits) = ([None, None], [Some(1), Some(2)]);
    assert_eq!(judged(no, no, 9, 9), Verdict::Clean);
    assert_eq!(judged(no, limits, 1, 2), Verdict::Clean);
    let both = ["2 children left (budget 1)", "3 threads left running (budget 2)"];
    assert_eq!(judged(no, limits, 2, 3), leaks(&both));
    // The test's own limit comes before that for all.
    assert_eq!(judged(limits, [Some(0), Some(0)], 1, 2), Verdict::Clean);
    assert_eq!(judged([Some(0), None], [Some(9), None], 1, 1), leaks(&["1 child left (budget 0)"]));
}

#[test]
fn what_descriptors_hold_is_said_if_all_is_known_and_judged_if_there_is_a_limit() {
    let judged = |limit: Option<u64>, held: [Option<u64>; 2]| {
        let mut left = open(&[&[3, 5], &[4]]);
        left.descriptors.iter_mut().zip(held).for_each(|(descriptor, bytes)| descriptor.bytes = bytes);
        let budget = Budget { fds: Some(3), kernel_bytes: limit, ..Budget::default() };
        judge(
            &budget,
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
            &OPTIONS,
            &nothing,
        )
        .verdict
    };
    let reason = "300 B held in the kernel by 3 descriptors (budget 299 B)";
    assert_eq!(judged(None, [Some(200), Some(100)]), Verdict::Clean);
    assert_eq!(judged(Some(300), [Some(200), Some(100)]), Verdict::Clean);
    assert_eq!(judged(Some(299), [Some(200), Some(100)]), Verdict::Leaks(vec![reason.to_owned()]));
    assert_eq!(judged(None, [Some(200), None]), Verdict::Clean);
    assert_eq!(judged(Some(300), [Some(200), None]), Verdict::Incomplete(vec![Loss::KernelBytes]));

    let said = |held: [Option<u64>; 2]| {
        let mut left = open(&[&[3, 5], &[4]]);
        left.descriptors.iter_mut().zip(held).for_each(|(descriptor, bytes)| descriptor.bytes = bytes);
        judge(
            &none(),
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
            &OPTIONS,
            &nothing,
        )
        .verdict
    };
    let leaks = |reason: &str| Verdict::Leaks(vec![reason.to_owned()]);
    let known = "3 descriptors left open, holding 300 B in the kernel (budget 0)";
    assert_eq!(said([Some(200), Some(100)]), leaks(known));
    assert_eq!(said([Some(200), None]), leaks("3 descriptors left open (budget 0)"));
}

#[test]
fn what_initializers_keep_holds_nothing_that_counts() {
    let mut left = open(&[&[3], &[4]]);
    // By the call stack, which `judge` looks at.
    let frame =
        Frame { function: Some("std::sync::once_lock::OnceLock<T>::initialize".into()), ..Frame::default() };
    left.descriptors[0].stack = Some(vec![frame]);
    left.descriptors[1].bytes = Some(5);
    let budget = Budget { fds: Some(1), kernel_bytes: Some(5), ..Budget::default() };
    let judged = judge(
        &budget,
        &Outcome::Passed,
        false,
        Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
        &OPTIONS,
        &nothing,
    );
    assert_eq!((judged.verdict, judged.left.kernel_bytes()), (Verdict::Clean, Some(5)));
}

#[test]
fn mapped_bytes_are_counted_where_there_is_a_limit() {
    let mapping = |bytes, function: &str| LeftMapping {
        kind: "anonymous".into(),
        description: String::new(),
        call: "mmap".into(),
        count: 2,
        bytes,
        address: 0x1000,
        once: false,
        stack: Some(vec![Frame { function: Some(function.into()), ..Frame::default() }]),
    };
    let judged = |own: Option<u64>, for_all: Option<u64>| {
        let budget = Budget { mapped_bytes: own, ..Budget::default() };
        let options = JudgeOptions { mapped_bytes: for_all, ..OPTIONS };
        // What an initializer keeps is reported only.
        let mappings = vec![mapping(8192, "a::f"), mapping(4096, "a::g"), mapping(4096, "__pthread_once")];
        let left = Left { mappings, ..Left::default() };
        judge(
            &budget,
            &Outcome::Passed,
            false,
            Seen { findings: Vec::new(), left, losses: Vec::new(), ..Seen::default() },
            &options,
            &nothing,
        )
        .verdict
    };
    let leaks = |reason: &str| Verdict::Leaks(vec![reason.to_owned()]);
    assert_eq!(judged(None, None), Verdict::Clean);
    assert_eq!(judged(Some(12288), None), Verdict::Clean);
    assert_eq!(judged(None, Some(12287)), leaks("12288 B left mapped in 4 mappings (budget 12287 B)"));
    // The test's own limit comes before that for all.
    assert_eq!(judged(Some(12288), Some(0)), Verdict::Clean);
    assert_eq!(judged(Some(0), Some(12288)), leaks("12288 B left mapped in 4 mappings (budget 0 B)"));
}
