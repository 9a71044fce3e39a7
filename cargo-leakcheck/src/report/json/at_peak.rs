//! What was alive at a test's peak.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Site, StackFrame, View, frames, place};
use crate::model::{Allocated, AtPeak, Frame, Measure};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row<'a, F, P> {
    stacks: Vec<Place<F, P>>,
    rest: Measure,
    unknown: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place<F, P> {
    bytes: u64,
    blocks: u64,
    site: Option<P>,
    stack: Option<Vec<F>>,
}

impl<'a> Row<'a, StackFrame<'a>, Site<'a>> {
    pub(super) fn of(at_peak: &'a AtPeak<Vec<Frame>>, view: &'a View) -> Self {
        let stacks = at_peak.stacks.iter().map(|Allocated { measure, stack }| Place {
            bytes: measure.bytes,
            blocks: measure.blocks,
            site: stack.as_deref().and_then(|stack| place(stack, view)),
            stack: stack.as_deref().map(|stack| frames(stack, view)),
        });
        let unknown = at_peak.unknown.as_deref().map(Cow::Borrowed);
        Self { stacks: stacks.collect(), rest: at_peak.rest, unknown }
    }
}

impl<P> Row<'static, Frame, P> {
    pub(super) fn sites(&self) -> impl Iterator<Item = &P> {
        self.stacks.iter().filter_map(|it| it.site.as_ref())
    }
}

impl<P> From<Row<'static, Frame, P>> for AtPeak<Vec<Frame>> {
    fn from(read: Row<'static, Frame, P>) -> Self {
        let stacks = read.stacks.into_iter().map(|Place { bytes, blocks, stack, .. }| Allocated {
            measure: Measure { bytes, blocks },
            stack,
        });
        Self { stacks: stacks.collect(), rest: read.rest, unknown: read.unknown.map(Cow::into_owned) }
    }
}
