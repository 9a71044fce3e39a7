//! What `fixtures/programs/random.c` says it leaves behind, held against what the tool found.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;

use crate::marker::{KINDS, Kind};
use crate::report::{Measure, Test};

/// The file that has all allocations of the truth.
const SITES: &str = "programs/random/blocks.h";

/// What a finding is told by: kind, line of its site (0 without one), and the thread that holds it.
type Key = (Kind, usize, Option<String>);

/// Ways to end, and the outcome that the report gives.
pub const ENDS: [(&str, &str); 7] = [
    ("return", "passed"),
    ("exit", "passed"),
    ("exit_at_once", "passed"),
    ("abort", "signalled"),
    ("kill", "signalled"),
    ("crash", "signalled"),
    ("overflow", "signalled"),
];

/// The truth of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// How the program ended, one of [`ENDS`].
    pub end: String,
    /// A line whose blocks were allocated and freed to the very end, and how many there can be at a time.
    any: Option<(usize, u64)>,
    /// What is alive.
    blocks: BTreeMap<Key, Measure>,
}

impl Truth {
    /// Reads the program's file: lines `KIND LINE BYTES HOLDER` (a block each) and `any LINE BLOCKS`, then `end WAY`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut truth = Self::default();
        let mut lines = text.lines();
        for line in &mut lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                [kind, at, bytes, holder] => {
                    let key = kind_named(kind).and_then(|kind| {
                        Some((kind, at.parse().ok()?, (holder != "-").then(|| holder.to_owned())))
                    });
                    let (Some(key), Ok(bytes)) = (key, bytes.parse()) else {
                        return Err(format!("the truth has the line `{line}`"));
                    };
                    add(&mut truth.blocks, key, Measure { bytes, blocks: 1 });
                }
                ["any", at, blocks] => {
                    let (Ok(at), Ok(blocks)) = (at.parse(), blocks.parse()) else {
                        return Err(format!("the truth has the line `{line}`"));
                    };
                    truth.any = Some((at, blocks));
                }
                ["end", way] => {
                    way.clone_into(&mut truth.end);
                    break;
                }
                _ => return Err(format!("the truth has the line `{line}`")),
            }
        }
        match (ENDS.iter().any(|(end, _)| *end == truth.end), lines.next()) {
            (true, None) => Ok(truth),
            (_, next) => Err(format!("the truth ends with `{}`, then {next:?}", truth.end)),
        }
    }

    /// The outcome as the report says it.
    pub fn outcome(&self) -> &'static str {
        ENDS.iter().find(|(end, _)| *end == self.end).map_or("", |(_, outcome)| outcome)
    }

    /// The tool's exit code when the verdict is this.
    pub fn exit_code(&self, verdict: &str) -> i32 {
        match (self.outcome(), verdict) {
            ("passed", "clean") => 0,
            ("passed", _) => 2,
            _ => 1,
        }
    }

    /// Every difference from what was found, one a line.
    pub fn differences(&self, found: &Test) -> Vec<String> {
        let mut lines = found.wrong_sums();
        let (mut sums, mut lost) = (BTreeMap::new(), self.blocks.iter().any(is_lost));
        let (place, mut room) = self.any.unzip();
        for finding in &found.findings {
            let site = finding
                .site
                .as_ref()
                .filter(|site| site.file.as_deref().is_some_and(|file| Utf8Path::new(file).ends_with(SITES)));
            let line = site.and_then(|site| site.line).unwrap_or(0);
            let measure = Measure { bytes: finding.bytes, blocks: finding.blocks };
            let key = (finding.kind, line, finding.held_by.clone());
            let left = room.and_then(|room| room.checked_sub(measure.blocks));
            if place == Some(line) && left.is_some() {
                room = left;
                lost |= is_lost((&key, &measure));
            } else {
                add(&mut sums, key, measure);
            }
        }
        let verdict = if lost { "leaks" } else { "clean" };
        let parts = [("outcome", &found.outcome, self.outcome()), ("verdict", &found.verdict, verdict)];
        for (what, found, truth) in parts {
            if found != truth {
                lines.push(format!("{what}: found {found}, the truth is {truth}"));
            }
        }
        if !found.losses.is_empty() {
            lines.push(format!("losses: {:?}", found.losses));
        }
        let keys: BTreeSet<&Key> = self.blocks.keys().chain(sums.keys()).collect();
        for key in keys {
            let measure = |of: &BTreeMap<Key, Measure>| of.get(key).copied().unwrap_or_default();
            let (found, truth) = (measure(&sums), measure(&self.blocks));
            if found != truth {
                let (kind, line, holder) = key;
                let held = holder.as_ref().map_or(String::new(), |name| format!(" held by {name}"));
                lines.push(format!(
                    "{kind:?} at line {line}{held}: found {} bytes in {} blocks, the truth is {} bytes in {}",
                    found.bytes, found.blocks, truth.bytes, truth.blocks
                ));
            }
        }
        lines
    }
}

fn kind_named(name: &str) -> Option<Kind> {
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Whether this makes a test leak.
fn is_lost(((kind, ..), measure): (&Key, &Measure)) -> bool {
    matches!(kind, Kind::DefinitelyLost | Kind::IndirectlyLost) && measure.bytes > 0
}

fn add(sums: &mut BTreeMap<Key, Measure>, key: Key, measure: Measure) {
    let sum = sums.entry(key).or_default();
    sum.bytes += measure.bytes;
    sum.blocks += measure.blocks;
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "still_reachable 9 100 -\nstill_reachable 9 8 worker-1\ndefinitely_lost 7 40 -\n\
                        definitely_lost 7 2 -\nend abort\n";

    type Found<'a> = (&'a str, u64, u64, &'a str, u64, Option<&'a str>);

    const EQUAL: [Found<'_>; 4] = [
        ("still_reachable", 100, 1, "/x/programs/random/blocks.h", 9, None),
        ("still_reachable", 8, 1, "/x/programs/random/blocks.h", 9, Some("worker-1")),
        // Two call stacks lead to the line.
        ("definitely_lost", 40, 1, "/x/programs/random/blocks.h", 7, None),
        ("definitely_lost", 2, 1, "/x/programs/random/blocks.h", 7, None),
    ];

    fn test(outcome: &str, verdict: &str, findings: &[Found<'_>]) -> Test {
        let sum = |kind| {
            let of_kind = findings.iter().filter(|finding| finding.0 == kind);
            let (bytes, blocks) = of_kind.fold((0, 0), |sum, finding| (sum.0 + finding.1, sum.1 + finding.2));
            serde_json::json!({"bytes": bytes, "blocks": blocks})
        };
        let list: Vec<_> = findings
            .iter()
            .map(|(kind, bytes, blocks, file, line, held_by)| {
                let site = serde_json::json!({"file": file, "line": line});
                serde_json::json!({"kind": kind, "bytes": bytes, "blocks": blocks, "site": site, "held_by": held_by})
            })
            .collect();
        let bad_frees = findings.iter().filter(|finding| finding.0 == "double_free").count();
        serde_json::from_value(serde_json::json!({
            "binary": "random", "name": "random", "outcome": outcome, "verdict": verdict,
            "allocators": ["glibc"],
            "definitely_lost": sum("definitely_lost"), "indirectly_lost": sum("indirectly_lost"),
            "possibly_lost": sum("possibly_lost"), "still_reachable": sum("still_reachable"),
            "bad_frees": bad_frees, "findings": list, "losses": [],
        }))
        .unwrap()
    }

    #[test]
    fn equal_findings_have_no_difference() {
        let truth = Truth::parse(TEXT).unwrap();
        assert_eq!(truth.differences(&test("signalled", "leaks", &EQUAL)), [""; 0]);
        assert_eq!(["leaks", "clean"].map(|verdict| truth.exit_code(verdict)), [1, 1]);
    }

    #[test]
    fn every_part_counts() {
        let truth = Truth::parse(TEXT).unwrap();
        let changed = |index: usize, finding: Found<'static>| {
            let mut list = EQUAL.to_vec();
            list[index] = finding;
            truth.differences(&test("signalled", "leaks", &list)).len()
        };
        assert_eq!(
            changed(2, ("definitely_lost", 41, 1, "/x/programs/random/blocks.h", 7, None)),
            1,
            "a byte"
        );
        assert_eq!(
            changed(2, ("definitely_lost", 40, 2, "/x/programs/random/blocks.h", 7, None)),
            1,
            "a block"
        );
        assert_eq!(
            changed(1, ("still_reachable", 8, 1, "/x/programs/random/blocks.h", 9, Some("worker-2"))),
            2,
            "the holder"
        );
        assert_eq!(
            changed(2, ("indirectly_lost", 40, 1, "/x/programs/random/blocks.h", 7, None)),
            2,
            "the kind"
        );
        assert_eq!(
            changed(2, ("definitely_lost", 40, 1, "/x/programs/random/blocks.h", 8, None)),
            2,
            "the line"
        );
        assert_eq!(changed(2, ("definitely_lost", 40, 1, "/x/programs/random.c", 7, None)), 2, "the file");
        let missing = test("signalled", "leaks", &EQUAL[1..]);
        assert_eq!(truth.differences(&missing).len(), 1, "a missing finding");
        let mut extra = EQUAL.to_vec();
        extra.push(("double_free", 0, 1, "/x/programs/random/blocks.h", 3, None));
        assert_eq!(truth.differences(&test("signalled", "leaks", &extra)).len(), 1, "an extra finding");
        assert_eq!(truth.differences(&test("passed", "leaks", &EQUAL)).len(), 1, "the outcome");
        assert_eq!(truth.differences(&test("signalled", "clean", &EQUAL)).len(), 1, "the verdict");
        let mut lossy = test("signalled", "leaks", &EQUAL);
        lossy.losses.push("blocks".into());
        assert_eq!(truth.differences(&lossy).len(), 1, "a loss");
    }

    #[test]
    fn a_truth_that_is_cut_is_none() {
        for text in
            ["", "definitely_lost 7 40 -\n", "end\n", "end exit\nend exit\n", "lost 7 40 -\nend exit\n"]
        {
            assert!(Truth::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_without_bytes_are_no_leak() {
        let truth = Truth::parse("definitely_lost 1 0 -\nend exit\n").unwrap();
        let found = [("definitely_lost", 0, 1, "programs/random/blocks.h", 1, None)];
        assert_eq!(truth.differences(&test("passed", "clean", &found)), [""; 0]);
        assert_eq!(["leaks", "clean"].map(|verdict| truth.exit_code(verdict)), [2, 0]);
    }

    #[test]
    fn anything_may_be_found_at_the_line_that_says_so() {
        let truth = Truth::parse("any 1 1\nend exit\n").unwrap();
        let found = |line| [("definitely_lost", 64, 1, "programs/random/blocks.h", line, None)];
        let two = [found(1)[0], ("still_reachable", 300, 1, "programs/random/blocks.h", 1, Some("worker-1"))];
        assert_eq!(truth.differences(&test("passed", "leaks", &two)).len(), 1, "no more than one block");
        assert_eq!(truth.differences(&test("passed", "leaks", &found(1))), [""; 0]);
        assert_eq!(truth.differences(&test("passed", "clean", &[])), [""; 0]);
        assert_eq!(truth.differences(&test("passed", "clean", &found(1))).len(), 1, "the verdict");
        assert_eq!(truth.differences(&test("passed", "leaks", &found(2))).len(), 2);
    }
}
