//! `.config/leakcheck.toml` and `[workspace.metadata.leakcheck]`: profiles of values for all tests, and overrides for
//! some. What applies to a test, the first that sets a value:
//!
//! 1. the attribute on the test (`#[leak_budget]`): it stands beside what it speaks of. (The limits of the command
//!    line are for tests without one of their own.)
//! 2. the command line;
//! 3. the overrides whose filter means the test: those of the profile in the order of the file, then those of
//!    the profile that it inherits from, and so on;
//! 4. the profile, then the one that it inherits from, at last `default`;
//! 5. the tool's own defaults.
//!
//! Each value is looked for by itself. The file comes before the manifest.

pub mod apply;
mod key;
mod layer;
mod read;
mod root;
mod rules;
mod show;
#[cfg(test)]
mod tests;
mod value;

use std::ops::Range;

use camino::{Utf8Path, Utf8PathBuf};

pub use self::key::{KEYS, Key, Kind, Known, Value};
pub use self::layer::{Given, Layer, Origin};
pub use self::root::of as root_of;
#[cfg(test)]
pub(crate) use self::rules::rules_of;
pub use self::show::{explain_run, explain_test};
pub use self::value::duration;

use self::layer::Override;
use self::read::Profiles;
use crate::error::{Error, Result};
use crate::model::{Budget, PlannedTest, Rule};
use crate::options::{ConfigOptions, Options, TraceOptions};

/// Where the file is, below the workspace's root.
pub const FILE: &str = ".config/leakcheck.toml";
const DEFAULT: &str = "default";

/// What is configured, for one profile.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The profiles in use: the one that was chosen, then those that it inherits from.
    chain: Vec<String>,
    /// The files that have something of it.
    files: Vec<String>,
    /// What the command line sets.
    given: Layer,
    /// What the profiles set.
    profile: Layer,
    /// What they set for some tests, the first one first.
    overrides: Vec<Override>,
    /// What they accept; those of the profile that was chosen first.
    rules: Vec<Rule>,
    /// Suppression files, as seen from the workspace's root.
    suppressions: Vec<String>,
    /// The root of the workspace that it is for.
    root: Option<Utf8PathBuf>,
    /// That workspace's own files have some of it.
    by_workspace: bool,
}

impl Config {
    /// Reads what there is: the manifest and the file of the workspace, if there is one, or the file that was asked
    /// for in place of that.
    ///
    /// # Errors
    /// [`Error::Config`] with an excerpt, or a file that was asked for cannot be read.
    pub fn load(options: &ConfigOptions) -> Result<Self> {
        let root = options.start.as_deref().and_then(root::of);
        Ok(Self { root: root.clone(), ..Self::load_of(options, root.as_deref())? })
    }

    fn load_of(options: &ConfigOptions, workspace: Option<&Utf8Path>) -> Result<Self> {
        let mut read: Vec<(String, Profiles)> = Vec::new();
        let mut add = |path: &Utf8Path, tables: &[&str], must_be: bool| -> Result<bool> {
            let text = match read::text(path) {
                Ok(Some(text)) => text,
                Ok(None) if !must_be => return Ok(false),
                Ok(None) => return Err(unreadable(&format!("{path}: no such file"))),
                Err(problem) => return Err(unreadable(&problem.to_string())),
            };
            let shown = workspace.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
            let profiles = read::profiles(shown.as_str(), &text, tables).map_err(Error::Config)?;
            let says_something = !profiles.is_empty();
            if says_something {
                read.push((shown.to_string(), profiles));
            }
            Ok(says_something)
        };
        let mut by_workspace = false;
        match (&options.file, workspace) {
            (Some(file), _) => drop(add(file, &[], true)?),
            (None, Some(root)) => by_workspace = add(&root.join(FILE), &[], false)?,
            (None, None) => {}
        }
        if let Some(root) = workspace {
            by_workspace |= add(&root.join("Cargo.toml"), &["workspace", "metadata", "leakcheck"], false)?;
        }
        Ok(Self { by_workspace, ..Self::choose(options, &read)? })
    }

    /// The values of the profile that was asked for. What comes first in `read` comes before what follows.
    fn choose(options: &ConfigOptions, read: &[(String, Profiles)]) -> Result<Self> {
        let name = options.profile.as_deref().unwrap_or(DEFAULT);
        let exists = |name: &str| name == DEFAULT || read.iter().any(|(_, all)| all.contains_key(name));
        let mut config = Self { given: options.given.clone(), ..Self::default() };
        if !exists(name) {
            let mut names: Vec<_> = read.iter().flat_map(|(_, all)| all.keys()).map(String::as_str).collect();
            names.push(DEFAULT);
            names.sort_unstable();
            names.dedup();
            let names = names.join(", ");
            return Err(Error::Config(format!(
                "no configuration has the profile `{name}` (--leakcheck-profile or LEAKCHECK_PROFILE); there are: {names}"
            )));
        }
        let mut next = Some(name.to_owned());
        while let Some(name) = next {
            next = (name != DEFAULT).then(|| DEFAULT.to_owned());
            let profiles: Vec<_> = read.iter().filter_map(|(_, all)| all.get(&name)).collect();
            if let Some((parent, place)) = profiles.iter().find_map(|profile| profile.inherits.as_ref()) {
                if !exists(parent) {
                    let message = format!("there is no profile `{parent}`");
                    return Err(Error::Config(place.point(&message, "")));
                }
                if *parent == name || config.chain.contains(parent) {
                    let message = format!("the profile `{name}` inherits from itself");
                    return Err(Error::Config(place.point(&message, "")));
                }
                next = Some(parent.clone());
            }
            for profile in profiles {
                let overrides = profile.overrides.iter().map(|one| &one.values);
                std::iter::once(&profile.values).chain(overrides).try_for_each(agrees)?;
                layer::fill(&mut config.profile, &profile.values);
                config.overrides.extend(profile.overrides.iter().cloned());
                config.rules.extend(profile.rules.iter().cloned());
                config.suppressions.extend(profile.suppressions.iter().cloned());
            }
            config.chain.push(name);
        }
        config.files = read.iter().map(|(path, _)| path.clone()).collect();
        Ok(config)
    }

    /// What applies to tests that no override means.
    pub fn of_run(&self) -> Layer {
        let mut layer = self.given.clone();
        layer::fill(&mut layer, &self.profile);
        // The command line goes before files, also where it asks for something that excludes theirs.
        let retries = self.given.get(&Key::Retries).is_some_and(|it| it.value != Value::Number(0));
        if retries && !self.given.contains_key(&Key::MaxFail) {
            layer.remove(&Key::MaxFail);
        }
        layer
    }

    /// What applies to a test, without its attribute, by which overrides are for it.
    pub fn of_test(&self, means: &[bool]) -> Layer {
        let mut layer = self.given.clone();
        let theirs = self.overrides.iter().zip(means).filter(|(_, means)| **means);
        theirs.for_each(|(one, _)| layer::fill(&mut layer, &one.values));
        layer::fill(&mut layer, &self.profile);
        layer
    }

    /// What applies to programs of the user's own choice: overrides are for tests.
    pub fn of_programs(self) -> Self {
        Self { overrides: Vec::new(), ..self }
    }

    /// The root of the workspace that it is for, where one was found.
    pub fn root(&self) -> Option<&Utf8Path> {
        self.root.as_deref()
    }

    /// The profile that was chosen.
    pub fn profile(&self) -> &str {
        self.chain.first().map_or(DEFAULT, String::as_str)
    }

    /// What is accepted, the first rule first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Suppression files of other tools.
    pub fn suppressions(&self) -> impl Iterator<Item = Utf8PathBuf> {
        let root = self.root.clone().unwrap_or_default();
        self.suppressions.iter().map(move |path| root.join(path))
    }

    /// The filters of the overrides.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        self.overrides.iter().map(|one| &*one.filter)
    }

    /// The error for a part of the filter with this number that makes no sense.
    pub fn wrong_filter(&self, number: usize, part: Range<usize>, message: &str, hint: &str) -> Error {
        let Override { filter, at, .. } = &self.overrides[number];
        Error::Config(at.point_into(filter, part, message, hint))
    }

    /// Looks whether it is the configuration of the workspace that cargo speaks of, which has this root.
    ///
    /// # Errors
    /// It is not, and that has another one.
    pub fn is_of(&self, options: &ConfigOptions, root: &Utf8Path) -> Result<()> {
        let same =
            |found: &Utf8PathBuf| found == root || found.canonicalize_utf8().is_ok_and(|it| it == root);
        if self.root.as_ref().is_some_and(same) {
            return Ok(());
        }
        let other = Self::load_of(options, Some(root))?;
        if !(other.by_workspace || self.by_workspace) {
            return Ok(());
        }
        let looked = self.root.as_ref().map_or("nowhere", |root| root.as_str());
        Err(Error::Config(format!(
            "the configuration was looked for in {looked}, and cargo says that the workspace's root is {root}; name it by --config-file"
        )))
    }

    /// The options of a run, with what the profile sets.
    ///
    /// # Errors
    /// [`Error::Config`] for values that exclude each other.
    pub fn resolve(&self, options: &mut Options) -> Result<()> {
        let layer = self.of_run();
        if layer.contains_key(&Key::MaxFail) && !self.given.contains_key(&Key::MaxFail) {
            let overrides = self.overrides.iter().filter(|_| !self.given.contains_key(&Key::Retries));
            let mut layers = std::iter::once(&layer).chain(overrides.map(|one| &one.values));
            let retries = |layer: &&Layer| {
                layer.get(&Key::Retries).is_some_and(|retries| retries.value != Value::Number(0))
            };
            if let Some(other) = layers.find(retries) {
                return Err(excluding((Key::MaxFail, &layer), (Key::Retries, other)));
            }
        }
        apply::trace(&layer, &mut options.trace);
        apply::judge(&layer, &mut options.judge);
        apply::accept(&layer, &mut options.accept);
        apply::report(&layer, &mut options.report);
        options.sudo &= !apply::is_on(&layer, Key::NoSudo);
        Ok(())
    }

    /// What has to be in place for all tests of a run, whatever overrides say of some: of all that can be looked
    /// at, what any test wants.
    pub fn widest(&self, trace: &TraceOptions) -> TraceOptions {
        let mut widest = trace.clone();
        for one in &self.overrides {
            let mut layer = self.given.clone();
            layer::fill(&mut layer, &one.values);
            layer::fill(&mut layer, &self.profile);
            let mut other = trace.clone();
            apply::trace(&layer, &mut other);
            widest.follow_children |= other.follow_children;
            widest.descriptors |= other.descriptors;
            widest.kernel_bytes = widest.kernel_bytes.max(other.kernel_bytes);
            widest.ipc |= other.ipc;
            widest.files |= other.files;
            widest.children |= other.children;
            widest.mappings |= other.mappings;
            widest.retries = widest.retries.max(other.retries);
        }
        widest
    }

    /// Gives a test what is configured for it, by which overrides are for it. `options` are those of the run.
    pub fn settle(&self, test: &mut PlannedTest, means: &[bool], options: &Options) {
        let layer = self.of_test(means);
        apply::budget(&layer, &mut test.budget);
        test.judge = options.judge;
        // Where there are overrides, the run is set up for all of them.
        if !self.overrides.is_empty() {
            apply::policy(&layer, options, test);
        }
    }
}

/// Looks whether nothing in a layer excludes something else in it.
fn agrees(layer: &Layer) -> Result<()> {
    let Some((one, other)) = layer::contradiction(layer) else { return Ok(()) };
    Err(excluding((one, layer), (other, layer)))
}

/// The error for two values that exclude each other.
fn excluding((one, of): (Key, &Layer), (other, of_other): (Key, &Layer)) -> Error {
    let said = |key: Key, layer: &Layer| format!("`{}` ({})", layer::name(key), layer[&key].origin);
    Error::Config(format!("{} and {} exclude each other", said(one, of), said(other, of_other)))
}

fn unreadable(problem: &str) -> Error {
    Error::Config(format!("cannot read the configuration: {problem}"))
}

/// The name of a limit in a budget, and the limit, in the order of the keys.
fn limits(budget: &Budget) -> Vec<(Key, u64)> {
    let mut budget = budget.clone();
    let limit = |known: &key::Known| Some((known.key, (*apply::own(&mut budget, known.key)?)?));
    KEYS.iter().filter_map(limit).collect()
}
