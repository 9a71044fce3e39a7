//! One trial a fixture crate: the whole report against the comments.

use std::env;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_tests::compare;
use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::marker::Rerun;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::{
    FEW_IDS, FORKED, IN_NAMESPACES, Run, SPARE, UNPRIVILEGED, Workshop, fixture_folders, open_to_all,
};
use libtest_mimic::Trial;

use crate::{Outcome, documents, processes, trial};

/// Arguments of the children that fixtures start and leave behind.
const LEFT_BEHIND: [(&str, &str); 3] =
    [("hang", "31557600.25"), ("leftovers", "31557600.5"), ("process", "31557600.75")];

/// The trials. A fixture that cannot be read is a trial that fails.
pub fn trials(workshop: &Arc<Workshop>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for folder in fixture_folders() {
        let name = folder.file_name().unwrap_or_default().to_owned();
        trials.push(trial(format!("fixture::{name}"), workshop, move |workshop| {
            let fixture = Fixture::read(&folder)?;
            let mut runs = vec![Rerun::default()];
            runs.extend(fixture.reruns.clone());
            for round in 1..=repeat()? {
                for jobs in jobs()? {
                    let recorders = recorders(&fixture.package);
                    for (rerun, recorder) in
                        runs.iter().flat_map(|rerun| recorders.iter().map(move |it| (rerun, it)))
                    {
                        let failed =
                            |problem| format!("round {round}, -j{jobs}, {recorder}, {rerun:?}:\n{problem}");
                        check(workshop, &fixture, jobs, rerun, recorder).map_err(failed)?;
                    }
                }
            }
            Ok(())
        }));
    }
    trials
}

/// A global allocator around std's own, which the ledger sees as well, but nobody knows beforehand.
const WRAPPER: &str = "other-allocators::wrapper";

/// Tests that pass the ledger by, by the starts of their binaries and names, and what the report says of it.
const PASSING: [(&str, &str, &str); 8] = [
    ("other-allocators::arena", "", "Rust's blocks come from "),
    ("other-allocators::bump", "", "Rust's blocks come from "),
    ("other-allocators::jemalloc", "", "jemalloc"),
    ("other-allocators::mimalloc", "", "mimalloc"),
    ("other-allocators::snmalloc", "", "snmalloc"),
    (WRAPPER, "", "Rust's blocks come from "),
    ("direct::direct", "", "calls __libc_malloc"),
    ("handle", "looks_it_up", "looks up the C library's malloc"),
];

/// Every recorder must find the same: all of them, or the one that `LEAKCHECK_E2E_RECORDER` names. A
/// plain user runs what starts threads and children, unwinds, ends early and opens modules. Where one binary
/// needs another recorder than the rest, the tool finds that out by itself (`auto`).
fn recorders(package: &str) -> Vec<String> {
    const AS_USER: [&str; 10] = [
        "children",
        "clean",
        "cpp",
        "endings",
        "exec-away",
        "leftovers",
        "plugin",
        "process",
        "threads",
        "tokio-tests",
    ];
    let chosen = matches!(package, "direct" | "handle" | "other-allocators").then_some("auto");
    // Without privileges its tests share one namespace, and leave what they leave to the machine.
    let container = (package != "ipc").then_some("container");
    // What goes by ids of processes, or by what a process sees of the machine.
    const FOR_NAMESPACES: [&str; 5] = ["descriptors", "ipc", "leftovers", "mappings", "process"];
    let namespaces = FOR_NAMESPACES.contains(&package).then_some(IN_NAMESPACES);
    // A new network has no loopback that is up.
    let user_namespace = namespaces.and(container).filter(|_| package != "descriptors");
    let user_namespace = user_namespace.map(|_| "user-namespace");
    let all =
        ["ledger", FORKED, "uprobe"].into_iter().chain(container).chain(namespaces).chain(user_namespace);
    let all = all.chain(namespaces.and_then(|_| few_ids()));
    // What has records of more than a few words.
    const WITH_RECORDS: [&str; 6] =
        ["descriptors", "ipc", "kernel-bytes", "leftovers", "mappings", "process"];
    let all = all.chain(WITH_RECORDS.contains(&package).then_some(SPARE));
    let all = all.chain(AS_USER.contains(&package).then_some("user")).chain(chosen);
    let wanted = env::var("LEAKCHECK_E2E_RECORDER");
    let mut recorders = wanted.map_or_else(|_| all.map(str::to_owned).collect(), |recorder| vec![recorder]);
    // Without eBPF no breakpoint is left for look-ups in a test's body, as the reports say.
    recorders.retain(|recorder| package != "handle" || !UNPRIVILEGED.contains(&recorder.as_str()));
    recorders
}

/// Where the number of process ids is that of a namespace.
fn few_ids() -> Option<&'static str> {
    const FIRST: [u32; 2] = [6, 14];
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let numbers: Vec<u32> = release.split(['.', '-']).take(2).flat_map(str::parse).collect();
    (numbers[..] >= FIRST[..]).then_some(FEW_IDS)
}

fn repeat() -> Result<usize, String> {
    let text = env::var("LEAKCHECK_E2E_REPEAT").unwrap_or("1".into());
    text.parse().map_err(|problem| format!("LEAKCHECK_E2E_REPEAT={text}: {problem}"))
}

fn jobs() -> Result<Vec<usize>, String> {
    let text = env::var("LEAKCHECK_E2E_JOBS").unwrap_or("4".into());
    let jobs: Result<_, _> = text.split(',').map(str::parse).collect();
    jobs.map_err(|problem| format!("LEAKCHECK_E2E_JOBS={text}: {problem}"))
}

/// A folder of its own for a run's files, and the arguments that every run on a fixture has.
pub struct Desk {
    folder: tempfile::TempDir,
    fixed: Vec<String>,
}

impl Desk {
    /// For a run on one crate.
    pub fn new(workshop: &Workshop, package: &str) -> Result<Self, String> {
        let manifest = workshop.fixtures().join("Cargo.toml");
        Self::of(workshop, &manifest, &workshop.target_dir(), package)
    }

    /// For a run on a crate of another workspace, which is built elsewhere: cargo would take the one's for the other's.
    pub fn of(
        workshop: &Workshop,
        manifest: &Utf8Path,
        target: &Utf8Path,
        package: &str,
    ) -> Result<Self, String> {
        let fixed =
            ["--manifest-path", manifest.as_str(), "--target-dir", target.as_str(), "--package", package];
        let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
        std::fs::create_dir(folder.path().join("tmp")).map_err(|problem| problem.to_string())?;
        let desk = Self { folder, fixed: fixed.map(str::to_owned).to_vec() };
        open_to_all(&desk.file(""))?;
        open_to_all(&desk.file("tmp"))?;
        Ok(desk)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).expect("made by us").join(name)
    }

    /// Runs the tool with both reports and a temporary folder of its own, which must be empty afterwards.
    pub fn run(
        &self,
        workshop: &Workshop,
        args: &[&str],
        variables: &[(String, String)],
    ) -> Result<(Run, Report), String> {
        let (json, junit, temporary) = (self.file("report.json"), self.file("junit.xml"), self.file("tmp"));
        let mut all: Vec<&str> = self.fixed.iter().map(String::as_str).collect();
        all.extend(["--json", json.as_str(), "--junit", junit.as_str()]);
        all.extend(args);
        let mut variables = variables.to_vec();
        variables.push(("TMPDIR".into(), temporary.to_string()));
        let run = workshop.run(&all, &variables)?;
        let problem = |problem: String| format!("{problem}\n{}", run.describe());
        let report = documents::json(&json).map_err(problem)?;
        documents::junit(&junit, &report).map_err(problem)?;
        processes::left_files(&temporary).map_err(problem)?;
        Ok((run, report))
    }
}

/// The report says what has steered the recorder, and what is off.
fn steered(report: &Report, unprivileged: bool) -> Outcome {
    let steering = &report.steering;
    let expected = match unprivileged {
        true => {
            steering.by == "ptrace" && steering.reason.as_ref().is_some_and(|why| why.contains("permitted"))
        }
        false => steering.by == "ebpf" && steering.reason.is_none(),
    };
    match expected && steering.checks_off.is_empty() != unprivileged {
        true => Ok(()),
        false => Err(format!("without privileges: {unprivileged}, but {steering:?}")),
    }
}

/// Why a test passes the ledger by.
fn passing(binary: &str, name: &str) -> Option<&'static str> {
    let found = PASSING.iter().find(|(start, test, _)| binary.starts_with(start) && name.starts_with(test));
    found.map(|(_, _, why)| *why)
}

/// Each test has been recorded by whom it was to be.
fn recorded(report: &Report, recorder: &str) -> Outcome {
    let is_uprobe = ["uprobe", SPARE].contains(&recorder);
    for test in &report.tests {
        let why = passing(&test.binary, &test.name).filter(|_| recorder == "auto");
        let chosen = why.is_some();
        let by = if is_uprobe || chosen { "uprobe" } else { "ledger" };
        let reason = test.recorder_reason.as_deref();
        let told = why.is_none_or(|why| reason.is_some_and(|reason| reason.contains(why)));
        if test.recorder.as_deref() != Some(by) || reason.is_some() != chosen || !told {
            return Err(format!("not recorded by {by}: {test:?}"));
        }
    }
    match report.recorder == if is_uprobe { "uprobe" } else { "ledger" } {
        true => Ok(()),
        false => Err(format!("the run has the recorder {}", report.recorder)),
    }
}

/// What a fixture comes to by a recorder that does not see all of it: without privileges, a test that closes
/// its memory even to its tracer, and all descriptors, IPC objects and mappings; by the ledger, a binary that passes it by.
fn as_seen_by(recorder: &str, fixture: &Fixture) -> Fixture {
    let mut fixture = fixture.clone();
    let unprivileged = UNPRIVILEGED.contains(&recorder);
    for ((binary, name), test) in &mut fixture.tests {
        // The root of a user namespace may trace it.
        let may_not = unprivileged && recorder != "user-namespace";
        let closed = may_not && name == "environment::not_dumpable";
        let passes = passing(binary, name).is_some() && binary != WRAPPER;
        if closed || passes && (unprivileged || ["ledger", FORKED].contains(&recorder)) {
            (test.verdict, test.findings_any, fixture.exit) = (Some("incomplete".into()), true, 10);
        }
    }
    for test in fixture.tests.values_mut().filter(|_| unprivileged) {
        test.descriptors.clear();
        test.ipc.clear();
        // Nor is there a limit that they could exceed.
        if !std::mem::take(&mut test.mapped).is_empty() {
            test.verdict = None;
        }
        test.left.retain(|left| !left.what.orphaned);
        // Nobody sees where they are started.
        test.left.iter_mut().for_each(|left| left.at = None);
    }
    if fixture.exit == 2 && fixture.tests.values().all(|test| test.verdict() != "leaks") {
        fixture.exit = 0;
    }
    fixture
}

fn check(workshop: &Workshop, fixture: &Fixture, jobs: usize, rerun: &Rerun, recorder: &str) -> Outcome {
    let desk = Desk::new(workshop, &fixture.package)?;
    let jobs = format!("-j{jobs}");
    let mut args = vec![jobs.as_str(), "--recorder", recorder];
    // The crate's own arguments come last: they may go on behind `--`.
    args.extend(rerun.args.iter().chain(&fixture.args).map(String::as_str));
    let (run, report) = desk.run(workshop, &args, &rerun.variables)?;
    let unprivileged = UNPRIVILEGED.contains(&recorder);
    steered(&report, unprivileged).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    recorded(&report, recorder).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    let fixture = &as_seen_by(recorder, fixture);
    let mut differences = compare::report(fixture, &report);
    if run.code != fixture.exit {
        differences += &format!("exit code {} instead of {}\n", run.code, fixture.exit);
    }
    for (_, argument) in LEFT_BEHIND.iter().filter(|(package, _)| *package == fixture.package) {
        differences += &processes::end_those_with(argument, &desk.file("tmp"));
    }
    if fixture.package == "ipc" {
        processes::left_ipc()?;
    }
    if differences.is_empty() { Ok(()) } else { Err(format!("{differences}\n{}", run.describe())) }
}
