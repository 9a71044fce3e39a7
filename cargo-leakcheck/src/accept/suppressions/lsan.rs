//! LeakSanitizer's: lines `leak:PATTERN`
//! (<https://clang.llvm.org/docs/AddressSanitizer.html#suppressing-memory-leaks>).

use super::Imported;
use crate::model::{LEAKS, Leak, Limit, Patterns, Rule, RuleFrom};

pub(super) fn parse(place: &str, text: &str) -> Imported {
    let mut imported = Imported::default();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let at = format!("{place}:{number}");
        match line.strip_prefix("leak:") {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some(pattern) if !pattern.is_empty() => imported.rules.push(Rule {
                name: line.into(),
                reason: format!("suppressed in {at}"),
                place: at,
                from: RuleFrom::Frame(Patterns { any: Some(pattern.to_owned()), ..Patterns::default() }),
                kinds: memory(),
                test: None,
                limit: Limit::default(),
                expires: None,
            }),
            _ => imported.left_out.push(format!("{at}: `{line}` is for no leaks")),
        }
    }
    imported
}

/// Kinds of memory that is left.
pub(super) fn memory() -> Vec<Leak> {
    LEAKS.iter().map(|(leak, _)| *leak).take(4).collect()
}
