//! Filter expressions: `package(x) & (test(/re/) | kind(bench))`. A subset of cargo-nextest's language, with the
//! same meaning: what is understood here selects the same tests there.
//!
//! ```text
//! expression  = term (("or" | "|" | "+") term)*
//! term        = factor (("and" | "&" | "-") factor)*          a - b is a & !b
//! factor      = ("not" | "!") factor | "(" expression ")" | predicate
//! predicate   = "all()" | "none()" | name "(" matcher ")"
//! name        = "test" | "package" | "binary" | "binary_id" | "kind"
//! matcher     = "=" text | "~" text | "#" text | "/" regex "/" | text
//! ```
//!
//! `=` is equality, `~` containment, `#` a glob for the whole name, `/…/` a regular expression for any part of it. Text
//! without a sign is contained (`test`), a glob (`package`, `binary`, `binary_id`) or equal (`kind`). It ends at the next
//! `)` or `,` that has no backslash before it.

mod matcher;
mod parser;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::matcher::Matcher;
use crate::diagnostic;

/// Which tests an expression means.
#[derive(Clone, Debug)]
pub struct Filter {
    source: String,
    expression: Expression,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong.
    pub message: String,
    /// Bytes of the expression that it is about.
    pub at: Range<usize>,
    /// What to do, if anything is to be said of it.
    pub hint: String,
    source: String,
}

/// A test, as far as expressions can ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// The binary as reports name it (`package::bin/name`).
    pub binary_id: &'a str,
    /// Name of the target.
    pub binary: &'a str,
    /// `lib`, `proc-macro`, `bin`, `test`, `example` or `bench`.
    pub kind: &'a str,
    /// Name of the test.
    pub test: &'a str,
}

#[derive(Clone, Debug)]
enum Expression {
    All,
    None,
    Is(Part, Matcher),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

/// The part of a test that a predicate looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Test,
    Package,
    Binary,
    BinaryId,
    Kind,
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is none; the error shows where.
    pub fn parse(source: &str) -> Result<Self, FilterError> {
        let expression = parser::parse(source).map_err(|wrong| FilterError {
            message: wrong.message,
            at: wrong.at,
            hint: wrong.hint,
            source: source.to_owned(),
        })?;
        Ok(Self { source: source.to_owned(), expression })
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it means the test.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.expression.matches(subject)
    }
}

impl Expression {
    fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Is(part, matcher) => matcher.matches(match part {
                Part::Test => subject.test,
                Part::Package => subject.package,
                Part::Binary => subject.binary,
                Part::BinaryId => subject.binary_id,
                Part::Kind => subject.kind,
            }),
            Self::Not(one) => !one.matches(subject),
            Self::And(one, other) => one.matches(subject) && other.matches(subject),
            Self::Or(one, other) => one.matches(subject) || other.matches(subject),
        }
    }
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&diagnostic::point(None, &self.source, self.at.clone(), &self.message, &self.hint))
    }
}

impl std::error::Error for FilterError {}
