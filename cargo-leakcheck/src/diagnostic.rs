//! Points at a place in a text that the user wrote.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// What is wrong with a text, and where: message, line and column, the line itself, and a mark below it that says
/// `hint` (which may be empty). `path` is what the text is called, if it is a file. No line feed at the end.
pub fn point(path: Option<&str>, text: &str, at: Range<usize>, message: &str, hint: &str) -> String {
    let at = inside(text, at);
    let mut mark = AnnotationKind::Primary.span(at);
    if !hint.is_empty() {
        mark = mark.label(hint);
    }
    let mut snippet = Snippet::source(text).annotation(mark);
    if let Some(path) = path {
        snippet = snippet.path(path);
    }
    let group = Level::ERROR.primary_title(message).element(snippet);
    // Whoever prints it says that it is an error.
    Renderer::plain().render(&[group]).trim_start_matches("error: ").to_owned()
}

/// The line that a byte of a text is in, from 1.
pub fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The same range, cut to the text and to whole characters.
fn inside(text: &str, at: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(at.start);
    start..text.ceil_char_boundary(at.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_place_line_and_mark() {
        let text = "[profile.default]\nbyte = 4\n";
        let expected = "unknown key `byte`
 --> a.toml:2:1
  |
2 | byte = 4
  | ^^^^ did you mean `bytes`?";
        let shown = point(Some("a.toml"), text, 18..22, "unknown key `byte`", "did you mean `bytes`?");
        assert_eq!(shown, expected);
        assert_eq!((line(text, 0), line(text, 17), line(text, 18), line(text, 999)), (1, 1, 2, 3));
    }

    #[test]
    fn any_range_is_drawn() {
        for (start, end) in [(0, 0), (1, 1), (2, 3), (5, 2), (90, 99), (3, 99)] {
            assert!(point(None, "aéb\n", start..end, "m", "").starts_with("m\n"), "{start}..{end}");
        }
    }
}
