//! Deals the selected tests out to several runs, each as nextest does.

use camino::Utf8PathBuf;
use twox_hash::XxHash64;

use crate::model::{PlannedTest, TargetKind, TestBinary};
use crate::options::{Partition, PartitionBy};

/// The place of a binary in the order of a plan, which is that of nextest: by package, then the library, tests,
/// and the other kinds.
pub fn order(binary: &TestBinary) -> (String, u8, &'static str, String, Utf8PathBuf) {
    let (rank, kind) = match binary.kind {
        TargetKind::Lib | TargetKind::Program => (0, ""),
        TargetKind::Test => (1, ""),
        TargetKind::Bench => (2, "bench"),
        TargetKind::Bin => (2, "bin"),
        TargetKind::Example => (2, "example"),
        TargetKind::ProcMacro => (2, "proc-macro"),
    };
    (binary.package.clone(), rank, kind, binary.target.clone(), binary.path.clone())
}

/// Keeps the tests of a part. They are in the order of a plan, and all other selection has been made.
pub fn retain(tests: &mut Vec<PlannedTest>, Partition { by, part, of }: Partition) {
    let mut place: u64 = 0;
    let mut last: Option<Utf8PathBuf> = None;
    tests.retain(|test| {
        if by == PartitionBy::Count && last.as_ref() != Some(&test.binary.path) {
            last = Some(test.binary.path.clone());
            place = 0;
        }
        let number = match by {
            PartitionBy::Hash => XxHash64::oneshot(0, test.name.as_str().as_bytes()),
            PartitionBy::Slice | PartitionBy::Count => place,
        };
        place += 1;
        number % of == part - 1
    });
}
