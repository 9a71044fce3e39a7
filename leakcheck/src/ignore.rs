use core::ops::Deref;
use core::panic::Location;

use crate::log::{self, kind};

/// Has `cargo leakcheck` ignore the block that `value` refers to, and what hangs below it.
///
/// The block is the one that `*value` is in: what a `Box`, `Rc` or `Arc` has its value in, the buffer of a `Vec` or a
/// `String`, and of a reference, given as `&reference`, whatever heap block leads to. What hangs below it is all that the
/// block leads to when the process ends. All of it is reported as ignored, with the place of this call, and does not count,
/// neither for the test's budget nor for that of a [`scope`](crate::scope()).
///
/// This very block is meant, and not its address: what is allocated there after a free, and what a `Vec` that has grown has
/// moved to, is not ignored. Call it when the value is complete.
///
/// Other types are ignored by a reference into the heap: `ignore(&Box::leak(Box::new(map)))` for a whole map and what it
/// owns. A value that refers to no heap block, like an empty `Vec`, has nothing to ignore. What an `Rc<()>` refers to has no
/// size, and is where its block ends; if another block begins there, as with some allocators, neither is ignored.
///
/// Without `cargo leakcheck` this reads one word and does nothing.
///
/// ```
/// # fn load() -> Vec<String> { vec!["a".into(), "b".into()] }
/// let table: &'static mut Vec<String> = Box::leak(Box::new(load()));
/// // The vector, its buffer, and the strings.
/// leakcheck::ignore(&table);
/// ```
#[inline]
#[track_caller]
pub fn ignore<P: Deref + ?Sized>(value: &P) {
    if log::is_on() {
        let address = (&raw const **value).cast::<()>().addr();
        let at = Location::caller();
        let file = at.file();
        let kind = if size_of_val(&**value) == 0 { kind::IGNORE_EMPTY } else { kind::IGNORE };
        log::add([kind, !address, file.as_ptr().addr(), file.len(), at.line() as usize]);
    }
}
