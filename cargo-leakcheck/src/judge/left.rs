//! Limits for what was left in the kernel.

use super::growth;
use crate::model::{Acceptance, Budget, Counting, Frame, Item, Left, Measure, count};
use crate::options::JudgeOptions;

/// One reason for each limit that is exceeded. The test's own limit comes before that for all; without any
/// nobody is to judge. Descriptors and mappings that one-time initializers keep do not count, nor does what is accepted.
pub(super) fn exceeded(
    budget: &Budget,
    left: &Left<Vec<Frame>>,
    acceptance: &Acceptance,
    options: &JudgeOptions,
) -> impl Iterator<Item = String> {
    let Left { descriptors, ipc, children, threads, timers: _, totals: _, mappings, growth, at_peak: _ } =
        left;
    let counted = |item: Item, bytes: u64, blocks: u64| acceptance.counting(item, Measure { bytes, blocks });
    let open = descriptors.iter().enumerate().filter(|(_, descriptor)| !descriptor.once);
    let open = open.map(|(place, it)| counted(Item::Descriptor(place), 0, it.numbers.len() as u64));
    let open: Counting = open.sum();
    let number = |of: usize, item: fn(usize) -> Item| -> Counting {
        (0..of).map(|place| counted(item(place), 0, 1)).sum()
    };
    let over = |limit: Option<u64>, Counting { all, rest }: Counting, noun, what: &str| {
        let (limit, number) = (limit?, rest.blocks);
        (all.blocks > limit && number > 0).then(|| format!("{} {what} (budget {limit})", count(number, noun)))
    };
    let held = left.kernel_bytes().filter(|_| open.rest.blocks > 0);
    let what = held.map_or_else(
        || "left open".to_owned(),
        |bytes| format!("left open, holding {bytes} B in the kernel"),
    );
    let too_much = kernel_bytes(budget, options).zip(held).filter(|(limit, held)| held > limit);
    let mapped = mappings.iter().enumerate().filter(|(_, mapping)| !mapping.once);
    let mapped = mapped.map(|(place, it)| counted(Item::Mapping(place), it.bytes, it.count));
    let Counting { all, rest: Measure { bytes, blocks: mapped } } = mapped.sum();
    let over_bytes = |limit: Option<u64>| {
        let limit = limit.filter(|limit| all.bytes > *limit && bytes > 0)?;
        Some(format!("{bytes} B left mapped in {} (budget {limit} B)", count(mapped, "mapping")))
    };
    let reasons = [
        over(budget.fds.or(options.fds), open, "descriptor", &what),
        too_much.map(|(limit, held)| {
            let descriptors = count(open.rest.blocks, "descriptor");
            format!("{held} B held in the kernel by {descriptors} (budget {limit} B)")
        }),
        over(budget.ipc.or(Some(options.ipc)), number(ipc.len(), Item::Ipc), "IPC object", "left"),
        over(budget.children.or(options.children), number(children.len(), Item::Child), "child", "left"),
        over(
            budget.threads.or(options.threads),
            number(threads.len(), Item::Thread),
            "thread",
            "left running",
        ),
        over_bytes(budget.mapped_bytes.or(options.mapped_bytes)),
        growth.as_ref().filter(|growth| growth.is_whole()).and_then(|it| growth::exceeded(budget, it)),
    ];
    reasons.into_iter().flatten()
}

/// How much descriptors may hold in the kernel.
pub(super) fn kernel_bytes(budget: &Budget, options: &JudgeOptions) -> Option<u64> {
    budget.kernel_bytes.or(options.kernel_bytes)
}
