use std::sync::Arc;

use super::Budget;

/// What a test's own code says of blocks, by the crate `leakcheck`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InCode {
    /// The place (`src/lib.rs:10`) that has them ignored.
    pub ignored: Option<Arc<str>>,
    /// The innermost scope that they were allocated in.
    pub scope: Option<Arc<Scope>>,
}

impl InCode {
    /// The limits by which the blocks are judged, where these are not the test's.
    pub fn limits(&self) -> Option<&Limited> {
        self.scope.as_ref()?.limited.as_ref()
    }
}

/// A scope of a test.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Its name.
    pub name: String,
    /// Which limits its blocks are judged by, where these are not the test's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
}

/// A scope that has limits.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Limited {
    /// The scope's name.
    pub by: String,
    /// As in [`Budget`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// As in [`Budget`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// As in [`Budget`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable_bytes: Option<u64>,
    /// As in [`Budget`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable_blocks: Option<u64>,
    /// As in [`Budget`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_bytes: Option<u64>,
}

impl Limited {
    /// Its limits as a budget.
    pub fn budget(&self) -> Budget {
        let Self { by: _, bytes, blocks, reachable_bytes, reachable_blocks, outstanding_bytes } = *self;
        Budget { bytes, blocks, reachable_bytes, reachable_blocks, outstanding_bytes, ..Budget::default() }
    }
}
