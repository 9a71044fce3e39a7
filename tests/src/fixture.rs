//! What a fixture crate (or a single program) must come to.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use crate::marker::{Amount, Announced, Body, Kind, Left, Mapped, Object, Open, Remains, Rerun};
use crate::report::Heap;
use crate::source::{Placed, Source};

/// Binary and name of a test.
pub type TestKey = (String, String);

/// A finding that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What the comment announces.
    pub what: Announced,
    /// The file, from the crate's folder on: `forget/src/lib.rs`.
    pub file: Utf8PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Descriptors that must be left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedOpen {
    /// What the comment announces.
    pub what: Open,
    /// The file, from the crate's folder on.
    pub file: Utf8PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// IPC objects that must be left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedObject {
    /// What the comment announces.
    pub what: Object,
    /// The file, from the crate's folder on.
    pub file: Utf8PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Memory that must be left mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMapped {
    /// What the comment announces.
    pub what: Mapped,
    /// The file, from the crate's folder on.
    pub file: Utf8PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Processes or threads that must be left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedLeft {
    /// What the comment announces.
    pub what: Left,
    /// The file and the line, from 1; none where nobody sees where they were started.
    pub at: Option<(Utf8PathBuf, usize)>,
}

/// What one test must come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedTest {
    /// Whole list of findings.
    pub findings: Vec<Expected>,
    /// Whole list of descriptors left open.
    pub descriptors: Vec<ExpectedOpen>,
    /// Whole list of IPC objects left behind.
    pub ipc: Vec<ExpectedObject>,
    /// Whole list of processes and threads left.
    pub left: Vec<ExpectedLeft>,
    /// Whole list of what is left mapped.
    pub mapped: Vec<ExpectedMapped>,
    /// Timers left.
    pub timers: usize,
    /// What it allocates, if that is to be compared.
    pub heap: Option<Heap>,
    /// Files left in its temporary directory.
    pub files: u64,
    /// As the report says it; by default `passed`.
    pub outcome: Option<String>,
    /// As the report says it, or `any`; by default what the findings come to.
    pub verdict: Option<String>,
    /// The findings do not matter.
    pub findings_any: bool,
}

impl ExpectedTest {
    /// The verdict: by default, a test leaks when bytes are definitely or indirectly lost, or descriptors
    /// or IPC objects or child processes left.
    pub fn verdict(&self) -> &str {
        let lost = |expected: &Expected| {
            matches!(expected.what.kind, Kind::DefinitelyLost | Kind::IndirectlyLost)
                && matches!(expected.what.amount, Amount::Exactly { bytes: 1.., .. })
        };
        let open = self.descriptors.iter().any(|open| !open.what.once);
        let child = self.left.iter().any(|left| left.what.what != Remains::Thread);
        let leaks = self.findings.iter().any(lost) || open || !self.ipc.is_empty() || child;
        let by_default = if leaks { "leaks" } else { "clean" };
        self.verdict.as_deref().unwrap_or(by_default)
    }
}

/// What a crate must come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixture {
    /// The package.
    pub package: String,
    /// Every test that must be in the report, and no other.
    pub tests: BTreeMap<TestKey, ExpectedTest>,
    /// The tool's exit code.
    pub exit: i32,
    /// More arguments for the tool.
    pub args: Vec<String>,
    /// More runs, with the same result.
    pub reruns: Vec<Rerun>,
    /// Texts that the list of what was not checked must contain.
    pub not_checked: Vec<String>,
}

impl Fixture {
    /// Reads the sources of the crate in `folder`, whose name is its package's.
    pub fn read(folder: &Utf8Path) -> Result<Self, String> {
        let package = folder.file_name().ok_or("the folder has no name")?.to_owned();
        let mut builder = Builder { fixture: Self { package, ..Self::default() }, ..Builder::default() };
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        files.sort();
        for file in files {
            let inside = file.strip_prefix(folder).map_err(|problem| problem.to_string())?;
            let text = fs::read_to_string(&file).map_err(|problem| problem.to_string())?;
            builder.file(inside, &text).map_err(|problem| format!("{file}: {problem}"))?;
        }
        builder.finish().map_err(|problem| format!("{folder}: {problem}"))
    }

    /// Reads a C program, which is its own only test, named after the file.
    pub fn read_program(file: &Utf8Path) -> Result<ExpectedTest, String> {
        let name = file.file_stem().ok_or("the file has no name")?.to_owned();
        let mut builder =
            Builder { fixture: Self { package: name.clone(), ..Self::default() }, ..Builder::default() };
        let key = (name.clone(), name.clone());
        builder.fixture.tests.insert(key.clone(), ExpectedTest::default());
        let text = fs::read_to_string(file).map_err(|problem| problem.to_string())?;
        let folder = file.parent().and_then(Utf8Path::file_name).unwrap_or_default();
        builder.package_folder = Some(folder.to_owned());
        builder.exit = Some(0);
        let inside = Utf8PathBuf::from(file.file_name().unwrap_or_default());
        builder.file(&inside, &text).map_err(|problem| format!("{file}: {problem}"))?;
        let mut fixture = builder.finish().map_err(|problem| format!("{file}: {problem}"))?;
        fixture.tests.remove(&key).ok_or_else(|| format!("{file}: no such test"))
    }
}

fn collect(folder: &Utf8Path, files: &mut Vec<Utf8PathBuf>) -> Result<(), String> {
    for entry in folder.read_dir_utf8().map_err(|problem| format!("{folder}: {problem}"))? {
        let path = entry.map_err(|problem| problem.to_string())?.into_path();
        if path.is_dir() && path.file_name() != Some("target") {
            collect(&path, files)?;
        } else if matches!(path.extension(), Some("rs" | "c" | "cpp")) && path.file_name() != Some("build.rs")
        {
            files.push(path);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Builder {
    fixture: Fixture,
    package_folder: Option<String>,
    exit: Option<i32>,
    /// Findings and so on whose tests are named, with the place they stand at; assigned at the end.
    named: Vec<(Utf8PathBuf, Placed)>,
    ignored: Vec<TestKey>,
}

impl Builder {
    fn file(&mut self, inside: &Utf8Path, text: &str) -> Result<(), String> {
        let is_rust = inside.extension() == Some("rs");
        let source = Source::parse(text, is_rust)?;
        let folder = self.package_folder.as_ref().unwrap_or(&self.fixture.package);
        let place = Utf8Path::new(folder).join(inside);
        let (binary, module) = self.binary(inside)?;
        let keys: Vec<TestKey> =
            source.tests.iter().map(|test| (binary.clone(), format!("{module}{}", test.name))).collect();
        for (test, key) in source.tests.iter().zip(&keys) {
            self.fixture.tests.insert(key.clone(), ExpectedTest::default());
            if test.ignored {
                self.ignored.push(key.clone());
            }
        }
        // A target without libtest: its tests are those that its markers name.
        if is_rust && inside.starts_with("tests") && source.tests.is_empty() {
            for name in source.markers.iter().flat_map(|placed| &placed.marker.tests) {
                self.fixture.tests.entry((binary.clone(), name.clone())).or_default();
            }
        }
        for placed in source.markers {
            let at = placed.line;
            self.place(&place, &keys, placed).map_err(|problem| format!("line {at}: {problem}"))?;
        }
        Ok(())
    }

    /// Binary and module path of the tests in a file.
    fn binary(&self, inside: &Utf8Path) -> Result<(String, String), String> {
        let package = &self.fixture.package;
        let stem = inside.file_stem().unwrap_or_default();
        match inside.parent().map(Utf8Path::as_str) {
            Some("src") if stem == "lib" => Ok((package.clone(), String::new())),
            Some("src") => Ok((package.clone(), format!("{stem}::"))),
            Some("tests") => Ok((format!("{package}::{stem}"), String::new())),
            _ if inside.extension() == Some("rs") => Err("Rust files stand in src and tests".into()),
            _ => Ok((package.clone(), String::new())),
        }
    }

    fn place(&mut self, file: &Utf8Path, keys: &[TestKey], placed: Placed) -> Result<(), String> {
        match placed.marker.body {
            Body::CrateExit(code) if self.exit.is_none() => self.exit = Some(code),
            Body::CrateExit(_) => return Err("the exit code is given twice".into()),
            Body::CrateArgs(args) => self.fixture.args.extend(args),
            Body::CrateRerun(rerun) => self.fixture.reruns.push(rerun),
            Body::CrateNotChecked(text) => self.fixture.not_checked.push(text),
            _ if !placed.marker.tests.is_empty() => self.named.push((file.to_owned(), placed)),
            _ => {
                let index = placed.inside.ok_or("outside of tests a marker names its tests: `[test]`")?;
                self.assign(&keys[index].clone(), file, &placed);
            }
        }
        Ok(())
    }

    fn assign(&mut self, key: &TestKey, file: &Utf8Path, placed: &Placed) {
        let test = self.fixture.tests.entry(key.clone()).or_default();
        match placed.marker.body.clone() {
            Body::Finding(what) => {
                test.findings.push(Expected { what, file: file.to_owned(), line: placed.line });
            }
            Body::Open(what) => {
                test.descriptors.push(ExpectedOpen { what, file: file.to_owned(), line: placed.line });
            }
            Body::Object(what) => {
                test.ipc.push(ExpectedObject { what, file: file.to_owned(), line: placed.line });
            }
            Body::Mapped(what) => {
                test.mapped.push(ExpectedMapped { what, file: file.to_owned(), line: placed.line });
            }
            Body::Left(what) => {
                test.left.push(ExpectedLeft { what, at: Some((file.to_owned(), placed.line)) });
            }
            Body::Timers(timers) => test.timers = timers,
            Body::Heap(heap) => test.heap = Some(heap),
            Body::Outcome(outcome) => test.outcome = Some(outcome),
            Body::Verdict(verdict) => test.verdict = Some(verdict),
            Body::Files(count) => test.files = count,
            Body::FindingsAny => test.findings_any = true,
            Body::CrateExit(_) | Body::CrateArgs(_) | Body::CrateRerun(_) | Body::CrateNotChecked(_) => {}
        }
    }

    fn finish(mut self) -> Result<Fixture, String> {
        for (file, placed) in std::mem::take(&mut self.named) {
            for name in &placed.marker.tests {
                let suffix = format!("::{name}");
                let fits = |key: &&TestKey| key.1 == *name || key.1.ends_with(&suffix);
                let mut keys = self.fixture.tests.keys().filter(fits).cloned();
                // A target's own file means the target's own test of that name.
                let own = format!("::{}", file.file_stem().unwrap_or_default());
                let key = match (keys.next(), keys.next()) {
                    (Some(key), None) => key,
                    (None, _) => {
                        return Err(format!("{file}, line {}: there is no test `{name}`", placed.line));
                    }
                    _ => self
                        .fixture
                        .tests
                        .keys()
                        .find(|key| key.0.ends_with(&own) && fits(key))
                        .cloned()
                        .ok_or_else(|| {
                            format!("{file}, line {}: several tests are called `{name}`", placed.line)
                        })?,
                };
                self.assign(&key, &file, &placed);
            }
        }
        if !self.fixture.args.iter().any(|arg| arg == "--include-ignored" || arg == "--ignored") {
            for key in &self.ignored {
                self.fixture.tests.remove(key);
            }
        }
        self.fixture.exit = self.exit.ok_or("`//~ crate exit:` is missing")?;
        Ok(self.fixture)
    }
}
