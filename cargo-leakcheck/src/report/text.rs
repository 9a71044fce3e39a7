//! Words and characters: measures in words, and text of strangers made harmless.

use std::borrow::Cow;
use std::fmt::Write as _;

pub(super) use crate::model::count;
use crate::model::{FindingKind, Measure, Outcome};

/// `4096 B in 1 block`.
pub(super) fn measure(Measure { bytes, blocks }: Measure) -> String {
    format!("{bytes} B in {}", count(blocks, "block"))
}

/// The kind of a finding as people read it.
pub(super) fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::DefinitelyLost => "definitely lost",
        FindingKind::IndirectlyLost => "indirectly lost",
        FindingKind::PossiblyLost => "possibly lost",
        FindingKind::StillReachable => "still reachable",
        FindingKind::DoubleFree => "double free",
        FindingKind::UnknownFree => "unknown free",
    }
}

/// How a test's process ended, for messages; none when it passed.
pub(super) fn outcome(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Passed => None,
        Outcome::Failed { code } => Some(format!("failed with exit code {code}")),
        Outcome::Signalled { signal } => Some(format!("ended by signal {signal} ({})", signal_name(*signal))),
        Outcome::TimedOut => Some("timed out".to_owned()),
        Outcome::NotStarted { reason } => Some(format!("could not be started: {reason}")),
    }
}

/// `SIGSEGV`, or `SIGNAL` where the number has no name.
pub(super) fn signal_name(signal: i32) -> &'static str {
    nix::sys::signal::Signal::try_from(signal).map_or("SIGNAL", |signal| signal.as_str())
}

/// One line for a terminal or an attribute: every control character escaped.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// The characters that XML 1.0 has.
pub(super) fn legal(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'.. => c,
        _ => '\u{fffd}',
    }
}

/// What a test wrote, for a terminal: no escape sequences, no control characters but line feeds and tabs.
pub(super) fn output(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = anstream::adapter::strip_str(&text).to_string().replace("\r\n", "\n");
    escape(&text, |c| matches!(c, '\n' | '\t')).into_owned()
}

fn escape(text: &str, allowed: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Directional overrides show text in another order than it has.
    let harmless = |c: char| {
        allowed(c) || !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if harmless(c) => escaped.push(c),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "{}", c.escape_default());
            }
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_cannot_move_the_cursor() {
        assert_eq!(output(b"a\x1b[2Jb\x07c\tz\r\nnext\rover"), "abc\tz\nnext\\rover");
        assert_eq!(output(b"\xff\xc2\x9b31m"), "\u{fffd}\\u{9b}31m");
        assert_eq!(output("a\u{202e}b".as_bytes()), "a\\u{202e}b");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(line("a\nb"), "a\\nb");
        assert_eq!(line("größe ✓"), "größe ✓");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(measure(Measure { bytes: 1, blocks: 1 }), "1 B in 1 block");
        assert_eq!(measure(Measure { bytes: 0, blocks: 0 }), "0 B in 0 blocks");
    }
}
