//! Limits for what was left in the kernel.

use crate::model::{Budget, Frame, Left, count};
use crate::options::JudgeOptions;

/// One reason for each limit that is exceeded. The test's own limit comes before that for all; without any
/// nobody is to judge. Descriptors and mappings that one-time initializers keep do not count.
pub(super) fn exceeded(
    budget: &Budget,
    left: &Left<Vec<Frame>>,
    options: &JudgeOptions,
) -> impl Iterator<Item = String> {
    let Left { descriptors, ipc, children, threads, timers: _, totals: _, mappings } = left;
    let open = descriptors.iter().filter(|descriptor| !descriptor.once);
    let open: usize = open.map(|descriptor| descriptor.numbers.len()).sum();
    let over = |limit: Option<u64>, number: usize, noun, what: &str| {
        let (limit, number) = (limit?, number as u64);
        (number > limit).then(|| format!("{} {what} (budget {limit})", count(number, noun)))
    };
    let held = left.kernel_bytes().filter(|_| open > 0);
    let what = held.map_or_else(
        || "left open".to_owned(),
        |bytes| format!("left open, holding {bytes} B in the kernel"),
    );
    let too_much = kernel_bytes(budget, options).zip(held).filter(|(limit, held)| held > limit);
    let mapped = mappings.iter().filter(|mapping| !mapping.once);
    let (bytes, number) = mapped.fold((0, 0), |sum, it| (sum.0 + it.bytes, sum.1 + it.count));
    let over_bytes = |limit: Option<u64>| {
        let limit = limit.filter(|limit| bytes > *limit)?;
        Some(format!("{bytes} B left mapped in {} (budget {limit} B)", count(number, "mapping")))
    };
    let reasons = [
        over(budget.fds.or(options.fds), open, "descriptor", &what),
        too_much.map(|(limit, held)| {
            let descriptors = count(open as u64, "descriptor");
            format!("{held} B held in the kernel by {descriptors} (budget {limit} B)")
        }),
        over(budget.ipc.or(Some(options.ipc)), ipc.len(), "IPC object", "left"),
        over(budget.children.or(options.children), children.len(), "child", "left"),
        over(budget.threads.or(options.threads), threads.len(), "thread", "left running"),
        over_bytes(budget.mapped_bytes.or(options.mapped_bytes)),
    ];
    reasons.into_iter().flatten()
}

/// How much descriptors may hold in the kernel.
pub(super) fn kernel_bytes(budget: &Budget, options: &JudgeOptions) -> Option<u64> {
    budget.kernel_bytes.or(options.kernel_bytes)
}
