//! What a test leaves in the kernel, one kind at a time. Each function adds the differences to `lines`.

use super::is_at;
use crate::fixture::{ExpectedLeft, ExpectedMapped, ExpectedObject, ExpectedOpen};
use crate::marker::Remains;
use crate::report::{Descriptor, IpcObject, Kernel, Mapping, Site};

/// Takes out as many as are expected of those that fit; how many there are not.
fn take_out<T>(found: &mut Vec<T>, times: usize, fits: impl Fn(&T) -> bool) -> usize {
    let missing = (0..times).filter(|_| {
        let place = found.iter().position(&fits);
        place.map(|place| found.swap_remove(place)).is_none()
    });
    missing.count()
}

pub(super) fn descriptors(expected: &[ExpectedOpen], found: &[Descriptor], lines: &mut Vec<String>) {
    let mut found: Vec<&Descriptor> = found.iter().collect();
    for ExpectedOpen { what, file, line } in expected {
        let fits = |found: &&Descriptor| {
            found.kind == what.kind
                && found.numbers.len() == what.numbers
                && (&found.held_by, found.once) == (&what.held_by, what.once)
                && if what.has_line { is_at(file, *line, found.site.as_ref()) } else { found.stack.is_none() }
        };
        match take_out(&mut found, what.times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {file}:{line}")),
        }
    }
    lines.extend(found.iter().take(5).map(|found| {
        let Descriptor { numbers, kind, description, call, held_by, site, .. } = found;
        let site = site.as_ref().map(|site| (&site.file, site.line));
        format!("extra descriptor: {numbers:?} {kind} {description} by {call:?} held by {held_by:?} at {site:?}: {:?}", found.stack)
    }));
}

pub(super) fn ipc(expected: &[ExpectedObject], found: &[IpcObject], lines: &mut Vec<String>) {
    let mut found: Vec<&IpcObject> = found.iter().collect();
    for ExpectedObject { what, file, line } in expected {
        let fits = |found: &&IpcObject| {
            let at = if what.has_line {
                is_at(file, *line, found.site.as_ref())
            } else {
                found.call.is_none() && found.site.is_none() && found.stack.is_none()
            };
            found.kind == what.kind && at
        };
        match take_out(&mut found, what.times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {file}:{line}")),
        }
    }
    lines.extend(found.iter().take(5).map(|found| format!("extra IPC object: {found:?}")));
}

pub(super) fn mapped(expected: &[ExpectedMapped], found: &[Mapping], lines: &mut Vec<String>) {
    let mut found: Vec<&Mapping> = found.iter().collect();
    for ExpectedMapped { what, file, line } in expected {
        let fits = |found: &&Mapping| {
            (&found.kind, found.bytes, found.count, found.once)
                == (&what.kind, what.bytes, what.count, what.once)
                && is_at(file, *line, found.site.as_ref())
        };
        if take_out(&mut found, 1, fits) > 0 {
            lines.push(format!("missing: {what:?} at {file}:{line}"));
        }
    }
    lines.extend(found.iter().take(5).map(|found| format!("extra mapping: {found:?}")));
}

/// A process or thread: what it is, its words, where it was started, and all that is known of it.
type Leftover<'a> = (Remains, &'a str, Option<&'a Site>, String);

pub(super) fn left(expected: &[ExpectedLeft], kernel: &Kernel, lines: &mut Vec<String>) {
    let children = kernel.children.iter().map(|child| {
        let what = if child.state == "zombie" { Remains::Zombie } else { Remains::Running };
        (what, child.command.as_str(), child.site.as_ref(), format!("{child:?}"))
    });
    let threads = kernel
        .threads
        .iter()
        .map(|thread| (Remains::Thread, thread.name.as_str(), thread.site.as_ref(), format!("{thread:?}")));
    let mut found: Vec<Leftover> = children.chain(threads).collect();
    for ExpectedLeft { what, at } in expected {
        let fits = |(is, words, site, _): &Leftover| {
            *is == what.what
                && what.word.as_ref().is_none_or(|word| words.contains(word.as_str()))
                && at.as_ref().map_or(site.is_none(), |(file, line)| is_at(file, *line, *site))
        };
        let Some(times) = what.times else {
            found.retain(|found| !fits(found));
            continue;
        };
        match take_out(&mut found, times, fits) {
            0 => {}
            missing => lines.push(format!("missing: {missing} of {what:?} at {at:?}")),
        }
    }
    lines.extend(found.into_iter().take(5).map(|(_, _, _, found)| format!("extra: {found}")));
}
