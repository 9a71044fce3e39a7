//! The types that pass between stages. Plain data: no stage's logic lives here.

mod accepted;
mod allocators;
mod budget;
mod chain;
mod descriptor;
mod files;
mod finding;
mod ipc;
mod left;
mod mapping;
mod origin;
mod recorded;
mod rule;
mod steered;
mod target;
mod test;
mod totals;
mod words;

pub use accepted::{Acceptance, Accepted, By, Compared, Counting, Hit, Item, LEAKS, Leak, Seen};
pub use allocators::{ALLOCATORS, KnownAllocator};
pub use budget::{Budget, Measure};
pub use chain::{Held, HeldBy, Step, Through};
pub use descriptor::Descriptor;
pub use files::LeftFiles;
pub use finding::{Attempts, CheckedTest, Finding, FindingKind, Frame, Judged, Totals, Verdict};
pub use ipc::{IpcName, IpcObject};
pub use left::{Left, LeftChild, LeftThread, LeftTimer};
pub use mapping::LeftMapping;
pub use origin::{Origin, Owner, OwnerKind};
pub use recorded::RecordedBy;
pub use rule::{Day, Limit, Patterns, Rule, RuleFrom, StackPart};
pub use steered::{Availability, Steered};
pub use target::{Covered, NotChecked, OwnCode, Target, TargetKind, TestBinary, target_of_id};
pub use test::{Outcome, Output, PlannedTest, Ran, Stdio, TestName, Window};
pub use totals::{KernelTotal, KernelTotals};
pub use words::{ALLOCATOR, count};
