//! What the page shows.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::model::{CheckedTest, Finding, Frame, Outcome, OwnCode};
use crate::report::excerpt::Sources;
use crate::report::stack::{Key, key};
use crate::report::status::{Status, status};
use crate::report::{Run, View, json};
use crate::symbolize::family;

/// Lines of the source that are shown before and after one.
const AROUND: u32 = 2;

/// The document, as JSON.
pub fn document(run: &Run, view: &View) -> String {
    let mut tables = Tables { view, known: HashMap::new(), frames: Vec::new(), sources: Sources::default() };
    let mut findings = Vec::new();
    let tests: Vec<Value> = run
        .tests
        .iter()
        .enumerate()
        .map(|(index, test)| {
            let first = findings.len();
            findings.extend(tables.findings(index, test));
            let mut shown = tables.test(test);
            shown.insert("first".to_owned(), json!(first));
            shown.insert("number".to_owned(), json!(findings.len() - first));
            Value::Object(shown)
        })
        .collect();
    let lines = tables.lines();
    let page = Page {
        version: env!("CARGO_PKG_VERSION"),
        headline: run.headline(),
        run: json::document(run, None),
        tests,
        findings,
        frames: tables.frames.iter().map(|frame| shown(frame, view, &tables.sources)).collect(),
        sources: lines,
    };
    serde_json::to_string(&page).expect("plain data has a JSON form")
}

#[derive(Serialize)]
struct Page<'a> {
    version: &'static str,
    headline: String,
    /// The report without its tests.
    run: json::Document<'a>,
    tests: Vec<Value>,
    findings: Vec<Value>,
    frames: Vec<ShownFrame<'a>>,
    /// Lines of source files, by their numbers.
    sources: BTreeMap<&'a str, BTreeMap<u32, String>>,
}

/// A frame of the report, and what a page has no means to find out.
#[derive(Serialize)]
struct ShownFrame<'a> {
    #[serde(flatten)]
    frame: json::StackFrame<'a>,
    /// Whose it is, if it is not the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
    /// The marked place in its source line, in units of UTF-16.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<[usize; 2]>,
}

fn shown<'a>(frame: &'a Frame, view: &'a View, sources: &Sources) -> ShownFrame<'a> {
    let excerpt = if frame.own { sources.excerpt(frame, &view.own) } else { None };
    let units = |text: &str| text.encode_utf16().count();
    let mark = excerpt.map(|it| [units(&it.text[..it.start]), units(&it.text[..it.end])]);
    let family = if frame.own { None } else { family(frame) };
    ShownFrame { frame: json::frame(frame, view), family, mark }
}

/// What is there once, however many refer to it.
struct Tables<'a> {
    view: &'a View,
    known: HashMap<Key<'a>, usize>,
    frames: Vec<&'a Frame>,
    sources: Sources,
}

impl<'a> Tables<'a> {
    /// A call stack as numbers of frames.
    fn stack(&mut self, stack: Option<&'a Vec<Frame>>) -> Value {
        let Some(stack) = stack else { return Value::Null };
        let mut number = |frame: &'a Frame| {
            *self.known.entry(key(frame)).or_insert_with(|| {
                self.frames.push(frame);
                self.frames.len() - 1
            })
        };
        stack.iter().map(&mut number).collect()
    }

    fn findings(&mut self, index: usize, test: &'a CheckedTest) -> Vec<Value> {
        let one = |finding: &'a Finding<Vec<Frame>>| {
            let mut shown = value(&json::without_stacks(finding, self.view));
            shown["test"] = json!(index);
            let before = &finding.before;
            shown["stack"] = self.stack(finding.stack.as_ref());
            for (key, stack) in
                [("freed_first", &before.freed), ("allocated", &before.allocated), ("root", &finding.root)]
            {
                if stack.is_some() {
                    shown[key] = self.stack(stack.as_ref());
                }
            }
            shown
        };
        test.memory.findings.iter().map(one).collect()
    }

    /// A test without its findings; what one has written that has passed is left out.
    fn test(&mut self, test: &'a CheckedTest) -> Map<String, Value> {
        let mut shown = value(&json::test_with(test, self.view, Vec::new()));
        let left = &test.memory.left;
        let stacks: [(&str, Vec<Option<&'a Vec<Frame>>>); 5] = [
            ("descriptors", left.descriptors.iter().map(|it| it.stack.as_ref()).collect()),
            ("ipc", left.ipc.iter().map(|it| it.stack.as_ref()).collect()),
            ("children", left.children.iter().map(|it| it.stack.as_ref()).collect()),
            ("threads", left.threads.iter().map(|it| it.stack.as_ref()).collect()),
            ("mappings", left.mappings.iter().map(|it| it.stack.as_ref()).collect()),
        ];
        for (name, stacks) in stacks {
            for (index, stack) in stacks.into_iter().enumerate() {
                shown["kernel"][name][index]["stack"] = self.stack(stack);
            }
        }
        for (index, thread) in left.threads.iter().enumerate() {
            shown["kernel"]["threads"][index]["now"] = self.stack(thread.now.as_ref());
        }
        for (index, grown) in left.growth.iter().flat_map(|growth| &growth.grown).enumerate() {
            shown["growth"]["grown"][index]["stack"] = self.stack(grown.stack.as_ref());
        }
        for (index, allocated) in left.at_peak.iter().flat_map(|at_peak| &at_peak.stacks).enumerate() {
            shown["at_peak"]["stacks"][index]["stack"] = self.stack(allocated.stack.as_ref());
        }
        let Status { word, detail, .. } = status(test, self.view);
        shown["status"] = json!({"word": word, "detail": detail});
        let Value::Object(mut shown) = shown else { return Map::new() };
        shown.remove("findings");
        if test.outcome == Outcome::Passed {
            shown.remove("output");
        }
        shown
    }

    /// The source lines around the user's own frames.
    fn lines(&self) -> BTreeMap<&'a str, BTreeMap<u32, String>> {
        let mut files: BTreeMap<&str, BTreeMap<u32, String>> = BTreeMap::new();
        let own: &OwnCode = &self.view.own;
        for frame in self.frames.iter().filter(|frame| frame.own) {
            let Some(file) = frame.file.as_deref() else { continue };
            if let Some(lines) = self.sources.around(frame, own, AROUND) {
                files.entry(own.shown(file)).or_default().extend(lines);
            }
        }
        files
    }
}

fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).expect("plain data has a JSON form")
}
