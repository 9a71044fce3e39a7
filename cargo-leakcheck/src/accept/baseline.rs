//! The baseline: what a workspace's tests have leaked when it was written. A leak is known again by its test, its kind and
//! the functions of the user's own that it comes from, so that neither a moved line nor another compiler makes it a new one.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use camino::Utf8Path;
use fs_err as fs;

use super::things::{Thing, frames};
use crate::error::{Error, Result};
use crate::model::{Accepted, By, Compared, FindingKind, Item, LEAKS, Leak, Measure, OwnCode};

/// Where it is, below the workspace's root, unless `--baseline` says otherwise.
pub const FILE: &str = ".config/leakcheck-baseline.json";
/// Name and version of the format.
const FORMAT: &str = "leakcheck-baseline/1";

/// Leaks that are known, by the names of their tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(pub BTreeMap<String, Vec<Known>>);

/// A leak that is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// What kind of leak.
    pub leak: Leak,
    /// Which kind of descriptor, object or mapping.
    pub what: Option<String>,
    /// The user's own functions that it comes from, innermost first.
    pub frames: Vec<String>,
    /// How much.
    pub measure: Measure,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    known: Vec<Row>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    test: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    frames: Vec<String>,
    bytes: u64,
    blocks: u64,
}

/// How a test's leaks compare with those that are known of it.
#[derive(Debug, Default)]
pub struct Comparison {
    /// In numbers.
    pub counts: Compared,
    /// What is known of what it has left.
    pub accepted: BTreeMap<Item, Accepted>,
    /// What is still there of what is known: less than before, or as much.
    pub still: Vec<Known>,
}

impl Baseline {
    /// Reads a file; none where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no baseline of this version.
    pub fn read(path: &Utf8Path) -> Result<Option<Self>> {
        let is_file = |metadata: std::fs::Metadata| metadata.is_file();
        if fs::metadata(path).is_ok_and(|metadata| !is_file(metadata)) {
            return Err(Error::Format {
                path: path.to_owned(),
                reason: "is no file that could be a baseline".to_owned(),
            });
        }
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(source) => return Err(Error::File { action: "read", path: path.to_owned(), source }),
        };
        let parsed = Self::parse(&text);
        parsed.map(Some).map_err(|reason| Error::Format { path: path.to_owned(), reason })
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(text).map_err(|error| format!("no baseline: {error}"))?;
        if document.format != FORMAT {
            return Err(format!("its format is `{}` and not `{FORMAT}`", document.format));
        }
        let mut known: BTreeMap<String, Vec<Known>> = BTreeMap::new();
        for Row { test, kind, what, frames, bytes, blocks } in document.known {
            let leak = LEAKS.iter().find(|(_, name)| *name == kind);
            let (leak, _) = leak.ok_or_else(|| format!("the kind `{kind}` of {test} is none of ours"))?;
            let measure = Measure { bytes, blocks };
            known.entry(test).or_default().push(Known { leak: lost(*leak), what, frames, measure });
        }
        Ok(Self(known))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Utf8Path) -> Result<()> {
        let mut rows: Vec<Row> = Vec::new();
        for (test, known) in &self.0 {
            let mut known: Vec<_> = known.iter().collect();
            known.sort_unstable();
            rows.extend(known.into_iter().map(|it| Row {
                test: test.clone(),
                kind: it.leak.name().to_owned(),
                what: it.what.clone(),
                frames: it.frames.clone(),
                bytes: it.measure.bytes,
                blocks: it.measure.blocks,
            }));
        }
        let document = Document { format: FORMAT.to_owned(), known: rows };
        let mut text = serde_json::to_vec_pretty(&document).expect("plain data has a JSON form");
        text.push(b'\n');
        let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
        // Where a link leads.
        let target = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
        let path = &*target;
        let folder = path.parent().filter(|folder| *folder != "").unwrap_or(".".into());
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        std::io::Write::write_all(&mut file, &text).map_err(failed)?;
        // As any other file: a temporary one is its owner's alone.
        let mode = fs::metadata(path)
            .map_or(0o644, |old| std::os::unix::fs::PermissionsExt::mode(&old.permissions()));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        file.as_file().set_permissions(mode).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Number of leaks.
    pub fn leaks(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Compares what a test has left with what is known of it. `things` are those that can fail it; of kinds that were not
    /// looked at, or cannot, nobody knows whether they are still there.
    pub fn compare(
        &self,
        test: &str,
        things: &[Thing<'_>],
        own: &OwnCode,
        looked: &dyn Fn(Leak) -> bool,
    ) -> Comparison {
        let mut entries: Vec<Entry<'_>> = self.0.get(test).into_iter().flatten().map(Entry::new).collect();
        let mut groups = groups(things, own);
        // What is the same comes before what is alike.
        for like in LIKE {
            let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for (place, entry) in entries.iter().enumerate() {
                let Known { leak, what, frames, .. } = entry.known;
                let key = (*leak, what.as_deref(), like.key_of_known(frames));
                places.entry(key).or_default().push(place);
            }
            for group in groups.iter_mut().filter(|group| !group.is_covered()) {
                let Known { leak, what, frames, .. } = &group.known;
                let key = like.key(frames).map(|key| (*leak, what.as_deref(), key));
                let found = key.and_then(|key| places.get(&key)).cloned().unwrap_or_default();
                for place in found {
                    if !group.is_covered() {
                        group.take(&mut entries[place]);
                    }
                }
            }
        }
        let mut comparison = Comparison::default();
        for group in groups {
            let counts = &mut comparison.counts;
            match (group.is_covered(), group.is_known) {
                (true, _) => counts.known += 1,
                (false, true) => counts.grown += 1,
                (false, false) => counts.new += 1,
            }
            group.accept(&mut comparison.accepted);
        }
        for Entry { known, used, rest: _ } in entries {
            match used {
                Some(measure) => comparison.still.push(Known { measure, ..known.clone() }),
                None if looked(known.leak) => comparison.counts.fixed += 1,
                None => comparison.still.push(known.clone()),
            }
        }
        comparison
    }
}

/// A leak that is known, while it is compared.
struct Entry<'a> {
    known: &'a Known,
    /// How much of it is not there yet.
    rest: Measure,
    /// How much is; none where nothing is.
    used: Option<Measure>,
}

impl<'a> Entry<'a> {
    fn new(known: &'a Known) -> Self {
        Self { known, rest: known.measure, used: None }
    }
}

/// How a leak is known again.
#[derive(Clone, Copy)]
enum Like {
    /// All frames are the same.
    Same,
    /// The stack was lost: it can be any of its kind.
    Lost,
}

const LIKE: [Like; 2] = [Like::Same, Like::Lost];

impl Like {
    /// What a known leak is found by.
    fn key_of_known(self, frames: &[String]) -> &[String] {
        match self {
            Self::Same => frames,
            Self::Lost => &ANY,
        }
    }

    /// What it is looked for by; none where there is no such one.
    fn key(self, frames: &[String]) -> Option<&[String]> {
        match self {
            Self::Same => Some(frames),
            Self::Lost => frames.is_empty().then_some(&ANY),
        }
    }
}

/// The key of all.
static ANY: [String; 1] = [String::new()];

/// What is to be known of a test from now on.
pub fn known(things: &[Thing<'_>], own: &OwnCode) -> Vec<Known> {
    groups(things, own).into_iter().map(|group| group.known).collect()
}

/// Which block of a cycle is the root may depend on which thread was first: what is lost is one kind.
fn lost(leak: Leak) -> Leak {
    match leak {
        Leak::Memory(FindingKind::IndirectlyLost) => Leak::Memory(FindingKind::DefinitelyLost),
        leak => leak,
    }
}

/// Things that are one leak to the baseline.
struct Group {
    /// With all that there is of it.
    known: Known,
    items: Vec<(Item, Measure)>,
    taken: Measure,
    is_known: bool,
}

fn groups(things: &[Thing<'_>], own: &OwnCode) -> Vec<Group> {
    let mut groups: BTreeMap<_, Group> = BTreeMap::new();
    for thing in things {
        let (what, frames) = (thing.what.map(str::to_owned), frames(thing.stack, own));
        let leak = lost(thing.leak);
        let group = groups.entry((leak, what.clone(), frames.clone())).or_insert_with(|| Group {
            known: Known { leak, what, frames, measure: Measure::default() },
            items: Vec::new(),
            taken: Measure::default(),
            is_known: false,
        });
        group.known.measure = group.known.measure + thing.measure;
        group.items.push((thing.item, thing.measure));
    }
    groups.into_values().collect()
}

impl Group {
    fn rest(&self) -> Measure {
        self.known.measure.less(self.taken)
    }

    fn is_covered(&self) -> bool {
        self.rest() == Measure::default()
    }

    /// Takes of what is known as much as it has.
    fn take(&mut self, entry: &mut Entry<'_>) {
        if entry.rest == Measure::default() && entry.used.is_some() {
            return;
        }
        let taken = least(entry.rest, self.rest());
        entry.rest = entry.rest.less(taken);
        entry.used = Some(entry.used.unwrap_or_default() + taken);
        (self.taken, self.is_known) = (self.taken + taken, true);
    }

    fn accept(self, accepted: &mut BTreeMap<Item, Accepted>) {
        let (mut rest, Measure { bytes, blocks }) = (self.taken, self.rest());
        let all = self.known.measure;
        if bytes > 0 && blocks == 0 {
            // A block that has grown is one too many.
            rest.blocks = rest.blocks.min(all.blocks.saturating_sub(1));
        }
        if blocks > 0 && bytes == 0 {
            // Of more blocks that are together no larger, as many are too many as there are more.
            let share = (u128::from(all.bytes) * u128::from(blocks)).div_ceil(u128::from(all.blocks));
            rest.bytes = rest.bytes.saturating_sub(u64::try_from(share).unwrap_or(u64::MAX));
        }
        for (item, measure) in self.items {
            let taken = least(rest, measure);
            rest = rest.less(taken);
            if taken != Measure::default() {
                accepted.insert(item, Accepted { measure: taken, by: By::Baseline });
            }
        }
    }
}

fn least(one: Measure, other: Measure) -> Measure {
    Measure { bytes: one.bytes.min(other.bytes), blocks: one.blocks.min(other.blocks) }
}

#[cfg(test)]
#[path = "tests/baseline.rs"]
mod tests;
