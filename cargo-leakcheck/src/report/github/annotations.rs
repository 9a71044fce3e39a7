//! Annotations: one for each place that something was left from, by the runner's workflow commands.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::model::{Frame, Measure, Verdict};
use crate::report::failing::{Failing, What, failing};
use crate::report::{Run, View, accepted, text};
use crate::symbolize::site;

/// GitHub shows no more of a step.
const MOST: usize = 10;
/// Tests that an annotation names.
const NAMED: usize = 3;

/// A line of the user's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Relative to the repository.
    file: String,
    line: u32,
    column: Option<u32>,
}

/// What was left from one place.
#[derive(Debug, Default)]
struct Item {
    measure: Measure,
    tests: Vec<String>,
    /// The types that the blocks were allocated for; none among them where one is not known.
    types: Vec<Option<String>>,
}

/// The commands, a line each, for what fails tests: the largest first. `repository` is where the repository has
/// been checked out.
pub fn annotations(run: &Run, view: &View, repository: &Utf8Path) -> String {
    let mut items: BTreeMap<(Option<Place>, What), Item> = BTreeMap::new();
    for test in &run.tests {
        if !matches!(test.memory.verdict, Verdict::Leaks(_)) || !test.memory.counts {
            continue;
        }
        let name = test.test.id();
        for Failing { what, measure, stack, type_name, .. } in failing(&accepted::counted(test), view) {
            let place = stack.and_then(|frames| place(frames, view, repository));
            let item = items.entry((place, what)).or_default();
            item.measure = item.measure + measure;
            if !item.types.contains(&type_name) {
                item.types.push(type_name);
            }
            if item.tests.last() != Some(&name) {
                item.tests.push(name.clone());
            }
        }
    }
    let mut items: Vec<_> = items.into_iter().collect();
    items.sort_by_key(|(_, item)| Reverse((item.measure.bytes, item.measure.blocks)));
    let commands = items.iter().take(MOST).map(|((place, what), item)| command(place.as_ref(), *what, item));
    commands.collect()
}

/// The user's line, where it is one of the repository.
fn place(frames: &[Frame], view: &View, repository: &Utf8Path) -> Option<Place> {
    let site = site(frames, &view.own)?;
    let file = view.own.root.join(site.file.as_deref()?);
    let file = file.strip_prefix(repository).ok()?;
    Some(Place { file: file.to_string(), line: site.line?, column: site.column })
}

/// `::error file=src/lib.rs,line=12,col=9,title=…::…`
fn command(place: Option<&Place>, what: What, Item { measure, tests, types }: &Item) -> String {
    let of = match types.as_slice() {
        [Some(name)] if what.is_memory() => format!(" of {}", text::line(name)),
        _ => String::new(),
    };
    let title = what.amount(*measure) + &of;
    let mut message = format!("in {}", tests[..tests.len().min(NAMED)].join(", "));
    if tests.len() > NAMED {
        message += &format!(" and {}", text::count((tests.len() - NAMED) as u64, "more test"));
    }
    let mut properties = Vec::new();
    if let Some(Place { file, line, column }) = place {
        properties.extend([format!("file={}", property(file)), format!("line={line}")]);
        properties.extend(column.map(|column| format!("col={column}")));
    }
    properties.push(format!("title={}", property(&title)));
    format!("::error {}::{}\n", properties.join(","), data(&message))
}

/// As the runner takes it (actions/toolkit, packages/core/src/command.ts): the text behind the command.
fn data(value: &str) -> String {
    value.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The same of a value in front of that.
fn property(value: &str) -> String {
    data(value).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
#[path = "annotations_tests.rs"]
mod tests;
