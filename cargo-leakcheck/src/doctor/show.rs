//! The requirements for people, aligned, and for machines.

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::requirement::{Requirement, State, exit};
use crate::error::Exit;

const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();

/// A line for each, what mends it below, and what it all comes to. With colours.
pub fn text(requirements: &[Requirement]) -> String {
    let width = requirements.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for Requirement { name, state, found, needed_for, mend } in requirements {
        let (word, style) = match state {
            State::Met => ("ok", GREEN),
            State::Reduced => ("reduced", YELLOW),
            State::Missing => ("missing", RED),
        };
        text += &format!("{style}{word:>7}{style:#}  {name:width$}  {found}  (for {needed_for})\n");
        if let Some(mend) = mend {
            text += &format!("{:>7}  {:width$}  to mend it: {mend}\n", "", "");
        }
    }
    text + "\n" + conclusion(requirements) + "\n"
}

fn conclusion(requirements: &[Requirement]) -> &'static str {
    match exit(requirements) {
        Exit::Clean => "Everything is there.",
        Exit::Incomplete => "It works, and something is not checked: see what is reduced.",
        _ => "It does not work here: see what is missing.",
    }
}

/// One JSON document.
pub fn json(requirements: &[Requirement]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        format: &'static str,
        version: &'static str,
        exit_code: u8,
        requirements: &'a [Requirement],
    }
    let document = Document {
        format: "leakcheck-doctor/1",
        version: env!("CARGO_PKG_VERSION"),
        exit_code: exit(requirements) as u8,
        requirements,
    };
    serde_json::to_string(&document).expect("plain data has a JSON form") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements() -> [Requirement; 2] {
        let one = |name: &str, state, mend: Option<&str>| Requirement {
            name: name.into(),
            state,
            found: "x".into(),
            needed_for: "y",
            mend: mend.map(Into::into),
        };
        [one("a", State::Met, None), one("abc", State::Missing, Some("do this"))]
    }

    #[test]
    fn lines_are_aligned_and_what_mends_is_below() {
        let plain = anstream::adapter::strip_str(&text(&requirements())).to_string();
        let expected = "     ok  a    x  (for y)
missing  abc  x  (for y)
              to mend it: do this

It does not work here: see what is missing.
";
        assert_eq!(plain, expected);
    }

    #[test]
    fn machines_get_the_same() {
        let document: serde_json::Value = serde_json::from_str(&json(&requirements())).unwrap();
        assert_eq!(document["format"], "leakcheck-doctor/1");
        assert_eq!(document["exit_code"], 11);
        assert_eq!(document["requirements"][1]["state"], "missing");
        assert_eq!(document["requirements"][1]["mend"], "do this");
        assert_eq!(document["requirements"][0]["mend"], serde_json::Value::Null);
    }
}
