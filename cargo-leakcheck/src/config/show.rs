//! `cargo leakcheck show-config`: each value, and where it comes from.

use std::fmt::Write as _;

use super::key::{KEYS, Key, Known, Value};
use super::layer::{self, Given, Layer};
use super::{Config, FILE, limits};
use crate::model::{Budget, PlannedTest};
use crate::options::Count;

/// What applies to all tests of a run, and the overrides for some.
pub fn explain_run(config: &Config) -> String {
    let mut shown = match config.chain.split_first() {
        Some((chosen, [])) => format!("profile {chosen}\n"),
        Some((chosen, from)) => format!("profile {chosen}, which inherits from {}\n", from.join(", ")),
        None => String::new(),
    };
    shown += &match &config.files[..] {
        [] => format!("nothing is configured in {FILE} or [workspace.metadata.leakcheck]\n"),
        files => format!("configured in {}\n", files.join(", ")),
    };
    shown.push('\n');
    shown += &lines(&config.of_run(), &Budget::default(), KEYS.iter());
    for one in &config.overrides {
        // Writing to a string cannot fail.
        let _ = write!(shown, "\noverride at {}: {}\n", one.at.line(), one.filter);
        for (key, given) in &one.values {
            let _ = writeln!(shown, "    {} = {}", layer::name(*key), given.value);
        }
    }
    for rule in &config.rules {
        let _ = write!(shown, "\nrule at {}: '{}', {}\n", rule.place, rule.name, rule.reason);
    }
    for path in &config.suppressions {
        let _ = write!(shown, "\nsuppressions of {path}\n");
    }
    shown
}

/// What applies to one test whose budget is that of its attribute, by which overrides are for it.
pub fn explain_test(config: &Config, test: &PlannedTest, means: &[bool]) -> String {
    let id = test.binary.id();
    let layer = config.of_test(means);
    let keys = KEYS.iter().filter(|known| !known.of_run);
    format!("{id} {}\n{}", test.name.as_str(), lines(&layer, &test.budget, keys))
}

/// `name = value  # origin`, in columns.
fn lines<'a>(layer: &Layer, attribute: &Budget, keys: impl Iterator<Item = &'a Known>) -> String {
    let limits = limits(attribute);
    let is_set = |key: &Key| layer.contains_key(key) || limits.iter().any(|(own, _)| own == key);
    // As the judge takes them.
    let default = |known: &Known| match known.key {
        Key::Bytes if is_set(&Key::Blocks) => "no limit",
        _ => known.default,
    };
    let origin = |key: Key, given: &Given| match (key, &given.value) {
        (Key::Count, Value::Count(Count::Outstanding)) if is_set(&Key::OutstandingBytes) => {
            format!("{}, without effect beside outstanding-bytes", given.origin)
        }
        _ => given.origin.to_string(),
    };
    let rows: Vec<(String, String)> = keys
        .map(|known| {
            let own = limits.iter().find(|(key, _)| *key == known.key).map(|(_, limit)| limit.to_string());
            let reason = attribute.ignore.as_ref().filter(|_| known.name == "ignore");
            let own = own.or_else(|| reason.map(|reason| Value::Reason(reason.clone()).to_string()));
            let (value, origin) = match (own, layer.get(&known.key)) {
                (Some(value), _) => (value, "#[leak_budget]".to_owned()),
                (None, Some(given)) => (given.value.to_string(), origin(known.key, given)),
                (None, None) => (default(known).to_owned(), "default".to_owned()),
            };
            (format!("{} = {value}", known.name), origin)
        })
        .collect();
    let width = rows.iter().map(|(setting, _)| setting.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(setting, origin)| format!("{setting:width$}  # {origin}\n")).collect()
}
