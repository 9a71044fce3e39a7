//! The tables by which code without frame pointers is walked, compared with other unwinders.

#[path = "unwind/chain.rs"]
mod chain;
#[path = "unwind/oracle.rs"]
mod oracle;
#[path = "unwind/rules.rs"]
mod rules;
