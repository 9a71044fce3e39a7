//! How a test's process was made.

/// By which way it has come to its program's entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spawned {
    /// Forked from a process of its binary that was started once.
    Forked,
    /// Started as any program.
    Started {
        /// Why nothing could be forked of its binary; none where that was not tried.
        because: Option<String>,
    },
}

impl Spawned {
    /// The public name, that of the option's value.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forked => "fork",
            Self::Started { .. } => "exec",
        }
    }

    /// Why it was not forked.
    pub fn because(&self) -> Option<&str> {
        match self {
            Self::Forked => None,
            Self::Started { because } => because.as_deref(),
        }
    }
}
