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
    // Whatever follows.
    let parts: Vec<&StackPart> = parts.iter().chain([&StackPart::Any]).collect();
    is_all(&parts, stack, |part, frame| match part {
        StackPart::Any => None,
        StackPart::Frame(patterns) => Some(patterns.are_of(frame, own)),
    })
}

/// Whether a pattern is all of something; `is` says whether a part of it is one of that, or none for any number of them.
fn is_all<P, T>(pattern: &[P], all: &[T], is: impl Fn(&P, &T) -> Option<bool>) -> bool {
    // The last part that is for any number takes one more whenever what follows does not match.
    let (mut at, mut place, mut any) = (0, 0, None);
    while place < all.len() {
        match pattern.get(at).map(|part| is(part, &all[place])) {
            Some(None) => {
                any = Some((at, place));
                at += 1;
            }
            Some(Some(true)) => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((any_at, taken)) = any else { return false };
                any = Some((any_at, taken + 1));
                (at, place) = (any_at + 1, taken + 1);
            }
        }
    }
    // What is left must be for none.
    let Some(last) = all.last() else { return false };
    pattern[at..].iter().all(|part| is(part, last).is_none())
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
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    if text.is_empty() {
        return pattern.iter().all(|letter| *letter == '*');
    }
    is_all(&pattern, &text, |letter, of| match letter {
        '*' => None,
        letter => Some(*letter == '?' || letter == of),
    })
}

/// LeakSanitizer's templates (compiler-rt, sanitizer_common/sanitizer_common.cpp, `TemplateMatch`): anywhere in the text, unless
/// `^` or `$` say that it is the beginning or the end; `*` is anything, and nothing else is special.
fn template(template: &str, text: &str) -> bool {
    let (start, template) = template.strip_prefix('^').map_or(("*", template), |rest| ("", rest));
    let (end, template) = template.strip_suffix('$').map_or(("*", template), |rest| ("", rest));
    let pattern: Vec<char> = format!("{start}{template}{end}").chars().collect();
    let text: Vec<char> = text.chars().collect();
    is_all(&pattern, &text, |letter, of| if *letter == '*' { None } else { Some(letter == of) })
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
