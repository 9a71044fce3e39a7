//! What tests have written is shown to people, and is no command to the runner: it takes every line for one that begins
//! with `::` behind white space.

use std::hash::{BuildHasher as _, RandomState};

/// The text, with a word around it that turns commands off and on again. No test knows it: all have ended.
pub fn quoted(text: &str) -> String {
    if !text.lines().any(|line| line.trim_start().starts_with("::")) {
        return text.to_owned();
    }
    // Keyed by the system's random numbers.
    let random = || RandomState::new().hash_one(0_u8);
    with_word(text, &format!("{:016x}{:016x}", random(), random()))
}

fn with_word(text: &str, word: &str) -> String {
    format!("::stop-commands::{word}\n{}\n::{word}::\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_text_are_turned_off() {
        let text = "    FAIL x\n    ::error file=a::b\n";
        let expected = "::stop-commands::w\n    FAIL x\n    ::error file=a::b\n::w::\n";
        assert_eq!(with_word(text, "w"), expected);
        let quoted = quoted(text);
        let word = quoted.lines().next().unwrap().strip_prefix("::stop-commands::").unwrap();
        assert_eq!(quoted, with_word(text, word));
        assert_eq!(word.len(), 32);
        assert_ne!(super::quoted(text), quoted);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "a::b\n  a::b ::c\n", " : :x\n"] {
            assert_eq!(quoted(text), text);
        }
    }
}
