/// What the kernel has allocated for a test in its window: information, never a reason for a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTotals {
    /// By system call and place, those first of which most bytes were not seen to be freed.
    pub totals: Vec<KernelTotal>,
    /// Allocations that found no room in a table, and are not in the totals or never freed there.
    pub lost: u64,
}

/// What was allocated in one system call by one function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTotal {
    /// The system call; none outside of calls (a page fault, an interrupt).
    pub call: Option<String>,
    /// The function that has asked for the memory; an address where that is not known.
    #[serde(rename = "function")]
    pub place: String,
    /// Bytes that were not seen to be freed.
    pub bytes: u64,
    /// Objects that were not seen to be freed.
    pub objects: u64,
    /// All bytes.
    pub allocated_bytes: u64,
    /// All objects.
    pub allocated_objects: u64,
}
