//! What is accepted, so that it does not count.

use camino::Utf8PathBuf;

/// What to accept.
#[derive(Clone, Debug, Default)]
pub struct AcceptOptions {
    /// The baseline: `--baseline`, or the workspace's own; none where no workspace is known, or by `--no-baseline`.
    pub baseline: Option<Utf8PathBuf>,
    /// `--no-baseline`.
    pub no_baseline: bool,
    /// What to make of it after the run.
    pub ratchet: Option<Ratchet>,
}

impl AcceptOptions {
    /// Whether the baseline is to be written anew.
    pub fn is_write(&self) -> bool {
        self.ratchet == Some(Ratchet::Write)
    }
}

/// What becomes of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratchet {
    /// It has what leaks now.
    Write,
    /// It loses what does not leak any more.
    Update,
}
