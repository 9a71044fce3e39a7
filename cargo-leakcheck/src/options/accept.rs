//! What is accepted, so that it does not count.

use camino::Utf8PathBuf;

use crate::model::Day;

/// What to accept.
#[derive(Clone, Debug, Default)]
pub struct AcceptOptions {
    /// The baseline: `--baseline`, or the workspace's own; none where no workspace is known, or by `--no-baseline`.
    pub baseline: Option<Utf8PathBuf>,
    /// `--baseline` names it: there must be one.
    pub must_be: bool,
    /// `--no-baseline`.
    pub no_baseline: bool,
    /// What to make of it after the run.
    pub ratchet: Option<Ratchet>,
    /// Suppression files of other tools.
    pub suppressions: Vec<Utf8PathBuf>,
    /// `--write-rules`: print rules by which the run would pass.
    pub write_rules: bool,
    /// A rule that is for nothing is an error.
    pub deny_unused_rules: bool,
    /// The day on which rules expire or not.
    pub today: Day,
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
