//! What GitHub Actions shows: annotations on the user's lines (`annotations`) and the step's summary
//! (`summary`).

mod annotations;
mod summary;

pub use annotations::annotations;
pub(super) use summary::StepSummary;
