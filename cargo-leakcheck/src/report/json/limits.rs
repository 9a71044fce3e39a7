//! A budget in the JSON document.

use serde::Serialize;

use crate::model::Budget;

/// The limits that there are.
#[derive(Serialize)]
pub struct Limits<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outstanding_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipc: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_iteration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore: Option<&'a str>,
}

impl<'a> Limits<'a> {
    /// A budget's.
    pub fn of(budget: &'a Budget) -> Self {
        let Budget {
            bytes,
            blocks,
            reachable_bytes,
            reachable_blocks,
            outstanding_bytes,
            fds,
            kernel_bytes,
            ipc,
            children,
            threads,
            mapped_bytes,
            iterations,
            warmup,
            bytes_per_iteration,
            peak_bytes,
            total_blocks,
            ignore,
        } = budget;
        Self {
            bytes: *bytes,
            blocks: *blocks,
            reachable_bytes: *reachable_bytes,
            reachable_blocks: *reachable_blocks,
            outstanding_bytes: *outstanding_bytes,
            fds: *fds,
            kernel_bytes: *kernel_bytes,
            ipc: *ipc,
            children: *children,
            threads: *threads,
            mapped_bytes: *mapped_bytes,
            iterations: *iterations,
            warmup: *warmup,
            bytes_per_iteration: *bytes_per_iteration,
            peak_bytes: *peak_bytes,
            total_blocks: *total_blocks,
            ignore: ignore.as_deref(),
        }
    }
}
