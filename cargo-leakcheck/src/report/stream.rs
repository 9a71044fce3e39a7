//! Events for machines while a run goes on: one JSON object a line, on standard output. The reports stay what
//! counts for people and for files.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Write as _};
use std::sync::Mutex;

use serde::Serialize;

use super::json::{self, Document, Limits, Test};
use super::{Run, View};
use crate::error::{Error, Result};
use crate::model::{CheckedTest, PlannedTest};
use crate::sys::Patient;

/// Name and version of the format.
const FORMAT: &str = "leakcheck-stream/1";

/// Writes events, if anybody asked for them.
pub struct Stream {
    said: Option<Mutex<Said>>,
    view: View,
}

/// What has been said of each test, by binary and name: a later event may have to say something else.
#[derive(Default)]
struct Said {
    hasher: RandomState,
    tests: HashMap<(String, String), u64>,
    /// Why nothing more can be said.
    stopped: Option<io::Error>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    RunStarted { format: &'static str, attempt: u32, tests: usize, binaries: usize },
    TestListed { package: &'a str, binary: String, name: &'a str, budget: Box<Limits<'a>> },
    TestStarted { package: &'a str, binary: String, name: &'a str, attempt: u32 },
    TestFinished(Box<Test<'a>>),
    RunFinished(Box<Document<'a>>),
}

impl Stream {
    /// Silent, if nobody asked for it.
    pub fn new(asked_for: bool, view: View) -> Self {
        Self { said: asked_for.then(Mutex::default), view }
    }

    /// Some tests begin to run: all, or those of a further attempt.
    pub fn run_started(&self, tests: &[PlannedTest], binaries: usize) {
        let attempt = tests.first().map_or(1, |test| test.attempt);
        self.say(|| Event::RunStarted { format: FORMAT, attempt, tests: tests.len(), binaries });
    }

    /// A test would run.
    pub fn test_listed(&self, test: &PlannedTest) {
        self.say(|| Event::TestListed {
            package: &test.binary.package,
            binary: test.binary.id(),
            name: test.name.as_str(),
            budget: Box::new(Limits::of(&test.budget)),
        });
    }

    /// A test begins to run.
    pub fn test_started(&self, test: &PlannedTest) {
        self.say(|| Event::TestStarted {
            package: &test.binary.package,
            binary: test.binary.id(),
            name: test.name.as_str(),
            attempt: test.attempt,
        });
    }

    /// A test has ended. Nothing is said twice.
    pub fn test_finished(&self, test: &CheckedTest) {
        let Some(said) = &self.said else { return };
        let line = line(&Event::TestFinished(Box::new(json::test(test, &self.view))));
        let key = (test.test.binary.id(), test.test.name.as_str().to_owned());
        let mut said = said.lock().expect("nobody panics while it is held");
        let hash = said.hasher.hash_one(&line);
        if said.tests.insert(key, hash) != Some(hash) {
            said.write(&line);
        }
    }

    /// The run has ended. What has become of tests since they ended is said first: that they were run again, and what
    /// a second run has told of them.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn run_finished(self, run: &Run) -> Result<()> {
        if self.said.is_some() {
            run.tests.iter().for_each(|test| self.test_finished(test));
        }
        self.say(|| Event::RunFinished(Box::new(json::document(run, None))));
        self.end()
    }

    /// There is no more to say.
    ///
    /// # Errors
    /// Something could not be written, and there still was somebody to read it.
    pub fn end(self) -> Result<()> {
        let stopped = self.said.and_then(|said| said.into_inner().expect("nobody panics").stopped);
        match stopped {
            Some(source) if !matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::TimedOut) => {
                Err(Error::System { call: "writing events".to_owned(), source })
            }
            _ => Ok(()),
        }
    }

    fn say<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if let Some(said) = &self.said {
            said.lock().expect("nobody panics while it is held").write(&line(&event()));
        }
    }
}

impl Said {
    /// Behind a line that is not whole there comes no other. That there is nobody to write for must not end the tests.
    fn write(&mut self, line: &[u8]) {
        if self.stopped.is_none() {
            self.stopped = Patient(io::stdout()).write_all(line).err();
        }
    }
}

fn line(event: &Event<'_>) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("plain data has a JSON form");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::testing;

    /// The schema of one event, in the file of the report's.
    fn events() -> jsonschema::Validator {
        let mut schema: Value = serde_json::from_str(include_str!("../../report.schema.json")).unwrap();
        let definitions = schema["$defs"].take();
        jsonschema::draft202012::new(&serde_json::json!({"$ref": "#/$defs/event", "$defs": definitions}))
            .unwrap()
    }

    fn value(event: &Event<'_>) -> Value {
        serde_json::from_slice(&line(event)).unwrap()
    }

    #[test]
    fn events_are_what_the_schema_says() {
        let (view, schema) = (testing::view(), events());
        let leaking = testing::leaking("leaks");
        let run = testing::run(vec![leaking.clone()]);
        let (package, name, binary) = ("a", "leaks", || "a".to_owned());
        let budget = || Box::new(Limits::of(&leaking.test.budget));
        let all = [
            Event::RunStarted { format: FORMAT, attempt: 2, tests: 3, binaries: 1 },
            Event::TestListed { package, binary: binary(), name, budget: budget() },
            Event::TestStarted { package, binary: binary(), name, attempt: 1 },
            Event::TestFinished(Box::new(json::test(&leaking, &view))),
            Event::RunFinished(Box::new(json::document(&run, None))),
        ];
        let names = ["run-started", "test-listed", "test-started", "test-finished", "run-finished"];
        for (event, name) in all.iter().zip(names) {
            let event = value(event);
            assert_eq!(event["event"], name);
            schema.validate(&event).unwrap_or_else(|problem| panic!("{problem}: {event}"));
        }
        let [.., finished, whole] = all.map(|event| value(&event));
        assert_eq!(finished["definitely_lost"], serde_json::json!({"bytes": 4096, "blocks": 1}));
        assert_eq!((&whole["summary"]["leaking"], whole.get("tests")), (&1.into(), None));
        assert!(!schema.is_valid(&serde_json::json!({"event": "test-started", "name": "a"})));
    }
}
