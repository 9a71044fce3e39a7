//! What a test's code has said of its blocks, by the crate `leakcheck`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::Scope;

/// What a test's code has said of its blocks; mostly nothing.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Blocks that are to be ignored with all that hangs below them, and where that was said.
    pub ignored: Vec<(usize, Arc<str>)>,
    /// The scopes that blocks were allocated in.
    pub scopes: Vec<Arc<Scope>>,
    /// Which of them each block was allocated in; blocks without any are not there.
    pub in_scope: HashMap<usize, u32>,
}

impl Marks {
    /// Whether nothing is said of any block.
    pub fn is_empty(&self) -> bool {
        self.ignored.is_empty() && self.in_scope.is_empty()
    }
}
