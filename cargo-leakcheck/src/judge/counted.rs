//! What counts of what a test has left.

use crate::model::{Acceptance, Budget, Finding, FindingKind, Frame, Item, Leak, Measure};
use crate::options::{Count, Dependencies, JudgeOptions};

/// Whether anything of a kind can fail a test.
pub fn counts(budget: &Budget, options: &JudgeOptions, leak: Leak) -> bool {
    let all = options.count == Count::Outstanding || budget.outstanding_bytes.is_some();
    match leak {
        Leak::Memory(FindingKind::DefinitelyLost | FindingKind::IndirectlyLost) | Leak::Ipc => true,
        Leak::Memory(FindingKind::PossiblyLost) => all,
        Leak::Memory(FindingKind::StillReachable) => {
            all || budget.reachable_bytes.or(budget.reachable_blocks).is_some()
        }
        Leak::Memory(FindingKind::DoubleFree | FindingKind::UnknownFree) => options.count_bad_frees,
        Leak::Descriptor => budget.fds.or(options.fds).is_some(),
        Leak::Child => budget.children.or(options.children).is_some(),
        Leak::Thread => budget.threads.or(options.threads).is_some(),
        Leak::Mapping => budget.mapped_bytes.or(options.mapped_bytes).is_some(),
    }
}

/// Whether a finding is compared with a budget, as far as that depends on whose it is; all are shown.
pub fn is_judged(finding: &Finding<Vec<Frame>>, options: &JudgeOptions) -> bool {
    options.dependencies == Dependencies::Fail || !finding.origin.owner.is_foreign()
}

/// Kinds and measures of findings that are judged, without what is accepted of them.
pub(super) fn findings(
    all: &[Finding<Vec<Frame>>],
    acceptance: &Acceptance,
    options: &JudgeOptions,
) -> Vec<(FindingKind, Measure)> {
    let rest = |(place, finding): (usize, &Finding<Vec<Frame>>)| {
        (finding.kind, less(finding.measure, acceptance.of(Item::Finding(place))))
    };
    all.iter().enumerate().filter(|(_, finding)| is_judged(finding, options)).map(rest).collect()
}

/// What is left of it.
pub(super) fn less(of: Measure, accepted: Measure) -> Measure {
    let blocks = of.blocks.saturating_sub(accepted.blocks);
    Measure { bytes: of.bytes.saturating_sub(accepted.bytes), blocks }
}
