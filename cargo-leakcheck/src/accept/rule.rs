//! Which leaks a rule is for.

use super::path::plain;
use super::things::Thing;
use crate::model::{Day, Frame, OwnCode, Patterns, Rule, RuleFrom, StackPart};

/// A frame, and the plain path of its function.
pub struct Named<'a> {
    frame: &'a Frame,
    path: String,
}

/// The frames that something comes from, or hangs below the root of.
pub fn named<'a>(thing: &Thing<'a>) -> Vec<Named<'a>> {
    let named =
        |frame: &'a Frame| Named { frame, path: plain(frame.function.as_deref().unwrap_or_default()) };
    thing.origin().unwrap_or_default().iter().map(named).collect()
}

impl Rule {
    /// Whether it applies on a day.
    pub fn applies_on(&self, today: Day) -> bool {
        self.expires.is_none_or(|last| today <= last)
    }

    /// Whether it is for something that a test has left. What hangs below a leak root is where the root is: a rule for the
    /// one is for all of it.
    pub fn is_for(&self, test: &str, thing: &Thing<'_>, stack: &[Named<'_>], own: &OwnCode) -> bool {
        let leak = thing.root_leak();
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&leak) || self.kinds.contains(&thing.leak);
        let name = test.split_once(' ').map_or(test, |(_, name)| name);
        let of_test = self.test.as_ref().is_none_or(|test_| matches(test_, test) || matches(test_, name));
        of_kind && of_test && self.from.is(stack, own)
    }
}

impl RuleFrom {
    fn is(&self, stack: &[Named<'_>], own: &OwnCode) -> bool {
        match self {
            Self::Frame(patterns) => stack.iter().any(|frame| patterns.are_of(frame, own)),
            Self::Stack(parts) => begins(parts, stack, own),
        }
    }
}

/// Whether a stack begins with what is written down.
fn begins(parts: &[StackPart], stack: &[Named<'_>], own: &OwnCode) -> bool {
    match parts.split_first() {
        None => true,
        Some((StackPart::Any, rest)) => (0..=stack.len()).any(|start| begins(rest, &stack[start..], own)),
        Some((StackPart::Frame(patterns), rest)) => stack
            .split_first()
            .is_some_and(|(frame, outer)| patterns.are_of(frame, own) && begins(rest, outer, own)),
    }
}

impl Patterns {
    fn are_of(&self, Named { frame, path }: &Named<'_>, own: &OwnCode) -> bool {
        let Self { function, module, krate, file, library, any } = self;
        let name = frame.function.as_deref().unwrap_or_default();
        let shown = frame.file.as_deref().map(|file| own.shown(file)).unwrap_or_default();
        let object = frame.module.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let of_crate = path.split("::").next().filter(|_| path.contains("::")).unwrap_or_default();
        let of_module = path.rsplit_once("::").map_or("", |(module, _)| module);
        let is = |pattern: &Option<String>, texts: &[&str]| {
            pattern
                .as_ref()
                .is_none_or(|pattern| texts.iter().any(|text| !text.is_empty() && matches(pattern, text)))
        };
        let inside = |pattern: &str| matches!(of_module.strip_prefix(pattern), Some(rest) if rest.is_empty() || rest.starts_with("::"));
        is(function, &[path, name])
            && module.as_ref().is_none_or(|module| inside(module) || matches(module, of_module))
            && is(krate, &[of_crate])
            && is(file, &[shown, frame.file.as_deref().unwrap_or_default()])
            && is(library, &[object])
            && any.as_ref().is_none_or(|any| {
                [
                    name,
                    path,
                    frame.file.as_deref().unwrap_or_default(),
                    frame.module.as_deref().unwrap_or_default(),
                ]
                .iter()
                .any(|text| template(any, text))
            })
    }
}

/// Whether a pattern is all of a text; `*` stands for any characters, `?` for one.
pub fn matches(pattern: &str, text: &str) -> bool {
    // The last `*` takes one character more whenever what follows does not match.
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[place] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, place) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// LeakSanitizer's templates (compiler-rt, sanitizer_common/sanitizer_common.cpp, `TemplateMatch`): anywhere in the text, unless
/// `^` or `$` say that it is the beginning or the end.
fn template(template: &str, text: &str) -> bool {
    let (start, template) = template.strip_prefix('^').map_or(("*", template), |rest| ("", rest));
    let (end, template) = template.strip_suffix('$').map_or(("*", template), |rest| ("", rest));
    !text.is_empty() && matches(&format!("{start}{template}{end}"), text)
}

/// The day, by seconds since 1970 (after "chrono-Compatible Low-Level Date Algorithms" by Howard Hinnant, `civil_from_days`).
pub fn day(seconds: u64) -> Day {
    let days = i64::try_from(seconds / 86_400).unwrap_or(i64::MAX / 2) + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year as i32, month as u8, day as u8)
}

#[cfg(test)]
#[path = "tests/rule.rs"]
mod tests;
