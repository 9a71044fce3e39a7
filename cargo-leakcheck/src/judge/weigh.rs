//! What descriptors hold in the kernel, where a second run of the test has told it.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::{Descriptor, Frame, Judged, Verdict};

type Opened = Descriptor<Vec<Frame>>;

/// Whether a second run would say more of a test that leaks than is known. What a test may leave is not weighed, nor what it
/// has not left when it was run once more already.
pub fn is_wanted(first: &Judged) -> bool {
    let is_wanted = |it: &Opened| !it.once && it.bytes.is_none() && it.call.is_some();
    matches!(first.verdict, Verdict::Leaks(_)) && first.left.descriptors.iter().any(is_wanted)
}

/// Takes over what the same descriptors of a second run hold: those of one kind that one call has made at one place. Where
/// the runs have different numbers of them, nobody knows which are the same, and nothing is said.
pub fn take_over(first: &mut [Opened], second: Vec<Opened>) {
    let mut by_place = HashMap::<_, Vec<Option<u64>>>::new();
    for descriptor in second {
        let bytes = descriptor.bytes;
        by_place.entry(place(&descriptor)).or_default().push(bytes);
    }
    let mut alike = HashMap::<_, Vec<&mut Opened>>::new();
    for descriptor in first {
        alike.entry(place(descriptor)).or_default().push(descriptor);
    }
    for (place, descriptors) in alike {
        let Some(bytes) = by_place.get(&place).filter(|bytes| bytes.len() == descriptors.len()) else {
            continue;
        };
        // Both are in the order of their numbers.
        descriptors.into_iter().zip(bytes).for_each(|(descriptor, bytes)| descriptor.bytes = *bytes);
    }
}

type Place = (Cow<'static, str>, Option<String>, usize, Option<Vec<(Option<String>, u64, bool)>>);

/// By what a descriptor of one run is known in another: addresses in modules are the same in both.
fn place(of: &Opened) -> Place {
    let frame = |frame: &Frame| (frame.module.clone(), frame.address, frame.inlined);
    let stack = of.stack.as_ref().map(|stack| stack.iter().map(frame).collect());
    (of.kind.clone(), of.call.clone(), of.numbers.len(), stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(number: u32, address: u64, bytes: Option<u64>) -> Opened {
        let frame = Frame { module: Some("/t".into()), address, ..Frame::default() };
        Descriptor {
            numbers: vec![number],
            kind: "file".into(),
            description: String::new(),
            call: Some("openat".into()),
            held_by: None,
            once: false,
            bytes,
            stack: Some(vec![frame]),
        }
    }

    fn taken(first: &[(u32, u64)], second: &[(u32, u64, u64)]) -> Vec<Option<u64>> {
        let mut first: Vec<_> = first.iter().map(|(number, at)| descriptor(*number, *at, None)).collect();
        let second = second.iter().map(|(number, at, bytes)| descriptor(*number, *at, Some(*bytes)));
        take_over(&mut first, second.collect());
        first.into_iter().map(|descriptor| descriptor.bytes).collect()
    }

    #[test]
    fn the_same_place_is_the_same_descriptor_whatever_its_number() {
        assert_eq!(taken(&[(3, 0x10), (4, 0x20)], &[(3, 0x20, 7), (9, 0x10, 5)]), [Some(5), Some(7)]);
        assert_eq!(taken(&[(3, 0x10), (4, 0x10)], &[(5, 0x10, 7), (6, 0x10, 5)]), [Some(7), Some(5)]);
    }

    #[test]
    fn where_the_runs_differ_nothing_is_known() {
        assert_eq!(
            taken(&[(3, 0x10), (4, 0x10), (5, 0x20)], &[(3, 0x10, 7), (4, 0x20, 5)]),
            [None, None, Some(5)]
        );
        assert_eq!(taken(&[(3, 0x10)], &[]), [None]);
    }
}
