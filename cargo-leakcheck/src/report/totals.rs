//! What the kernel has allocated for a test, as text: information that was asked for.

use super::text;
use crate::model::{CheckedTest, KernelTotal, KernelTotals};

/// Lines of one test that are shown to people.
const MAX_SHOWN: usize = 20;

/// The totals of a test; empty where they were not asked for.
pub(super) fn render(test: &CheckedTest, all: bool) -> Vec<String> {
    let Some(KernelTotals { totals, lost }) = &test.memory.left.totals else { return Vec::new() };
    let mut shown =
        "kernel allocations, for information (bytes and objects not seen to be freed, of all)\n".to_owned();
    let number = if all { totals.len() } else { totals.len().min(MAX_SHOWN) };
    for KernelTotal { call, place, bytes, objects, allocated_bytes, allocated_objects } in &totals[..number] {
        let call = call.as_deref().unwrap_or("no system call");
        shown += &format!(
            "    {bytes} B in {objects} of {allocated_bytes} B in {allocated_objects}  {}  {}\n",
            text::line(call),
            text::line(place)
        );
    }
    if number < totals.len() {
        let more = text::count((totals.len() - number) as u64, "smaller line");
        shown += &format!("    … and {more}; --full-stacks shows them, --json lists them\n");
    }
    if *lost > 0 {
        let allocations = text::count(*lost, "allocation");
        shown += &format!(
            "    lost: {allocations} found no room in a table (--max-files), so the numbers are too small\n"
        );
    }
    vec![shown]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Outcome, Verdict};
    use crate::report::testing;

    #[test]
    fn lines_have_call_and_place_and_what_was_lost_is_said() {
        let total = |call: Option<&str>, bytes| KernelTotal {
            call: call.map(str::to_owned),
            place: "alloc_empty_file".into(),
            bytes,
            objects: 1,
            allocated_bytes: 384,
            allocated_objects: 2,
        };
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        assert!(render(&test, false).is_empty());
        let totals = vec![total(Some("openat"), 192), total(None, 8)];
        test.memory.left.totals = Some(KernelTotals { totals, lost: 2 });
        let shown = render(&test, false);
        let lines: Vec<&str> = shown[0].lines().skip(1).collect();
        assert_eq!(lines[0], "    192 B in 1 of 384 B in 2  openat  alloc_empty_file");
        assert_eq!(lines[1], "    8 B in 1 of 384 B in 2  no system call  alloc_empty_file");
        assert!(lines[2].starts_with("    lost: 2 allocations found no room"), "{lines:?}");
        let totals = vec![total(None, 8); 30];
        test.memory.left.totals = Some(KernelTotals { totals, lost: 0 });
        assert_eq!(render(&test, false)[0].lines().count(), 22);
        assert_eq!(render(&test, true)[0].lines().count(), 31);
    }
}
