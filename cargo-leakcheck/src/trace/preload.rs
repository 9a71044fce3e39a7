//! Has the loader of a process that has just executed its program preload libraries, without a trace
//! of it in what the program is given.
//!
//! The loader finds the environment behind the arguments on the initial stack (System V ABI: their count, the
//! arguments, 0, the environment, 0, the auxiliary vector). For as long as it reads them, the variable
//! takes the place of the user's own one; without one, that of the arguments' end, and the arguments
//! are counted one less. So nothing has to be moved, the words are put back afterwards, and
//! the program is given by the loader what the kernel has made: the stack pointer of its start.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use nix::unistd::Pid;

use super::memory;

/// The variable that names libraries to load first, as it begins in an environment.
const VARIABLE: &[u8] = b"LD_PRELOAD=";
/// Arguments and environment take no more (fs/exec.c, `bprm_stack_limits`).
const LARGEST: usize = 8 << 20;
/// How far below the initial stack pointer the variable is: the kernel has made 128 KiB of stack, and the
/// loader uses less than a tenth of it until it has read this.
const BELOW: u64 = 64 << 10;

/// Words of the initial stack, with their addresses.
type Words = Vec<(u64, u64)>;

/// What the loader is to find, and what was there.
struct Change<'a> {
    /// The place of the pointer to the variable.
    place: u64,
    /// The value that the user has given it.
    theirs: Option<&'a OsStr>,
    /// The count of arguments, if it changes.
    count: Option<u64>,
    /// The words that were there.
    before: Words,
}

/// Has the loader preload the libraries that `value` names, given those of the user's own; the words to
/// put back.
///
/// # Errors
/// Why that is not possible; nothing has changed.
pub fn lend(pid: Pid, stack: u64, value: impl FnOnce(Option<&OsStr>) -> OsString) -> Result<Words, String> {
    let bytes = memory::read(pid, stack, LARGEST);
    let change = change(stack, &bytes).ok_or("its arguments cannot be read")?;
    let text = [VARIABLE, value(change.theirs).as_bytes(), &[0]].concat();
    let address = stack.saturating_sub(BELOW + text.len() as u64) & !7;
    let words = [(change.place, address)].into_iter().chain(change.count.map(|count| (stack, count)));
    let written = memory::write(pid, address, &text)
        && words.into_iter().all(|(place, word)| memory::write(pid, place, &word.to_ne_bytes()));
    if written {
        return Ok(change.before);
    }
    give_back(pid, &change.before);
    Err("its initial stack cannot be written".into())
}

/// Puts the words back.
pub fn give_back(pid: Pid, words: &[(u64, u64)]) {
    for (place, word) in words {
        // A process that is gone needs none.
        memory::write(pid, *place, &word.to_ne_bytes());
    }
}

fn change(stack: u64, bytes: &[u8]) -> Option<Change<'_>> {
    let word = |index: usize| {
        let bytes = bytes.get(index.checked_mul(8)?..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    let place = |index: usize| stack + index as u64 * 8;
    let text = |pointer: u64| {
        let text = bytes.get(pointer.checked_sub(stack)? as usize..)?;
        text.split(|byte| *byte == 0).next()
    };
    let count = word(0)?;
    let end = usize::try_from(count).ok()?.checked_add(1)?;
    let terminator = word(end)?;
    let mut found = None;
    for index in end + 1.. {
        let pointer = word(index)?;
        if pointer == 0 {
            break;
        }
        // The loader takes the last one (elf/rtld.c, `process_envvars`).
        let theirs = text(pointer).and_then(|text| text.strip_prefix(VARIABLE));
        found = theirs.map(|theirs| (index, pointer, theirs)).or(found);
    }
    Some(match found {
        Some((index, pointer, theirs)) => Change {
            place: place(index),
            theirs: (!theirs.is_empty()).then(|| OsStr::from_bytes(theirs)),
            count: None,
            before: vec![(place(index), pointer)],
        },
        None => Change {
            place: place(end),
            theirs: None,
            // Linux starts no program without its name (since 5.18).
            count: Some(count.checked_sub(1)?),
            before: vec![(place(end), terminator), (stack, count)],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: u64 = 0x7ffc_0000_1000;

    /// An initial stack with one argument and these variables.
    fn initial(variables: &[&str]) -> Vec<u8> {
        let texts = STACK + 8 * (variables.len() as u64 + 7);
        let mut words = vec![1, texts, 0];
        let mut bytes = b"program\0".to_vec();
        for variable in variables {
            words.push(texts + bytes.len() as u64);
            bytes.extend(variable.bytes().chain([0]));
        }
        // The end of the variables, and an auxiliary vector of its end and another entry.
        words.extend([0, 6, 4096, 0]);
        assert_eq!(words.len() as u64 * 8, texts - STACK);
        words.into_iter().flat_map(u64::to_ne_bytes).chain(bytes).collect()
    }

    #[test]
    fn the_variable_stands_before_all_others() {
        for variables in [&[][..], &["A=LD_PRELOAD=/x", "LD_PRELOADS=/y", "LD_PRELOAD"]] {
            let bytes = initial(variables);
            let change = change(STACK, &bytes).unwrap();
            // The word behind the only argument, which ends the arguments.
            assert_eq!((change.place, change.theirs, change.count), (STACK + 16, None, Some(0)));
            assert_eq!(change.before, [(STACK + 16, 0), (STACK, 1)]);
        }
    }

    #[test]
    fn the_users_own_variable_is_replaced() {
        let bytes = initial(&["LD_PRELOAD=/x", "A=", "LD_PRELOAD=/y /z", "B="]);
        let found = change(STACK, &bytes).unwrap();
        assert_eq!((found.theirs, found.count), (Some(OsStr::new("/y /z")), None));
        // The third variable: three words are before the first.
        let texts = STACK + 8 * 11;
        let third = texts + "program-LD_PRELOAD=/x-A=-".len() as u64;
        assert_eq!((found.place, found.before), (STACK + 40, vec![(STACK + 40, third)]));
        let bytes = initial(&["LD_PRELOAD=/x", "LD_PRELOAD="]);
        assert_eq!(change(STACK, &bytes).unwrap().theirs, None);
    }

    #[test]
    fn nothing_is_believed_of_what_cannot_be_read() {
        let bytes = initial(&["A="]);
        assert!(change(STACK, &bytes[..32]).is_none(), "the variables have no end");
        assert!(change(STACK, &bytes[..20]).is_none());
        assert!(change(STACK, &[]).is_none());
        let many = [u64::MAX; 4].map(u64::to_ne_bytes).concat();
        assert!(change(STACK, &many).is_none());
        assert!(change(STACK, &[0; 64]).is_none(), "no arguments, and no room");
    }
}
