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

/// What is not looked at by a switch, and what asks for that.
const OFF: [(Key, &[Key]); 6] = [
    (Key::NoFds, &[Key::Fds, Key::KernelBytes]),
    (Key::NoKernelBytes, &[Key::KernelBytes]),
    (Key::NoIpc, &[Key::Ipc]),
    (Key::NoFiles, &[Key::Files]),
    (Key::NoChildren, &[Key::Children, Key::Threads]),
    (Key::NoMappings, &[Key::MappedBytes]),
];

/// Adds what `layer` does not set itself, nor excludes: who asks for something wants it to be looked at, and who does
/// not want that has no use for a limit.
pub fn fill(layer: &mut Layer, from: &Layer) {
    let new: Vec<_> = from
        .iter()
        .filter(|(key, given)| !layer.contains_key(key) && !excludes(layer, **key, given))
        .collect();
    layer.extend(new.into_iter().map(|(key, given)| (*key, given.clone())));
}

/// Whether what a layer sets excludes a value.
fn excludes(layer: &Layer, key: Key, given: &Given) -> bool {
    is_said(given)
        && OFF.iter().any(|(off, asking)| {
            *off == key && asking.iter().any(|asking| layer.get(asking).is_some_and(is_said))
                || asking.contains(&key) && layer.get(off).is_some_and(is_said)
        })
}

/// Two values of one place that exclude each other.
pub fn contradiction(layer: &Layer) -> Option<(Key, Key)> {
    let is_there = |key: &Key| layer.get(key).is_some_and(is_said);
    OFF.iter().find_map(|(off, asking)| {
        let asking = asking.iter().find(|asking| is_there(asking))?;
        is_there(off).then_some((*off, *asking))
    })
}

/// Whether it is a limit, or a switch that is on.
fn is_said(given: &Given) -> bool {
    given.value != Value::Switch(false)
}

/// The name of a key.
pub fn name(key: Key) -> &'static str {
    KEYS.iter().find(|known| known.key == key).map_or("", |known| known.name)
}
