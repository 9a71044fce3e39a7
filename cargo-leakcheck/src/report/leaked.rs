//! What was leaked, by call stack: what folded stacks, the flame graph and the profile are made of.

use std::borrow::Cow;

use super::{Run, text};
use crate::model::{CheckedTest, Finding, FindingKind, Frame, Measure};

/// Leaked blocks with one call stack.
pub(super) struct Leaked<'a> {
    /// Whose they are.
    pub test: &'a CheckedTest,
    /// What they are.
    pub finding: &'a Finding<Vec<Frame>>,
    /// Where they were allocated, innermost first, without what has only started the user's code (the harness, the
    /// C library); none where that was not recorded.
    pub frames: Option<&'a [Frame]>,
}

/// What all tests have lost, definitely, indirectly or possibly, whatever their budgets.
pub(super) fn leaked(run: &Run) -> impl Iterator<Item = Leaked<'_>> {
    let all = run.tests.iter().flat_map(|test| test.memory.findings.iter().map(move |it| (test, it)));
    let lost = all.filter(|(_, finding)| is_leaked(finding.kind));
    lost.map(|(test, finding)| Leaked { test, finding, frames: finding.stack.as_deref().map(started) })
}

/// The sum of all of it.
pub(super) fn total(run: &Run) -> Measure {
    leaked(run).map(|leaked| leaked.finding.measure).sum()
}

/// Whether blocks of this kind were leaked.
pub(super) fn is_leaked(kind: FindingKind) -> bool {
    match kind {
        FindingKind::DefinitelyLost | FindingKind::IndirectlyLost | FindingKind::PossiblyLost => true,
        FindingKind::StillReachable | FindingKind::DoubleFree | FindingKind::UnknownFree => false,
    }
}

/// The frames up to the outermost own one; all where none is the user's.
pub(super) fn started(frames: &[Frame]) -> &[Frame] {
    let outermost = frames.iter().rposition(|frame| frame.own);
    outermost.map_or(frames, |outermost| &frames[..=outermost])
}

/// Where there is no call stack.
pub(super) const NO_STACK: &str = "[call stack not recorded]";

/// What a frame is called: its function, or the place in its module.
pub(super) fn name(frame: &Frame) -> Cow<'_, str> {
    if let Some(function) = frame.function.as_deref().filter(|name| !name.is_empty()) {
        return text::line(function);
    }
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    let module = module.map_or_else(String::new, |file| format!("{}+", text::line(file)));
    Cow::Owned(format!("{module}{:#x}", frame.address))
}
