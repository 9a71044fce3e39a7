//! Values with where they come from.

use std::collections::BTreeMap;

use super::key::{KEYS, Key, Value};
use super::read::Place;

/// What one place sets.
pub type Layer = BTreeMap<Key, Given>;

/// A value that somebody has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The value.
    pub value: Value,
    /// Who has given it.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line, without its dashes.
    Option(&'static str),
    /// A file.
    File {
        /// The file and the line, `path:line`.
        place: String,
        /// The profile that has it.
        profile: String,
        /// It stands in an override, not in the profile itself.
        in_override: bool,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option(name) => write!(f, "--{name}"),
            Self::File { place, profile, in_override: false } => write!(f, "{place}, profile {profile}"),
            Self::File { place, profile, in_override: true } => {
                write!(f, "{place}, override of profile {profile}")
            }
        }
    }
}

/// What is otherwise for some tests.
#[derive(Clone, Debug)]
pub struct Override {
    /// For which: an expression of nextest's.
    pub filter: String,
    /// Where that stands, quotes included.
    pub at: Place,
    /// What they have.
    pub values: Layer,
}

/// Adds what `layer` does not set itself.
pub fn fill(layer: &mut Layer, from: &Layer) {
    for (key, given) in from {
        layer.entry(*key).or_insert_with(|| given.clone());
    }
}

/// The name of a key.
pub fn name(key: Key) -> &'static str {
    KEYS.iter().find(|known| known.key == key).map_or("", |known| known.name)
}
