//! A configuration file, or the part of a manifest that is one: from text to profiles.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result as Read};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt as _;

use camino::Utf8Path;
use fs_err as fs;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{KEYS, Key};
use super::layer::{Given, Layer, Origin, Override};
use super::value;
use crate::diagnostic;
use crate::model::Rule;

/// Profiles by their names.
pub type Profiles = BTreeMap<String, Profile>;

/// A profile as one file has it.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The profile that has what this one has not, and where that is said, for a message.
    pub inherits: Option<(String, Place)>,
    /// What it sets.
    pub values: Layer,
    /// What it sets for some tests; the first one that sets a key has it.
    pub overrides: Vec<Override>,
    /// What it accepts.
    pub rules: Vec<Rule>,
    /// Suppression files of other tools.
    pub suppressions: Vec<String>,
}

/// A place in a file, to be pointed at.
#[derive(Clone, Debug)]
pub struct Place {
    text: std::sync::Arc<str>,
    path: String,
    at: Range<usize>,
}

impl Place {
    /// A message that points there.
    pub fn point(&self, message: &str, hint: &str) -> String {
        self.point_into("", 0..0, message, hint)
    }

    /// The same with a part of the string that stands there, whose value is `value`. Where its characters are not
    /// those of the value, it is pointed at all of it.
    pub fn point_into(&self, value: &str, part: Range<usize>, message: &str, hint: &str) -> String {
        let raw = self.text.get(self.at.clone()).filter(|_| !value.is_empty());
        let at = match raw.and_then(|raw| raw.find(value)) {
            Some(start) => self.at.start + start + part.start..self.at.start + start + part.end,
            None => self.at.clone(),
        };
        diagnostic::point(Some(&self.path), &self.text, at, message, hint)
    }

    /// `path:line`.
    pub fn line(&self) -> String {
        format!("{}:{}", self.path, diagnostic::line(&self.text, self.at.start))
    }
}

/// The text of a file; none where there is none.
///
/// # Errors
/// It cannot be read, or not more than once: by the tool before and after it has its privileges, and by each runner.
pub fn text(path: &Utf8Path) -> Read<Option<String>> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        // A link that leads nowhere was to be a file.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        // Something else is called like the directory.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(error),
    };
    let of_this_process = ["/dev/stdin", "/dev/fd", "/proc/self"].iter().any(|its| path.starts_with(its));
    if of_this_process || kind.is_fifo() || kind.is_socket() {
        let reason = "is no file that several processes can read, and they have to";
        return Err(Error::other(format!("{path} {reason}")));
    }
    fs::read_to_string(path).map(Some)
}

/// Reads a file's text. `tables` leads to the configuration in it, from the outside in; without one of these there
/// is none. `path` is how messages call the file.
///
/// # Errors
/// A message that points at what is wrong.
pub fn profiles(path: &str, text: &str, tables: &[&str]) -> Result<Profiles, String> {
    let reader = Reader { path, text: text.into() };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(text.len()..text.len());
        reader.point(at, error.message(), "")
    })?;
    let mut table = document.get_ref();
    for name in tables {
        match table.get(*name) {
            None => return Ok(Profiles::new()),
            Some(inner) => table = reader.table(inner)?,
        }
    }
    let mut profiles = Profiles::new();
    for (key, value) in table {
        if key.get_ref() != "profile" {
            let hint = "everything stands in `[profile.default]` or another profile";
            return Err(reader.unknown(key, &["profile"], hint));
        }
        for (name, value) in reader.table(value)? {
            profiles
                .insert(name.get_ref().to_string(), reader.profile(name.get_ref(), reader.table(value)?)?);
        }
    }
    Ok(profiles)
}

pub(super) struct Reader<'a> {
    path: &'a str,
    text: std::sync::Arc<str>,
}

impl Reader<'_> {
    pub(super) fn point(&self, at: Range<usize>, message: &str, hint: &str) -> String {
        diagnostic::point(Some(self.path), &self.text, at, message, hint)
    }

    pub(super) fn place(&self, at: Range<usize>) -> Place {
        Place { text: self.text.clone(), path: self.path.to_owned(), at }
    }

    pub(super) fn table<'t, 'i>(&self, value: &'t Spanned<DeValue<'i>>) -> Result<&'t DeTable<'i>, String> {
        value.get_ref().as_table().ok_or_else(|| {
            self.point(value.span(), &format!("expected a table, not {}", value::a(value.get_ref())), "")
        })
    }

    pub(super) fn string<'t>(&self, value: &'t Spanned<DeValue<'_>>) -> Result<&'t str, String> {
        value.get_ref().as_str().ok_or_else(|| {
            self.point(value.span(), &format!("expected a string, not {}", value::a(value.get_ref())), "")
        })
    }

    /// The message for a key that is none of `names`; `hint` is for one that is like none of them.
    pub(super) fn unknown(&self, key: &Spanned<impl AsRef<str>>, names: &[&str], hint: &str) -> String {
        let name = key.get_ref().as_ref();
        let like = name.replace('_', "-").to_lowercase();
        let nearest = names.iter().map(|known| (distance(known, &like), known)).min();
        let hint = match nearest {
            Some((distance, known)) if distance <= 2.min(known.len() / 2) => {
                format!("did you mean `{known}`?")
            }
            _ => hint.to_owned(),
        };
        self.point(key.span(), &format!("unknown key `{name}`"), &hint)
    }

    fn profile(&self, name: &str, table: &DeTable<'_>) -> Result<Profile, String> {
        let mut profile = Profile::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "inherits" if name == "default" => {
                    let message = "the profile `default` inherits from none";
                    return Err(self.point(key.span(), message, ""));
                }
                "inherits" => {
                    profile.inherits = Some((self.string(value)?.to_owned(), self.place(value.span())));
                }
                "overrides" => {
                    let all = value.get_ref().as_array();
                    let all = all.ok_or_else(|| {
                        let hint = format!("write `[[profile.{name}.overrides]]`");
                        self.point(value.span(), "expected an array of tables", &hint)
                    })?;
                    for one in all.iter() {
                        profile.overrides.push(self.overriding(name, one)?);
                    }
                }
                "rules" => profile.rules = self.rules(name, value)?,
                "suppressions" => profile.suppressions = self.strings(value)?,
                _ => {
                    let (key, given) = self.given(
                        name,
                        key,
                        value,
                        &["inherits", "overrides", "rules", "suppressions"],
                        false,
                    )?;
                    profile.values.insert(key, given);
                }
            }
        }
        Ok(profile)
    }

    fn overriding(&self, profile: &str, value: &Spanned<DeValue<'_>>) -> Result<Override, String> {
        let (mut filter, mut values) = (None, Layer::new());
        for (key, value) in self.table(value)? {
            if key.get_ref() == "filter" {
                filter = Some((self.string(value)?.to_owned(), self.place(value.span())));
            } else {
                let (key, given) = self.given(profile, key, value, &["filter"], true)?;
                values.insert(key, given);
            }
        }
        let Some((filter, at)) = filter else {
            return Err(self.point(value.span(), "an override without a filter", "add `filter = '…'`"));
        };
        Ok(Override { filter, at, values })
    }

    fn given(
        &self,
        profile: &str,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        others: &[&'static str],
        in_override: bool,
    ) -> Result<(Key, Given), String> {
        let name = key.get_ref().as_ref();
        let Some(known) = KEYS.iter().find(|known| known.name == name) else {
            let here = KEYS.iter().filter(|known| !in_override || !known.of_run).map(|known| known.name);
            let names: Vec<_> = here.chain(others.iter().copied()).collect();
            let hint = "`cargo leakcheck show-config` lists all keys";
            return Err(self.unknown(key, &names, hint));
        };
        if in_override && known.of_run {
            let message = format!("`{name}` is the same for all tests of a run");
            return Err(self.point(key.span(), &message, "it stands in a profile, not in an override"));
        }
        let value = self.value(name, known.kind, value)?;
        let (place, profile) = (self.place(key.span()).line(), profile.to_owned());
        Ok((known.key, Given { value, origin: Origin::File { place, profile, in_override } }))
    }
}

/// How many characters are to be put in, taken out or exchanged to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (place, wanted) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(character != *wanted);
            diagonal = row[place + 1];
            row[place + 1] = exchanged.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}
