//! The types that pass between stages. Plain data: no stage's logic lives here.

mod budget;
mod descriptor;
mod files;
mod finding;
mod ipc;
mod left;
mod recorded;
mod steered;
mod target;
mod test;
mod words;

pub use budget::{Budget, Measure};
pub use descriptor::Descriptor;
pub use files::LeftFiles;
pub use finding::{CheckedTest, Finding, FindingKind, Frame, Judged, Totals, Verdict};
pub use ipc::{IpcName, IpcObject};
pub use left::{Left, LeftChild, LeftThread, LeftTimer};
pub use recorded::RecordedBy;
pub use steered::{Availability, Steered};
pub use target::{Covered, NotChecked, OwnCode, Target, TargetKind, TestBinary};
pub use test::{Outcome, Output, PlannedTest, Ran, Stdio, TestName, Window};
pub use words::{ALLOCATOR, count};
