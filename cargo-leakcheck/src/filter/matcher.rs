//! How a predicate compares a name.

use globset::GlobBuilder;
use regex::Regex;

/// Compares a name.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// It is this.
    Equal(String),
    /// It has this in it.
    Contains(String),
    /// Any part of it matches; a glob is one that matches from the start to the end.
    Regex(Regex),
}

impl Matcher {
    /// A regular expression; or what is wrong with it.
    pub fn regex(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self::Regex).map_err(|error| match error {
            // Its last line says what is wrong, those before it draw the expression.
            regex::Error::Syntax(text) => {
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
            error => error.to_string(),
        })
    }

    /// A glob; or what is wrong with it. As in nextest there is no escape but `[*]`, and `/` is a character like
    /// any other.
    pub fn glob(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text)
            .backslash_escape(false)
            .empty_alternates(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        // It is written for bytes that need not be text, which the names are.
        Self::regex(&glob.regex().replacen("(?-u)", "", 1))
    }

    /// Whether the name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Equal(text) => name == text,
            Self::Contains(text) => name.contains(text.as_str()),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}
