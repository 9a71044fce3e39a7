//! Compares what a test left behind with its budget, and a run's verdicts with the exit codes. Pure.
//!
//! What applies, first match first:
//! 1. a test that did not start is *not checked*;
//! 2. a budget with `ignore` is *not checked*: findings are kept, nothing is compared with a limit, and so
//!    it does not matter either whether everything was seen;
//! 3. any loss makes a verdict *incomplete*, also when leaks were found: they are shown, but what was not
//!    seen may hold more of them, or the reference that makes one of them reachable;
//! 4. otherwise each limit that is exceeded, of the test or of a scope in it, is a reason for *leaks*, and without one the
//!    test is *clean*.

mod attempts;
mod counted;
pub mod explain;
pub mod growth;
mod heap;
mod left;
mod noise;
pub mod weigh;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::error::Exit;
use crate::model::{
    Acceptance, Budget, CheckedTest, FindingKind, Judged, Measure, Outcome, Seen, Totals, Verdict, count,
};
use crate::options::{Count, JudgeOptions};
use crate::snapshot::Loss;

use crate::model::Counting;
pub use attempts::decide;
pub use counted::{can_fail, counts, failing, fails_anyway, is_judged};

/// Judges one test.
///
/// Findings come in the order they are to be reported in; those that are std's own doing are taken
/// out before anything is summed. Of the rest `accepted` says what does not count. The verdict is made for every test that
/// started; [`Judged::counts`] says whether it (incomplete or leaks) matters for the exit code. A test may be exempt as not
/// passed and as `should_panic`: it counts when the options lift each exemption it has.
pub fn judge(
    budget: &Budget,
    outcome: &Outcome,
    should_panic: bool,
    mut seen: Seen,
    options: &JudgeOptions,
    accepted: &dyn Fn(&Seen) -> Acceptance,
) -> Judged {
    seen.findings.retain(|finding| !noise::is_symbolizer_cache(finding));
    seen.left.descriptors.iter_mut().for_each(|it| it.once = noise::is_once(it.stack.as_deref()));
    seen.left.mappings.iter_mut().for_each(|it| it.once = noise::is_once(it.stack.as_deref()));
    if left::kernel_bytes(budget, options).is_some() && seen.left.kernel_bytes().is_none() {
        seen.losses.push(Loss::KernelBytes);
    }
    let unseen = growth::loss(budget, seen.left.growth.as_ref());
    seen.losses.extend(unseen.filter(|loss| !seen.losses.contains(loss)));
    let limits = heap::Limits::of(budget, options);
    if seen.losses.is_empty() {
        seen.losses.extend(limits.loss(seen.heap));
    }
    let mut acceptance = accepted(&seen);
    let Seen { findings, left, heap, losses } = seen;
    let totals = totals(findings.iter().map(|finding| (finding.kind, finding.measure)));
    let verdict = if let Outcome::NotStarted { reason } = outcome {
        Verdict::NotChecked(reason.clone())
    } else if let Some(reason) = &budget.ignore {
        Verdict::NotChecked(reason.clone())
    } else if !losses.is_empty() {
        Verdict::Incomplete(losses.clone())
    } else {
        let counted = |limits| counted::findings(&findings, limits, &acceptance, options);
        let mut reasons = exceeded(budget, &counted(None), options.count);
        // Of scopes with limits of their own, by their names.
        let scopes: BTreeSet<_> = findings.iter().filter_map(|finding| finding.in_code.limits()).collect();
        for limits in scopes {
            let exceeded = exceeded(&limits.budget(), &counted(Some(limits)), options.count);
            reasons.extend(exceeded.into_iter().map(|why| format!("in scope '{}': {why}", limits.by)));
        }
        reasons.extend(left::exceeded(budget, &left, &acceptance, options));
        reasons.extend(limits.exceeded(heap));
        if options.count_bad_frees {
            reasons.extend(bad_frees(&counted(None)));
        }
        if reasons.is_empty() {
            Verdict::Clean
        } else {
            let exceeded = acceptance.hits.iter().filter_map(|hit| Some((&hit.rule, hit.exceeded.as_ref()?)));
            reasons.extend(exceeded.map(|(rule, why)| format!("rule '{rule}' exceeded: {why}")));
            Verdict::Leaks(reasons)
        }
    };
    let passed = *outcome == Outcome::Passed;
    let counts = (passed || options.count_failed) && (!should_panic || options.count_should_panic);
    if !(counts && matches!(verdict, Verdict::Clean | Verdict::Leaks(_))) {
        // Whether anything is new is not asked of a test that nobody judges.
        acceptance.baseline = None;
    }
    Judged { findings, totals, left, files: None, heap, losses, acceptance, verdict, attempts: None, counts }
}

/// Whether a test makes a run end otherwise than clean.
pub fn is_bad(test: &CheckedTest) -> bool {
    exit(std::iter::once(test)) != Exit::Clean
}

/// Judges a test once more, of which more is known.
pub fn judge_again(test: &mut CheckedTest, options: &JudgeOptions) {
    let (budget, panics, memory) = (&test.test.budget, test.test.should_panic, &test.memory);
    let accepted = |_: &Seen| memory.acceptance.clone();
    let judged = judge(budget, &test.outcome, panics, memory.seen(), options, &accepted);
    let files = test.memory.files.take();
    test.memory = Judged { files, ..judged };
}

/// The exit code of a run whose tests these are; the run itself went well. Tests that did not start
/// count as failed.
pub fn exit<'a>(tests: impl Iterator<Item = &'a CheckedTest>) -> Exit {
    let (mut any, mut failed, mut leaks, mut incomplete) = (false, false, false, false);
    for test in tests {
        any = true;
        failed |= test.outcome != Outcome::Passed;
        if test.memory.counts {
            match test.memory.verdict {
                Verdict::Leaks(_) => leaks = true,
                Verdict::Incomplete(_) => incomplete = true,
                Verdict::Clean | Verdict::NotChecked(_) => {}
            }
        }
    }
    match (any, incomplete, failed, leaks) {
        (false, ..) => Exit::NothingRan,
        (_, true, ..) => Exit::Incomplete,
        (_, _, true, true) => Exit::FailedAndLeaks,
        (_, _, true, false) => Exit::Failed,
        (_, _, false, true) => Exit::Leaks,
        (_, _, false, false) => Exit::Clean,
    }
}

fn totals(findings: impl Iterator<Item = (FindingKind, Measure)>) -> Totals {
    let mut totals = Totals::default();
    for (kind, measure) in findings {
        let total = match kind {
            FindingKind::DefinitelyLost => &mut totals.definitely_lost,
            FindingKind::IndirectlyLost => &mut totals.indirectly_lost,
            FindingKind::PossiblyLost => &mut totals.possibly_lost,
            FindingKind::StillReachable => &mut totals.still_reachable,
            FindingKind::DoubleFree | FindingKind::UnknownFree => {
                totals.bad_frees += measure.blocks;
                continue;
            }
        };
        *total = *total + measure;
    }
    totals
}

/// One reason for each limit that is exceeded.
///
/// What is more than a limit counts against it but for what the baseline knows: a test that has leaked more than it may may leak
/// as much as it has, and no more.
///
/// `bytes` and `blocks` limit what counts (see [`counted`]). Without either, no byte may be left of that (a lost block of
/// 0 bytes is shown, and is within it), and where everything counts no block.
fn exceeded(budget: &Budget, counted: &[(FindingKind, Counting)], count: Count) -> Vec<String> {
    let totals = |of: fn(&Counting) -> Measure| totals(counted.iter().map(|(kind, it)| (*kind, of(it))));
    let (all, totals) = (totals(|it| it.all), totals(|it| it.rest));
    let Budget { bytes, blocks, reachable_bytes, reachable_blocks, outstanding_bytes, .. } = *budget;
    let (rest, whole) = (self::counted(budget, &totals, count), self::counted(budget, &all, count));
    let counted = Counting { all: whole.measure, rest: rest.measure };
    let outstanding = Counting { all: outstanding(&all), rest: outstanding(&totals) };
    let reachable = Counting { all: all.still_reachable, rest: totals.still_reachable };
    let reachable_text = format!("{} B still reachable", reachable.rest.bytes);
    let outstanding_text = format!("{} B outstanding", outstanding.rest.bytes);
    let over_counted_bytes = |limit| over_bytes(limit, counted, &rest.bytes);
    let over_counted_blocks = |limit| over_blocks(limit, counted, rest.blocks);
    let default =
        || over_counted_bytes(0).or_else(|| if rest.empty_blocks { over_counted_blocks(0) } else { None });
    let reasons = [
        if bytes.or(blocks).is_none() { default() } else { None },
        bytes.and_then(over_counted_bytes),
        blocks.and_then(over_counted_blocks),
        reachable_bytes.and_then(|limit| over_bytes(limit, reachable, &reachable_text)),
        reachable_blocks.and_then(|limit| over_blocks(limit, reachable, "still reachable")),
        outstanding_bytes.and_then(|limit| over_bytes(limit, outstanding, &outstanding_text)),
    ];
    reasons.into_iter().flatten().collect()
}

/// What `bytes` and `blocks` limit.
struct Counted {
    measure: Measure,
    /// What is said of its bytes.
    bytes: String,
    /// What is said of its blocks, behind their number.
    blocks: &'static str,
    /// Whether blocks of 0 bytes are too many where neither is limited.
    empty_blocks: bool,
}

/// What is lost; with [`Count::Outstanding`] all that is left, but for what the budget has another limit for.
fn counted(budget: &Budget, totals: &Totals, count: Count) -> Counted {
    if count == Count::Lost || budget.outstanding_bytes.is_some() {
        let bytes = bytes_lost(totals);
        return Counted { measure: lost(totals), bytes, blocks: "lost", empty_blocks: false };
    }
    let has_reachable = budget.reachable_bytes.or(budget.reachable_blocks).is_some();
    let (measure, blocks) = if has_reachable {
        (lost(totals) + totals.possibly_lost, "lost or possibly lost")
    } else {
        (outstanding(totals), "outstanding")
    };
    Counted { measure, bytes: format!("{} B {blocks}", measure.bytes), blocks, empty_blocks: true }
}

fn lost(totals: &Totals) -> Measure {
    totals.definitely_lost + totals.indirectly_lost
}

fn outstanding(totals: &Totals) -> Measure {
    lost(totals) + totals.possibly_lost + totals.still_reachable
}

/// The lost bytes in words, without their blocks; a kind without blocks is left out.
fn bytes_lost(totals: &Totals) -> String {
    let Totals { definitely_lost, indirectly_lost, .. } = totals;
    let (definitely, indirectly) = (definitely_lost.bytes, indirectly_lost.bytes);
    match (definitely_lost.blocks, indirectly_lost.blocks) {
        (_, 0) => format!("{definitely} B definitely lost"),
        (0, _) => format!("{indirectly} B indirectly lost"),
        (_, _) => format!("{definitely} B definitely and {indirectly} B indirectly lost"),
    }
}

/// The reason if there are more bytes than the limit, and than are known; `text` tells those.
fn over_bytes(limit: u64, Counting { all, rest }: Counting, text: &str) -> Option<String> {
    let blocks = count(rest.blocks, "block");
    (all.bytes > limit && rest.bytes > 0).then(|| format!("{text} in {blocks} (budget {limit} B)"))
}

/// The reason if there are more blocks than the limit, and than are known; `what` is said of those.
fn over_blocks(limit: u64, Counting { all, rest }: Counting, what: &str) -> Option<String> {
    let (blocks, budget) = (count(rest.blocks, "block"), count(limit, "block"));
    (all.blocks > limit && rest.blocks > 0).then(|| format!("{blocks} {what} (budget {budget})"))
}

/// One reason for each kind of bad free there is.
fn bad_frees(findings: &[(FindingKind, Counting)]) -> impl Iterator<Item = String> {
    [(FindingKind::DoubleFree, "double free"), (FindingKind::UnknownFree, "unknown free")]
        .into_iter()
        .filter_map(|(kind, name)| {
            let frees = findings.iter().filter(|(it, _)| *it == kind).map(|(_, it)| it.rest.blocks).sum();
            (frees > 0).then(|| count(frees, name))
        })
}
