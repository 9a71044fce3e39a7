//! What is recorded of the whole machine, and so of a test or not, by when it was started.

use super::kernel::Kernel;

/// What the kernel side records at tracepoints that the whole machine meets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sees {
    /// Who makes files.
    pub files: bool,
    /// The kernel's objects.
    pub objects: bool,
}

impl Sees {
    /// What it records now.
    pub fn of(kernel: &Kernel) -> Self {
        Self {
            files: matches!(kernel.files(), Some(Ok(files)) if files.runs()),
            objects: matches!(kernel.objects(), Some(Ok(objects)) if objects.runs()),
        }
    }
}
