//! What GitHub Actions shows: annotations on the user's lines (`annotations`), the step's summary (`summary`), and
//! what tests have written as text only (`quote`).

mod annotations;
mod quote;
mod summary;

pub use annotations::annotations;
pub use quote::quoted;
pub(super) use summary::StepSummary;
