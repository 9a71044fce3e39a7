use leakcheck::leak_budget;

#[leak_budget]
fn none() {}

#[leak_budget()]
fn empty() {}

#[leak_budget(byte = 0)]
fn unknown() {}

#[leak_budget(bytes = 0, blocks = 1, bytes = 0)]
fn twice() {}

#[leak_budget(bytes = 0, blocks = "a", ignore = 3)]
fn several() {}

#[leak_budget(bytes)]
fn no_value() {}

#[leak_budget(bytes, blocks = 0)]
fn no_value_before_another() {}

#[leak_budget(bytes =)]
fn no_value_after_equals() {}

#[leak_budget(bytes =, blocks = 0)]
fn no_value_between() {}

#[leak_budget(bytes = 0 blocks = 0)]
fn no_comma() {}

#[leak_budget("4 KiB")]
fn no_key() {}

#[leak_budget(bytes(0))]
fn list() {}

fn main() {}
