//! The project's documents, for tests that hold them against what the tool says.

use crate::tool::repository;

/// The fenced blocks of a document that each follow a line.
///
/// # Panics
/// The document cannot be read.
pub fn blocks(path: &str, before: &str) -> Vec<String> {
    let text = fs_err::read_to_string(repository().join(path)).expect("the document is there");
    let line = format!("\n{before}\n");
    text.split(&line).skip(1).map(|rest| rest.split("\n```").next().unwrap_or(rest).to_owned()).collect()
}

/// A text with every time in brackets replaced.
pub fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| match (line.find('['), line.find("s]")) {
        (Some(start), Some(end)) if start < end => format!("{}[time]{}", &line[..start], &line[end + 2..]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
