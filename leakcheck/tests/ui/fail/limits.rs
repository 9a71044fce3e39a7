use leakcheck::leak_budget;

#[leak_budget(bytes = -1)]
fn negative() {}

#[leak_budget(reachable_bytes = 1.5)]
fn fraction() {}

#[leak_budget(blocks = true)]
fn boolean() {}

#[leak_budget(bytes = 4 * 1024)]
fn expression() {}

#[leak_budget(bytes = 4KiB)]
fn size_without_quotes() {}

#[leak_budget(bytes = 18446744073709551616)]
fn too_large() {}

#[leak_budget(outstanding_bytes = "18014398509481984 KiB")]
fn too_large_size() {}

#[leak_budget(bytes = "4 kib")]
fn unknown_unit() {}

#[leak_budget(bytes = "1.5 MB")]
fn fraction_size() {}

#[leak_budget(bytes = "")]
fn empty_size() {}

#[leak_budget(bytes = "-4 KiB")]
fn negative_size() {}

#[leak_budget(reachable_blocks = "4 KiB")]
fn size_of_blocks() {}

#[leak_budget(ignore = true)]
fn ignored_without_reason() {}

#[leak_budget(ignore = " ")]
fn empty_reason() {}

#[leak_budget(ignore = "first\nbytes=0")]
fn two_lines() {}

#[leak_budget(iterations = 3, warmup = 3)]
fn nothing_is_judged() {}

#[leak_budget(bytes_per_iteration = 0)]
fn how_often() {}

fn main() {}
