//! The results of a run that many processes share: each writes its JSON document into one directory, and at
//! the end they are put together. A process that is killed cannot write any more; so each begins with a document
//! that says of its tests that there is no result, and takes it back with the real one.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tempfile::NamedTempFile;

use super::{Format as _, Json, Run, View, read};
use crate::error::{Error, Exit, Result};
use crate::judge;
use crate::model::{
    Acceptance, CheckedTest, Judged, Left, NotChecked, Outcome, Output, PlannedTest, Steered, Target, Totals,
    Verdict,
};
use crate::options::Recorder;
use crate::snapshot::Loss;
use crate::sys::Signal;

/// The variable that names the directory.
pub const VARIABLE: &str = "LEAKCHECK_RESULTS";

/// This process's document.
pub struct Results {
    path: Utf8PathBuf,
    planned: Vec<PlannedTest>,
}

impl Results {
    /// Writes that `tests` have no result yet.
    ///
    /// # Errors
    /// [`Error::File`] when nothing can be written into the directory.
    pub fn begin(
        directory: &Utf8Path,
        tests: &[PlannedTest],
        targets: &[Target],
        recorder: Recorder,
        view: &View,
    ) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = directory.join(format!("{}-{now}.json", std::process::id()));
        let results = Self { path, planned: tests.to_vec() };
        let run = Run {
            tests: Vec::new(),
            targets: targets.to_vec(),
            not_checked: Vec::new(),
            duration: Duration::ZERO,
            recorder,
            steered: Steered::default(),
            interrupted: false,
            exit: Exit::Incomplete,
        };
        results.write(&run, view)?;
        Ok(results)
    }

    /// Writes the results, and of all other tests that there is none.
    ///
    /// # Errors
    /// [`Error::File`] when nothing can be written into the directory.
    pub fn write(&self, run: &Run, view: &View) -> Result<()> {
        let is_known = |planned: &&PlannedTest| run.tests.iter().any(|test| is_same(&test.test, planned));
        let missing = self.planned.iter().filter(|planned| !is_known(planned)).map(unfinished);
        let whole = Run {
            tests: run.tests.iter().cloned().chain(missing).collect(),
            targets: run.targets.clone(),
            not_checked: run.not_checked.clone(),
            steered: run.steered.clone(),
            ..*run
        };
        let directory = self.path.parent().unwrap_or(Utf8Path::new("."));
        let write = || {
            let mut file = NamedTempFile::new_in(directory)?;
            file.write_all(&Json.bytes(&whole, view))?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        let failed = |source| Error::File { action: "write", path: self.path.clone(), source };
        write().map(drop).map_err(failed)
    }
}

fn is_same(one: &PlannedTest, other: &PlannedTest) -> bool {
    one.name == other.name && one.binary.path == other.binary.path
}

/// Who traces a test is ended by force, or the test would have been looked at; and with it, so is the test.
fn unfinished(test: &PlannedTest) -> CheckedTest {
    let reason = "the process that traced it was ended, or could not trace it".to_owned();
    let losses = vec![Loss::Unfinished { reason }];
    let memory = Judged {
        findings: Vec::new(),
        totals: Totals::default(),
        left: Left::default(),
        files: None,
        heap: None,
        acceptance: Acceptance::default(),
        losses: losses.clone(),
        verdict: Verdict::Incomplete(losses),
        attempts: None,
        counts: true,
    };
    CheckedTest {
        test: test.clone(),
        outcome: Outcome::Signalled { signal: Signal::SIGKILL as i32 },
        duration: Duration::ZERO,
        output: Output::default(),
        recorded_by: None,
        spawned: None,
        allocators: Vec::new(),
        memory,
    }
}

/// Reads the documents of a directory, whose relative paths are below `root`.
///
/// # Errors
/// As [`read_files`].
pub fn read_directory(directory: &Utf8Path, root: &Utf8Path) -> Result<Vec<Run>> {
    let failed = |source| Error::File { action: "list", path: directory.to_owned(), source };
    let mut paths = Vec::new();
    for entry in directory.read_dir_utf8().map_err(failed)? {
        let path = entry.map_err(failed)?.into_path();
        // What was being written when its process was killed has another name.
        if path.extension() == Some("json") {
            paths.push(path);
        }
    }
    paths.sort();
    read_files(&paths, root)
}

/// Reads documents, whose relative paths are below `root`.
///
/// # Errors
/// [`Error::File`] for one that cannot be read, [`Error::Format`] for one that is no report of this version.
pub fn read_files(paths: &[Utf8PathBuf], root: &Utf8Path) -> Result<Vec<Run>> {
    let one = |path: &Utf8PathBuf| {
        let bytes =
            fs::read(path).map_err(|source| Error::File { action: "read", path: path.clone(), source })?;
        read(&bytes, root).map_err(|problem| Error::Format {
            path: path.clone(),
            reason: format!("is no JSON report of this version of cargo leakcheck: {problem}"),
        })
    };
    paths.iter().map(one).collect()
}

/// One run of many. Attempts at one test become one result; the exit code is that of all.
pub fn merge(runs: Vec<Run>) -> Run {
    let recorder = runs.first().map_or(Recorder::Auto, |run| run.recorder);
    let duration = runs.iter().map(|run| run.duration).sum();
    let interrupted = runs.iter().any(|run| run.interrupted);
    let worst = runs.iter().map(|run| run.exit).filter(|exit| *exit >= Exit::Tool).max();
    let mut not_checked: Vec<NotChecked> = Vec::new();
    let (mut tests, mut steered) = (Vec::new(), Steered::default());
    let mut targets: Vec<Target> = Vec::new();
    for run in runs {
        tests.extend(run.tests);
        steered = steered.and(run.steered);
        for target in run.targets {
            match targets.iter_mut().find(|known| known.id == target.id && known.kind == target.kind) {
                Some(known) => known.add(target),
                None => targets.push(target),
            }
        }
        for entry in run.not_checked {
            // Each partition has them.
            if !not_checked.contains(&entry) {
                not_checked.push(entry);
            }
        }
    }
    let tests = judge::decide(tests);
    let mut exit = judge::exit(tests.iter());
    if interrupted {
        exit = exit.max(Exit::Incomplete);
    }
    let exit = worst.map_or(exit, |worst| exit.max(worst));
    Run { tests, targets, not_checked, duration, recorder, steered, interrupted, exit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Covered;
    use crate::report::testing;

    fn directory() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
        (directory, path)
    }

    #[test]
    fn a_process_that_is_killed_leaves_the_names_of_its_tests() {
        let (_directory, path) = directory();
        let tests: Vec<_> = ["ends", "hangs"].map(testing::leaking).into();
        let planned: Vec<_> = tests.iter().map(|test| test.test.clone()).collect();
        let results = Results::begin(&path, &planned, &[], Recorder::Auto, &testing::view()).unwrap();
        let run = merge(read_directory(&path, &path).unwrap());
        let seen = |run: &Run| -> Vec<_> {
            let is_known = |test: &CheckedTest| matches!(test.memory.verdict, Verdict::Leaks(_));
            run.tests.iter().map(|test| (test.test.name.as_str().to_owned(), is_known(test))).collect()
        };
        assert_eq!(seen(&run), [("ends".to_owned(), false), ("hangs".to_owned(), false)]);
        assert_eq!(run.exit, Exit::Incomplete);
        // A file that was begun and not finished.
        std::fs::write(path.join(".tmp123"), "{").unwrap();
        results.write(&testing::run(tests[..1].to_vec()), &testing::view()).unwrap();
        let run = merge(read_directory(&path, &path).unwrap());
        assert_eq!(seen(&run), [("ends".to_owned(), true), ("hangs".to_owned(), false)]);
        assert_eq!(run.exit, Exit::Incomplete);
        assert!(run.tests[1].memory.losses[0].to_string().starts_with("there is no result"));
    }

    #[test]
    fn partitions_come_to_one_run() {
        let clean = |name| testing::test(name, Outcome::Passed, Verdict::Clean);
        let mut one = testing::run(vec![testing::leaking("b")]);
        one.exit = Exit::Leaks;
        let mut other = testing::run(vec![clean("a"), clean("c")]);
        other.exit = Exit::Clean;
        other.steered.without_ebpf = Some("why".into());
        let run = merge(vec![one, other]);
        let names: Vec<_> = run.tests.iter().map(|test| test.test.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((run.exit, run.not_checked.len(), run.steered.by()), (Exit::Leaks, 1, "ptrace"));
        assert_eq!(run.duration, 2 * Duration::from_millis(1234));
        let mut failed = testing::run(vec![clean("a")]);
        failed.exit = Exit::Tool;
        assert_eq!(merge(vec![failed]).exit, Exit::Tool);
        let mut cut = testing::run(vec![clean("a")]);
        (cut.exit, cut.interrupted) = (Exit::Incomplete, true);
        assert_eq!(merge(vec![cut]).exit, Exit::Incomplete);
        assert_eq!(merge(Vec::new()).exit, Exit::NothingRan);
    }

    /// Each part of a run has all targets, and has checked some.
    #[test]
    fn a_target_is_covered_by_any_part() {
        let part = |tests: Vec<CheckedTest>, selected, covered| {
            let mut run = testing::run(tests);
            run.targets[0] = Target { selected, covered, ..run.targets[0].clone() };
            let doctests = Covered::No { reason: "doctests are not run yet".to_owned() };
            let (id, kind) = ("doctests of a".to_owned(), Target::DOCTEST);
            run.targets.push(Target { id, kind, covered: doctests, ..run.targets[0].clone() });
            run
        };
        let no = |reason: &str| Covered::No { reason: reason.to_owned() };
        let runs = || {
            (
                part(vec![], 0, no("nothing of it was selected")),
                part(vec![testing::leaking("a")], 1, Covered::ByTest),
            )
        };
        let (one, other) = runs();
        let (third, fourth) = runs();
        for runs in [vec![one, other], vec![fourth, third]] {
            let run = merge(runs);
            assert_eq!(run.targets.len(), 2);
            assert_eq!((&run.targets[0].covered, run.targets[0].selected), (&Covered::ByTest, 1));
        }
        // What was to be checked and was not says more than what was not selected.
        let run = merge(vec![runs().0, part(vec![], 2, no("no test body was entered"))]);
        assert_eq!(run.targets[0].covered, no("no test body was entered"));
    }

    #[test]
    fn what_is_no_report_is_named() {
        let (_directory, path) = directory();
        std::fs::write(path.join("x.json"), "{}").unwrap();
        let text = read_directory(&path, &path).unwrap_err().to_string();
        assert!(text.contains("x.json: is no JSON report"), "{text}");
        let text = read_files(&["/nonexistent.json".into()], &path).unwrap_err().to_string();
        assert!(text.starts_with("cannot read /nonexistent.json"), "{text}");
    }
}
