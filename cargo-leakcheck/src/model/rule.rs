use std::sync::Arc;

use super::{Leak, Measure};

/// What is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How it is called.
    pub name: Arc<str>,
    /// `file:line`, where it stands.
    pub place: String,
    /// Why.
    pub reason: String,
    /// Where the leak comes from.
    pub from: RuleFrom,
    /// Kinds that it is for; all if there is none.
    pub kinds: Vec<Leak>,
    /// Tests that it is for, by `*` patterns for their names, with or without their binary; all without one.
    pub test: Option<String>,
    /// How much of it is accepted, a test.
    pub limit: Limit,
    /// The last day that it applies, year, month and day.
    pub expires: Option<Day>,
}

/// Year, month, day.
pub type Day = (i32, u8, u8);

/// Where a leak comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleFrom {
    /// One of its frames has all of this.
    Frame(Patterns),
    /// The frames from the innermost on are these.
    Stack(Vec<StackPart>),
}

/// Patterns of a frame, in which `*` stands for anything; those that there are must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    /// The function's path: `a::init::*`.
    pub function: Option<String>,
    /// The Rust module that the function is in.
    pub module: Option<String>,
    /// The crate that the function is in.
    pub krate: Option<String>,
    /// The source file, relative to the workspace's root where it is in it.
    pub file: Option<String>,
    /// The file name of the executable or shared object.
    pub library: Option<String>,
    /// Any of function, file and library, as LeakSanitizer takes it: it may stand anywhere in them.
    pub any: Option<String>,
}

/// A frame of a stack that is written down, as Valgrind does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackPart {
    /// One frame.
    Frame(Patterns),
    /// Any number of frames.
    Any,
}

/// How much a rule accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Blocks; of what is no memory, how many.
    pub blocks: Option<u64>,
}

impl Limit {
    /// What is too much, in words: `2 > 1`.
    pub fn exceeded(&self, measure: Measure) -> Option<String> {
        let blocks = self.blocks.filter(|limit| measure.blocks > *limit);
        let bytes = self.bytes.filter(|limit| measure.bytes > *limit);
        let blocks = blocks.map(|limit| format!("{} > {limit}", measure.blocks));
        blocks.or_else(|| bytes.map(|limit| format!("{} B > {limit} B", measure.bytes)))
    }
}

/// How a frame of a stack begins that is no function's.
const LIBRARY: &str = "library:";
const FILE: &str = "file:";
const ANY: &str = "...";

/// As configuration files have it.
impl std::fmt::Display for StackPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::Frame(Patterns { library: Some(library), .. }) => write!(f, "{LIBRARY}{library}"),
            Self::Frame(Patterns { file: Some(file), .. }) => write!(f, "{FILE}{file}"),
            Self::Frame(patterns) => f.write_str(patterns.function.as_deref().unwrap_or_default()),
        }
    }
}

impl StackPart {
    /// A frame, by how configuration files have it.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let some = |text: &str| Some(text.to_owned());
        Self::Frame(match (text.strip_prefix(LIBRARY), text.strip_prefix(FILE)) {
            _ if text == ANY => return Self::Any,
            (Some(library), _) => Patterns { library: some(library), ..Patterns::default() },
            (_, Some(file)) => Patterns { file: some(file), ..Patterns::default() },
            _ => Patterns { function: some(text), ..Patterns::default() },
        })
    }
}
