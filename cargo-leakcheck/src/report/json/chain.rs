//! The way to a block in the JSON document.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{StackFrame, frame};
use crate::model::{Frame, Held, Step, Through};
use crate::report::View;

/// A step, with the frame of a block's allocation site.
#[derive(Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum Row<'a, F> {
    Root(Cow<'a, Held>),
    Block {
        bytes: u64,
        #[serde(rename = "type")]
        type_name: Option<Cow<'a, str>>,
        offset: Option<u64>,
        frame: Option<F>,
    },
    More {
        blocks: u64,
    },
}

/// A way as it is written.
pub(super) fn rows<'a>(chain: &'a [Step<Vec<Frame>>], view: &'a View) -> Vec<Row<'a, StackFrame<'a>>> {
    let row = |step: &'a Step<Vec<Frame>>| match step {
        Step::Root(held) => Row::Root(Cow::Borrowed(held)),
        Step::More(blocks) => Row::More { blocks: *blocks },
        Step::Block(Through { stack, bytes, type_name, offset }) => Row::Block {
            bytes: *bytes,
            type_name: type_name.as_deref().map(Cow::Borrowed),
            offset: *offset,
            frame: stack.as_deref().and_then(<[Frame]>::first).map(|it| frame(it, view)),
        },
    };
    chain.iter().map(row).collect()
}

impl From<Row<'_, Frame>> for Step<Vec<Frame>> {
    fn from(row: Row<'_, Frame>) -> Self {
        match row {
            Row::Root(held) => Self::Root(held.into_owned()),
            Row::More { blocks } => Self::More(blocks),
            Row::Block { bytes, type_name, offset, frame } => Self::Block(Through {
                stack: frame.map(|frame| vec![frame]),
                bytes,
                type_name: type_name.map(Cow::into_owned),
                offset,
            }),
        }
    }
}
