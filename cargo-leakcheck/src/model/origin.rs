use super::Step;

/// What is known of where the blocks of a finding come from, and what holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<S> {
    /// The type that they were allocated for (`Box<[u8; 4096]>`), where the call stack says it.
    pub type_name: Option<String>,
    /// Whose code has allocated them.
    pub owner: Owner,
    /// For still reachable blocks the shortest way from a root to the largest of them; for definitely lost ones that are in a
    /// cycle, the way around. Otherwise nothing.
    pub chain: Vec<Step<S>>,
}

impl<S> Default for Origin<S> {
    fn default() -> Self {
        Self { type_name: None, owner: Owner::default(), chain: Vec::new() }
    }
}

/// A package or a library.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its name; none where nobody knows whose code it is.
    pub name: Option<String>,
    /// A package's version, where its manifest says it.
    pub version: Option<String>,
}

/// Whose something is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// A package of the workspace.
    Workspace,
    /// Another package, with the C and C++ code that it brings along.
    Dependency,
    /// A shared library.
    Library,
    /// Nobody knows.
    #[default]
    Unknown,
}

impl Owner {
    /// Whether it is somebody else's than the user's.
    pub fn is_foreign(&self) -> bool {
        matches!(self.kind, OwnerKind::Dependency | OwnerKind::Library)
    }
}
