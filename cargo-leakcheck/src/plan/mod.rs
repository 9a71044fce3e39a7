//! Which tests run, and by which budget each is judged.

pub mod budgets;
