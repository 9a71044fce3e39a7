//! The findings as static analysis tools report theirs: SARIF 2.1.0, which code scanning and editors show at the lines.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer};
use serde_json::{Value, json};

use super::excerpt::Sources;
use super::failing::{Failing, What, failing};
use super::stack::key;
use super::{Format, Run, View, leaked, text};
use crate::error::Exit;
use crate::model::{By, CheckedTest, Frame, NotChecked, Verdict};
use crate::symbolize::site;

/// Where the format is described.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// What relative paths are relative to, by the name that those who read the document know.
const ROOT: &str = "%SRCROOT%";

/// SARIF.
pub struct Sarif;

impl Format for Sarif {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let document = Document {
            schema: SCHEMA,
            version: "2.1.0",
            runs: [One {
                tool: json!({"driver": {
                    "name": "cargo-leakcheck",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "informationUri": env!("CARGO_PKG_REPOSITORY"),
                    "rules": What::ALL.map(rule),
                }}),
                column_kind: "utf16CodeUnits",
                invocations: json!([{
                    "exitCode": run.exit as u8,
                    "executionSuccessful": run.exit < Exit::Tool && !run.interrupted,
                    "toolExecutionNotifications": notifications(run),
                }]),
                results: Results { run, view },
            }],
        };
        let mut bytes = serde_json::to_vec(&document).expect("plain data has a JSON form");
        bytes.push(b'\n');
        bytes
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [One<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct One<'a> {
    tool: Value,
    column_kind: &'static str,
    invocations: Value,
    results: Results<'a>,
}

/// All results, of which one is made at a time: there can be many, with long call stacks.
struct Results<'a> {
    run: &'a Run,
    view: &'a View,
}

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sources = Sources::default();
        let mut frames = HashMap::new();
        let mut results = serializer.serialize_seq(None)?;
        for test in &self.run.tests {
            for it in failing(test, self.view) {
                let stack = it.stack.map_or(&[][..], |stack| leaked::started(stack));
                for frame in stack {
                    frames.entry(key(frame)).or_insert_with(|| stack_frame(frame, self.view, &sources));
                }
                let stack =
                    Stack { frames: stack.iter().filter_map(|frame| frames.get(&key(frame))).collect() };
                let stacks = if stack.frames.is_empty() { Vec::new() } else { vec![stack] };
                let result = result(test, &it, self.view, &sources);
                results.serialize_element(&Row { result, stacks })?;
            }
        }
        results.end()
    }
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    result: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<Stack<'a>>,
}

#[derive(Serialize)]
struct Stack<'a> {
    frames: Vec<&'a Value>,
}

/// `definitely-lost`.
fn id(what: What) -> String {
    what.name().to_lowercase().replace(' ', "-")
}

fn rule(what: What) -> Value {
    json!({"id": id(what), "shortDescription": {"text": what.name()}})
}

fn result(test: &CheckedTest, it: &Failing<'_>, view: &View, sources: &Sources) -> Value {
    let acceptance = &test.memory.acceptance;
    let accepted = it.item.and_then(|item| acceptance.items.get(&item));
    let is_accepted = accepted.is_some_and(|accepted| accepted.measure == it.measure);
    let fails = matches!(test.memory.verdict, Verdict::Leaks(_)) && test.memory.counts && !is_accepted;
    let which = if it.which.is_empty() { String::new() } else { format!(": {}", it.which) };
    let message = format!("{}{which}, in test {}", it.what.amount(it.measure), text::line(&test.test.id()));
    let site = it.stack.and_then(|frames| site(frames, &view.own));
    let mut result = json!({
        "ruleId": id(it.what),
        "ruleIndex": What::ALL.iter().position(|what| *what == it.what),
        // What is within a budget, is accepted, or does not count, is no mistake.
        "level": if fails { "error" } else { "note" },
        "message": {"text": message},
        "locations": site.and_then(|site| location(site, view, sources)).into_iter().collect::<Vec<_>>(),
        "properties": {
            "package": test.test.binary.package,
            "binary": test.test.binary.id(),
            "test": test.test.name.as_str(),
            "bytes": it.measure.bytes,
            "blocks": it.measure.blocks,
        },
    });
    let state = match accepted.map(|accepted| &accepted.by) {
        Some(By::Baseline) => Some(if is_accepted { "unchanged" } else { "updated" }),
        Some(By::Rule(_) | By::Code(_)) => None,
        None => acceptance.baseline.map(|_| "new"),
    };
    if let Some(state) = state {
        result["baselineState"] = json!(state);
    }
    let suppression = match accepted.filter(|_| is_accepted).map(|accepted| &accepted.by) {
        Some(By::Rule(rule)) => Some(("external", format!("rule '{}'", text::line(rule)))),
        Some(By::Code(place)) => Some(("inSource", format!("leakcheck::ignore at {}", text::line(place)))),
        Some(By::Baseline) | None => None,
    };
    if let Some((kind, why)) = suppression {
        result["suppressions"] = json!([{"kind": kind, "status": "accepted", "justification": why}]);
    }
    result
}

fn stack_frame(frame: &Frame, view: &View, sources: &Sources) -> Value {
    let name = leaked::name(frame);
    let mut location = location(frame, view, sources).unwrap_or_else(|| json!({}));
    location["logicalLocations"] = json!([{"fullyQualifiedName": name, "kind": "function"}]);
    let mut shown = json!({"location": location});
    if let Some(module) = &frame.module {
        shown["module"] = json!(text::line(module));
    }
    shown
}

/// Where a frame is in a source file, if that is known.
fn location(frame: &Frame, view: &View, sources: &Sources) -> Option<Value> {
    let file = view.own.shown(frame.file.as_deref()?);
    let artifact = match file.strip_prefix('/') {
        Some(_) => json!({"uri": format!("file://{}", uri(file))}),
        None => json!({"uri": uri(file), "uriBaseId": ROOT}),
    };
    let mut physical = json!({"artifactLocation": artifact});
    if let Some(line) = frame.line.filter(|line| *line > 0) {
        physical["region"] = json!({"startLine": line});
        if let Some(column) = column(frame, view, sources) {
            physical["region"]["startColumn"] = json!(column);
        }
    }
    Some(json!({"physicalLocation": physical}))
}

/// The column in units of UTF-16; debug information has it in bytes.
fn column(frame: &Frame, view: &View, sources: &Sources) -> Option<usize> {
    let column = frame.column.filter(|column| *column > 0)?;
    match sources.excerpt(frame, &view.own) {
        Some(excerpt) => Some(excerpt.text[..excerpt.start].encode_utf16().count() + 1),
        None => usize::try_from(column).ok(),
    }
}

/// A path as part of a URI.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// What was not seen, and what was not checked.
fn notifications(run: &Run) -> Vec<Value> {
    let say = |text: String| json!({"level": "warning", "message": {"text": text::line(&text)}});
    let mut said = Vec::new();
    for test in &run.tests {
        match &test.memory.verdict {
            Verdict::Incomplete(losses) => {
                said.extend(losses.iter().map(|loss| say(format!("{}: {loss}", test.test.id()))));
            }
            Verdict::NotChecked(reason) => {
                said.push(say(format!("{}: not checked: {reason}", test.test.id())))
            }
            Verdict::Clean | Verdict::Leaks(_) => {}
        }
    }
    let not_checked = run.not_checked.iter();
    said.extend(not_checked.map(|NotChecked { what, reason }| say(format!("{what}: not checked: {reason}"))));
    said.extend(run.steered.checks_off().iter().map(|what| say(format!("not checked: {what}"))));
    if run.interrupted {
        said.push(say("interrupted before all tests had run".to_owned()));
    }
    said
}
