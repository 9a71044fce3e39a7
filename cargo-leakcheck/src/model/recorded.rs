//! What has recorded a test.

/// Who has written down a test's allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedBy {
    /// The ledger, inside the process.
    Ledger,
    /// eBPF programs at probes in the C library.
    Uprobe {
        /// Why the ledger would have been passed by; none where the recorder was asked for.
        because: Option<String>,
    },
}

impl RecordedBy {
    /// The public name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Uprobe { .. } => "uprobe",
        }
    }

    /// Why it was not the ledger, where that was not asked for.
    pub fn because(&self) -> Option<&str> {
        match self {
            Self::Ledger => None,
            Self::Uprobe { because } => because.as_deref(),
        }
    }
}
