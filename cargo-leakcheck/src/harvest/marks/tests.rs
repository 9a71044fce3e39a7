use super::*;
use crate::snapshot::Block;

const NONE: u64 = u64::MAX;

/// An entry; its number is its place among the others.
fn entry(number: u64, time: u64, thread: u32, words: &[u64]) -> Entry {
    let mut all = [0; WORDS];
    all[..words.len()].copy_from_slice(words);
    Entry { number, words: all, thread, time }
}

/// One that opens a scope; the name's address stands for it.
fn opens(number: u64, time: u64, thread: u32, name: u8, bytes: u64) -> Entry {
    let words = [kind::SCOPE.0, u64::from(name), 1, bytes, NONE, NONE, NONE, NONE];
    entry(number, time, thread, &words)
}

fn changes((kind, _): (u64, u64), number: u64, time: u64, thread: u32, scope: u64) -> Entry {
    entry(number, time, thread, &[kind, scope])
}

fn scopes(entries: &[Entry]) -> Scopes {
    Scopes::of(entries, |entry| char::from(entry.words[1] as u8).to_string().into())
}

/// A scope's name, and whose limits it has, with their bytes.
type Said = Option<(String, Option<(String, u64)>)>;

/// The scopes of blocks that threads have allocated at times.
fn of_blocks(entries: &[Entry], blocks: &[(u32, u64)]) -> Vec<Said> {
    let address = |number: usize| 0x1000 + number as u64 * 0x10;
    let threads = (0..).zip(blocks).map(|(number, (thread, _))| (address(number), *thread)).collect();
    let block = |(number, (_, time)): (usize, &(u32, u64))| Block {
        address: address(number),
        size: 8,
        stack: None,
        in_window: true,
        runtime: false,
        time: *time,
    };
    let all: Blocks = blocks.iter().enumerate().map(block).collect();
    let (scopes, in_scope) = scopes(entries).of_blocks(&all, &threads);
    let said = |number| {
        let scope: &Scope = &scopes[*in_scope.get(&number)? as usize];
        let limited = scope.limited.as_ref().map(|it| (it.by.clone(), it.bytes.unwrap_or(NONE)));
        Some((scope.name.clone(), limited))
    };
    (0..blocks.len()).map(said).collect()
}

fn is(name: &str, limited: Option<(&str, u64)>) -> Said {
    Some((name.to_owned(), limited.map(|(by, bytes)| (by.to_owned(), bytes))))
}

/// A value of no size is in a block, at its start (an empty vector with room), or at its end (`Rc<()>`).
#[test]
fn what_has_no_size_may_be_at_the_end_of_its_block() {
    // Two side by side, and one at a distance; the last one is younger than the entries.
    let places = [(0x1000, 10), (0x1010, 20), (0x1030, 30), (0x1050, 90)];
    let block =
        |(address, time)| Block { address, size: 16, stack: None, in_window: true, runtime: false, time };
    let blocks: Blocks = places.map(block).into_iter().collect();
    let ignored = |(kind, _): (u64, u64), address: u64| entry(0, 50, 1, &[kind, !address]).ignored(&blocks);
    for (address, full, empty) in [
        (0xfff, None, None),
        (0x1000, Some(0), Some(0)),
        (0x1008, Some(0), Some(0)),
        // The end of one, and the start of another.
        (0x1010, Some(1), None),
        (0x1020, None, Some(1)),
        (0x1028, None, None),
        (0x1030, Some(2), Some(2)),
        (0x1040, None, Some(2)),
        (0x1050, None, None),
        (0x1060, None, None),
        (0, None, None),
    ] {
        let found = (ignored(kind::IGNORE, address), ignored(kind::IGNORE_EMPTY, address));
        assert_eq!(found, (full, empty), "{address:#x}");
    }
}

#[test]
fn the_innermost_scope_of_the_own_thread_counts() {
    let entries = [
        opens(0, 10, 1, b'a', NONE),
        opens(1, 20, 1, b'b', NONE),
        changes(kind::LEAVE, 2, 30, 1, 1),
        changes(kind::LEAVE, 3, 40, 1, 0),
    ];
    let found = of_blocks(&entries, &[(1, 5), (1, 15), (1, 25), (1, 35), (1, 45), (2, 25)]);
    assert_eq!(found, [None, is("a", None), is("b", None), is("a", None), None, None]);
}

#[test]
fn a_handle_enters_on_other_threads_and_guards_go_in_any_order() {
    let entries = [
        opens(0, 10, 1, b'a', 7),
        changes(kind::ENTER, 1, 20, 2, 0),
        opens(2, 30, 1, b'b', NONE),
        // The outer one goes first.
        changes(kind::LEAVE, 3, 40, 1, 0),
        changes(kind::LEAVE, 4, 50, 2, 0),
        changes(kind::LEAVE, 5, 60, 1, 2),
    ];
    let found = of_blocks(&entries, &[(2, 15), (2, 25), (2, 55), (1, 45), (1, 65)]);
    let a = Some(("a", 7));
    assert_eq!(found, [None, is("a", a), None, is("b", a), None]);
}

#[test]
fn entries_count_in_the_order_of_time_whatever_their_numbers() {
    // Another thread got its number first, and the time later.
    let entries = [changes(kind::LEAVE, 0, 20, 1, 1), opens(1, 10, 1, b'a', NONE)];
    assert_eq!(of_blocks(&entries, &[(1, 15), (1, 25)]), [is("a", None), None]);
}

#[test]
fn limits_are_those_of_the_name_the_lowest_of_several_or_of_what_is_around() {
    let entries = [
        opens(0, 10, 1, b'a', 100),
        opens(1, 20, 1, b'b', NONE),
        changes(kind::LEAVE, 2, 30, 1, 1),
        changes(kind::LEAVE, 3, 40, 1, 0),
        opens(4, 50, 1, b'a', 60),
        opens(5, 60, 1, b'c', 0),
    ];
    let found = of_blocks(&entries, &[(1, 15), (1, 25), (1, 55), (1, 65)]);
    let a = Some(("a", 60));
    assert_eq!(found, [is("a", a), is("b", a), is("a", a), is("c", Some(("c", 0)))]);
}

#[test]
fn nonsense_is_passed_over() {
    // A scope that was never opened, and one that was left twice.
    let entries = [
        changes(kind::ENTER, 0, 10, 1, 77),
        changes(kind::LEAVE, 1, 20, 1, 77),
        changes(kind::LEAVE, 2, 30, 1, 77),
        opens(3, 40, 1, b'a', NONE),
    ];
    assert_eq!(of_blocks(&entries, &[(1, 15), (1, 35), (1, 45)]), [None, None, is("a", None)]);
}
