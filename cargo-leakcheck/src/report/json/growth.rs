//! What a test's body adds each time it is run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Site, StackFrame, View, frames, place};
use crate::model::{Frame, Grown, Growth, Measure};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row<'a, F, P> {
    iterations: u64,
    warmup: u64,
    bytes: Vec<u64>,
    blocks: Vec<u64>,
    descriptors: Cow<'a, [u64]>,
    grown: Vec<Place<'a, F, P>>,
    ended: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place<'a, F, P> {
    bytes: Cow<'a, [u64]>,
    site: Option<P>,
    stack: Option<Vec<F>>,
}

impl<'a> Row<'a, StackFrame<'a>, Site<'a>> {
    pub(super) fn of(growth: &'a Growth<Vec<Frame>>, view: &'a View) -> Self {
        let grown = growth.grown.iter().map(|grown| Place {
            bytes: Cow::Borrowed(grown.bytes.as_slice()),
            site: grown.stack.as_deref().and_then(|stack| place(stack, view)),
            stack: grown.stack.as_deref().map(|stack| frames(stack, view)),
        });
        Self {
            iterations: growth.iterations,
            warmup: growth.warmup,
            bytes: growth.bytes(),
            blocks: growth.alive.iter().map(|measure| measure.blocks).collect(),
            descriptors: Cow::Borrowed(&growth.descriptors),
            grown: grown.collect(),
            ended: growth.ended.as_deref().map(Cow::Borrowed),
        }
    }
}

impl<P> Row<'static, Frame, P> {
    pub(super) fn sites(&self) -> impl Iterator<Item = &P> {
        self.grown.iter().filter_map(|grown| grown.site.as_ref())
    }
}

impl<P> From<Row<'static, Frame, P>> for Growth<Vec<Frame>> {
    fn from(read: Row<'static, Frame, P>) -> Self {
        let measure = |(bytes, blocks)| Measure { bytes, blocks };
        let grown = read.grown.into_iter().map(|it| Grown { bytes: it.bytes.into_owned(), stack: it.stack });
        Self {
            iterations: read.iterations,
            warmup: read.warmup,
            alive: read.bytes.into_iter().zip(read.blocks).map(measure).collect(),
            descriptors: read.descriptors.into_owned(),
            grown: grown.collect(),
            ended: read.ended.map(Cow::into_owned),
        }
    }
}
